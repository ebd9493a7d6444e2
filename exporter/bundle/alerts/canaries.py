"""Whether the canary queries work: what they say is only as good as they are."""

from __future__ import annotations

from exporter.bundle.alerts.asking import OPERATION, PERCENT, SECONDS, asked
from exporter.bundle.alerts.rules import Alert, Group, Record, Severity
from exporter.bundle.alerts.thresholds import Thresholds
from exporter.bundle.alerts.vectors import DROPPED, OF_PAIR, OF_TARGET, newest

FAILURES = "target_pair_operation_variant:tde_canary_failures:ratio_rate1h"
RUNS = "target_pair_operation_variant:tde_canary_runs:increase1h"
INTERVAL = "target_pair_operation_variant:tde_canary_interval:seconds"
_PAIR = ("job", "target", "pair")
_SIDE = "{{ $labels.variant }} side of {{ $labels.operation }} on {{ $labels.target }}, pair {{ $labels.pair }}"
_FEWEST_FAILURES = 5


def records(v: Thresholds) -> tuple[Group, ...]:
    """What the alerts of this module read."""
    runs, failures = "tde_canary_runs_total", "tde_canary_run_failures_total"
    hour = v.span(3600)
    failing = Record(
        FAILURES,
        f"""
                sum without ({DROPPED}, reason) (rate({failures}[{hour}]))
                /
                (sum without ({DROPPED}) (rate({runs}[{hour}])) > 0)
                """,
        "Share of canary queries that failed.",
    )
    slow = (
        Record(
            RUNS, f"sum without ({DROPPED}) (increase({runs}[{hour}]))", "Canary queries of an hour, for the next one."
        ),
        Record(
            INTERVAL,
            f"{v.seconds(3600)} / avg_over_time({RUNS}[{v.span(3 * 86400)}])",
            "Time from query to query, on average over three days; infinite when there was none.",
        ),
    )
    return (
        Group("tde-canary-recording", (failing,), interval=60),
        Group("tde-canary-recording-slow", slow, interval=180),
    )


def groups(v: Thresholds) -> tuple[Group, ...]:
    """The alerts about canaries and pairs."""
    return (Group("tde-canary", (_failing(), *_silent(v), *_worthless(v))),)


def _failing() -> Alert:
    return Alert(
        "TDEEncryptedSideFailing",
        Severity.CRITICAL,
        "canary",
        f"{newest('tde_canary_encrypted_failing')} == 1",
        "Encrypted data of {{ $labels.target }} cannot be read, plain data can",
        "On {{ $labels.target }}, pair {{ $labels.pair }}, queries on the encrypted table fail while the same queries on its plain "
        "twin work: the key or the encryption is the cause, and users of encrypted data see errors or soon will. Look at the "
        "keystore and the database's log first. Do not drop or re-create anything: if only the key is missing, the data is "
        "intact.",
        keep=300,
        shows=_PAIR,
    )


def _silent(v: Thresholds) -> tuple[Alert, ...]:
    least, most = v.seconds(v.canary_stale_after), v.seconds(86400)
    return (
        Alert(
            "TDECanaryStale",
            Severity.WARNING,
            "canary",
            f"""
            time() - {newest("tde_canary_last_success_timestamp_seconds")}
            > clamp(3 * {INTERVAL}, {least}, {most})
            unless on ({OF_TARGET})
            {newest("tde_target_up")} == 0
            """,
            f"No canary has succeeded for {SECONDS} on the {_SIDE}",
            f"On the {_SIDE}, no query has succeeded for {SECONDS}, so what is shown for it is old or missing. Look at "
            "tde_canary_run_failures_total (it fails) and tde_exporter_runs_skipped_total (it is not run: budget, back-off) "
            "first; `tde-exporter once {{ $labels.target }}` tries it now.",
            wait=300,
            keep=300,
            shows=OPERATION,
        ),
        Alert(
            "TDECanaryFailing",
            Severity.WARNING,
            "canary",
            f"""
            {FAILURES} > {v.canary_failure_ratio:.15g}
            and ignoring (reason)
            sum without ({DROPPED}, reason) (increase(tde_canary_run_failures_total[{v.span(3600)}])) >= {_FEWEST_FAILURES}
            unless on ({OF_PAIR})
            max without ({DROPPED}) (max_over_time(tde_canary_encrypted_failing[{v.span(3600)}])) == 1
            """,
            f"{PERCENT} of the canaries fail on the {_SIDE}",
            f"Within an hour {PERCENT} of the queries on the {_SIDE}, failed; users of that database may see the same errors. The label "
            "reason of tde_canary_run_failures_total says why: timeout and lock_timeout speak of load, permission and query of a "
            "change. Compare with the other variant: if both fail, encryption is not the cause.",
            wait=900,
            keep=600,
            shows=OPERATION,
        ),
    )


def _worthless(v: Thresholds) -> tuple[Alert, ...]:
    samples = asked("tde_pair_info", _PAIR, "", "{{ (. | first).Labels.decrypt_source }}", "unknown")
    return (
        Alert(
            "TDECanaryBlind",
            Severity.WARNING,
            "canary",
            f"min without ({DROPPED}, operation) (tde_canary_blind) == 1",
            "No canary of {{ $labels.target }}, pair {{ $labels.pair }}, decrypts anything",
            "All queries on pair {{ $labels.pair }} of {{ $labels.target }} found what they read in memory, already decrypted (decrypts "
            f"known by: {samples}), so their overhead says nothing about encryption. Make the twins larger than the cache, or add an "
            "operation that reads from storage.",
            wait=v.canary_blind_for,
            keep=900,
            shows=_PAIR,
        ),
        Alert(
            "TDEPairInvalid",
            Severity.WARNING,
            "canary",
            f"{newest('tde_pair_valid')} == 0",
            "The twins of {{ $labels.target }}, pair {{ $labels.pair }}, cannot be compared",
            "The two tables of pair {{ $labels.pair }} on {{ $labels.target }} do not hold the same data, or not one of them is encrypted "
            "and the other plain, so no overhead is measured. `tde-exporter verify {{ $labels.target }}` says what is wrong; "
            "`tde-exporter provision {{ $labels.target }}` makes what is missing.",
            wait=v.pair_invalid_for,
            keep=300,
            shows=_PAIR,
        ),
    )
