"""`docs/metrics.md`, made from the catalogue so that it cannot be wrong."""

from __future__ import annotations

from exporter.domain.errors import Reason
from exporter.domain.events import EventKind
from exporter.domain.states import KeystoreState, LagKind
from exporter.exposition.catalogue import CATALOGUE, DAY, WINDOW, Kind, Metric, Section
from exporter.overhead.evidence import CRITICAL_THRESHOLD
from exporter.overhead.two_level import DEFAULT_TAU
from exporter.overhead.windows import PERCENTILES
from exporter.overhead.words import DEFAULT_THRESHOLD, Word
from exporter.probing.messages import BUDGETS, COLLECTORS, SKIP_REASONS

_HEAD = f"""# Metrics

<!-- Generated from exporter/exposition/catalogue.py by tools/generate_references.py; do not edit. -->

What `/metrics` shows, in base units. `/metrics` never asks a database: it hands out the newest page, which
is rendered when something changed. OpenMetrics and the older text format are served by negotiation.

## How to read it

- **Unknown is not zero.** What could not be read has no sample. A counter that an engine cannot fill does
  not exist; a bound that the samples do not give does not exist.
- **Gauges expire.** When a target cannot be read, its gauges are gone after two intervals of the collector
  that they come from (`intervals.canary`, `intervals.encryption_state`, `intervals.activity` or `intervals.standby`,
  3 seconds at least). Counters, `tde_target_up`, `tde_standby_configured`, `tde_standby_lag_known` and everything named
  `_timestamp_seconds` stay. While its probe process is down, all
  gauges of a target are absent at once, `tde_target_up` too: nobody knows.
- **A breach is latched.** `tde_overhead_breach` stays as it is, 0 or 1, while nothing can be measured: through silence,
  pairs that are not valid, outages, a probe process or an exporter that is down. `tde_overhead_state` says why nothing
  can be told meanwhile: `held` while the target cannot be used, `no_data` while no samples arrive.
- **Overhead exists only while its pair is valid** (`tde_pair_valid` is 1), and starts anew when something
  changed that must not be mixed: another key, another algorithm, other data.
- **Against a baseline.** `tde_baseline_overhead_ratio` compares with what was frozen before something changed;
  [baselines.md](baselines.md) says how. Without a baseline it is absent, and the comparison of the twins stands alone.
- **A ratio comes with its interval.** `_lower` and `_upper` are the two-sided 95 % interval. It allows for two
  things: how well this window knows its own ratio, and how much ratios differ from one window or start to the
  next (a standard deviation of {100 * DEFAULT_TAU:g} % is assumed). A ratio whose lower bound is not above 1 has not been
  shown to cost anything. Where `tde_canary_blind` is 1 the ratio is a true measurement, but of nothing encrypted.
- **Two methods.** Bursts (`operations.*.samples` above 1) are compared by paired exceedance at each percentile, over the whole
  5-minute blocks of the window. Operations measured one query a tick, and CPU, are compared by the Hodges-Lehmann estimate over units of
  two ticks, one in each order. `tde_overhead_samples` counts single queries on one side, whatever the method.
- **A lag is how long something has been waiting**, not how much: 0 means that the standby has everything that was
  written. It counts only from what was written, so a heartbeat that could not be written adds none; and it is unknown,
  not 0, while a standby does not run. `tde_standby_lag_known` tells the two apart.
- **Sums of the instance** (`tde_instance_*_total`) are handed on as the database tells them. They begin anew at 0
  when it is restarted, which `rate()` and `increase()` allow for.
- **Counters start at 0** for every configured pair, operation and variant. Reasons of failures appear when
  they first occur, except for those that their text names.

## Labels

| label | values |
|---|---|
| `target` | configured name of the database |
| `engine` | kind of database |
| `pair` | configured name of the twin pair |
| `operation` | name of the canary operation |
| `variant` | `encrypted` or `plain`: what verification found, whatever the configuration says |
| `percentile` | {", ".join(f"`{percentile}`" for percentile in PERCENTILES)}; `95` for operations with `percentile_95: true`; operations measured one query a tick have `50` only |
| `window` | `{WINDOW}`: the last hour, up to now; `{DAY}`: the last 24 whole hours, so it begins after the first of them |
| `reference` | what encrypted / plain is held against: `plain`, the twin now; `baseline`, what the twins differed by before |
| `threshold` | how many times the reference is too much: `{DEFAULT_THRESHOLD}` (a ticket), `{CRITICAL_THRESHOLD}` (an alarm) |
| `phase` | of a canary query: `execute`, `fetch`, `commit`; in `tde_pair_info`, as found: `aa` (both twins still plain), `enabled` |
| `reason` | {", ".join(f"`{reason.value}`" for reason in Reason)}; for skipped runs {", ".join(f"`{cause}`" for cause in SKIP_REASONS)} |
| `unit`, `source` | what is counted (`block`, `value`), and whether the engine counts it (`counter`) or it is derived (`proxy`) |
| `state` | of an operation: {", ".join(f"`{word.value}`" for word in Word)}, all always present; of a keystore: {", ".join(f"`{state.value}`" for state in KeystoreState)}, all always present; of objects: `encrypted`, `plain`, `pending`, `in_progress`, `unknown` |
| `budget` | {", ".join(f"`{budget}`" for budget in BUDGETS)} |
| `collector` | {", ".join(f"`{collector}`" for collector in COLLECTORS)} |
| `standby` | configured name of the standby |
| `event` | id of an event; the same event always has the same |
| `kind` | of an event: {", ".join(f"`{kind.value}`" for kind in EventKind)}; of a lag: {", ".join(f"`{kind.value}`" for kind in LagKind)}; of objects: what is counted, such as `database`; of what lies in the clear: `index`, `materialized_view`, `lob`, `temp`, `log` |
| `channel` | replication channel of a standby, only where it has a name; the others have no such label |
| `object` | what is being converted, by the name that the database gives it |
| `thread` | number of the log thread; `1` where the database writes one log |
| `stage` | `received`, `applied` |
| `process` | number of the probe process |
"""

_TAIL = """## Of the Python client library

`process_*` (CPU, memory, open files of the serving process) and `python_*` (version, garbage collection).
Created-timestamp series are not exposed.
"""


def markdown() -> str:
    """The whole reference."""
    return "\n".join([_HEAD, *(_section(section) for section in Section), _TAIL])


def _section(section: Section) -> str:
    rows = [_row(metric) for metric in CATALOGUE.values() if metric.section is section]
    return "\n".join(
        [f"## {section.value}", "", "| metric | type | labels | meaning |", "|---|---|---|---|", *rows, ""]
    )


def _row(metric: Metric) -> str:
    kind = "gauge, always 1" if metric.kind is Kind.INFO else metric.kind.value
    if metric.unit:
        kind = f"{kind}, {metric.unit}"
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    return f"| `{metric.name}` | {kind} | {labels} | {metric.help.replace('|', chr(92) + '|')} |"
