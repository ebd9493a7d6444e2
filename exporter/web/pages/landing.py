"""The landing page: who is watched, what encryption costs there, and how sure that is.

Everything that comes from outside passes through `html.escape`. Unknown is written as a dash or in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import NamedTuple

from exporter.overhead import formats
from exporter.overhead.formats import UNKNOWN
from exporter.overhead.ratio import Ratio
from exporter.overhead.words import DEFAULT_THRESHOLD
from exporter.web.pages import events, instances, standbys
from exporter.web.pages.cells import cell, chip
from exporter.web.pages.chart import Scale, picture
from exporter.web.pages.events import EventRow
from exporter.web.pages.instances import InstanceRow
from exporter.web.pages.standbys import StandbyRow
from exporter.web.pages.style import STYLE
from exporter.web.pages.words import VERDICTS, verdict

REFRESH_SECONDS = 10
BREACH = "breach"

FAVICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    b'<rect width="32" height="32" rx="7" fill="#0a63a8"/>'
    b'<rect x="7" y="15" width="7" height="10" rx="1.5" fill="#fff" opacity=".65"/>'
    b'<rect x="18" y="8" width="7" height="17" rx="1.5" fill="#fff"/></svg>'
)


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair of twins as last verified; `valid` None is not verified yet, `words` what is wrong or known."""

    name: str
    valid: bool | None
    words: str = ""


@dataclass(frozen=True, slots=True)
class KeystoreRow:
    """A keystore now. `keys` is the number of keys in use, `missing` those of them that it cannot give; None: unknown."""

    name: str
    state: str
    keys: int | None = None
    missing: int | None = None


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A target now. `up` None is unknown, `words` its facts or the failure, without `keystores` they are unknown.

    `notes` holds what a collector that worked could not read, as (collector, words). `lock` is who else has the lock that
    guards what exporters write there; empty: nobody.
    """

    name: str
    engine: str
    up: bool | None
    words: str = ""
    keystores: tuple[KeystoreRow, ...] = ()
    pairs: tuple[PairRow, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    lock: str = ""


class Note(NamedTuple):
    """A sentence about an operation; `about` is one of `breach`, `baseline`, `tail`."""

    about: str
    words: str


@dataclass(frozen=True, slots=True)
class OverheadRow:
    """What one operation costs: the verdict, medians in seconds, and the ratios encrypted / plain.

    `word` is one of `exporter.overhead.words.Word`. `source` says where the numbers come from
    (`1 h window`, `snapshot 14:25 UTC`), `samples` how many there are on each side. Decrypts and
    encrypts are those of the encrypted side. `rate` says what can be known at the rate of its ticks, `beneath` holds more
    figures of its latency, `notes` what must be said in sentences. None is unknown.
    """

    target: str
    pair: str
    operation: str
    word: str
    encrypted_seconds: float | None = None
    plain_seconds: float | None = None
    latency: Ratio | None = None
    cpu: Ratio | None = None
    decrypts_per_sample: float | None = None
    encrypts_per_sample: float | None = None
    samples: int | None = None
    source: str = ""
    rate: str = ""
    beneath: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Landing:
    """Everything on the page. `started` and `now` are Unix times; `problems` concern the exporter itself.

    `threshold` is the budget as a ratio. `costs` holds a sentence per (target, pair) on what one decrypt costs,
    `noise` one on the exporter itself; empty is unknown. `shard` says which targets are others'; empty: none.
    """

    version: str
    started: float
    now: float
    targets: tuple[TargetRow, ...] = ()
    overhead: tuple[OverheadRow, ...] = ()
    standbys: tuple[StandbyRow, ...] = ()
    instances: tuple[InstanceRow, ...] = ()
    events: tuple[EventRow, ...] = ()
    problems: tuple[str, ...] = ()
    threshold: float = DEFAULT_THRESHOLD
    costs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    noise: str = ""
    shard: str = ""


def render(landing: Landing) -> str:
    """The page as HTML, complete in itself."""
    problems = "".join(f"<li>{escape(problem)}</li>" for problem in landing.problems)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{REFRESH_SECONDS}">
<title>tde-exporter</title>
<link rel="icon" href="/favicon.ico" type="image/svg+xml">
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>tde-exporter<small>{escape(landing.version)}</small></h1>
<p>What encryption costs, measured on twins</p>
<p class="since">running for {formats.age(landing.now - landing.started)}</p>
</header>
<main>
<p class="summary">{_summary(landing)}{f" {escape(landing.shard)}" if landing.shard else ""}</p>
{f'<ul class="problems">{problems}</ul>' if problems else ""}
{_overhead(landing)}
{f'<p class="noise">{escape(landing.noise)}</p>' if landing.noise else ""}
{_targets(landing.targets)}
{instances.table(landing.instances)}
{standbys.table(landing.standbys)}
{events.table(landing.events)}
</main>
<footer>
<a href="/metrics">/metrics</a> <a href="/-/healthy">/-/healthy</a> <a href="/-/ready">/-/ready</a>
<span>as of {formats.clock(landing.now)}, renewed every {REFRESH_SECONDS} s</span>
</footer>
</body>
</html>
"""


def _summary(landing: Landing) -> str:
    states = Counter(_state(target.up)[0] for target in landing.targets)
    ups = ", ".join(f"{states[word]} {word}" for word in ("down", "unknown", "up") if states[word])
    number = len(landing.targets)
    targets = f"{number} target{'s' if number > 1 else ''}: {ups}." if number else "No targets."
    words = Counter(row.word for row in landing.overhead)
    order = [word for word in VERDICTS if words[word]] + sorted(set(words) - set(VERDICTS))
    verdicts = ", ".join(f"{words[word]} {escape(verdict(word).words)}" for word in order)
    lasting = sum(any(note.about == BREACH for note in row.notes) for row in landing.overhead)
    breaches = f" In breach: {lasting}." if lasting else ""
    return f"{targets} Operations: {verdicts}.{breaches}" if verdicts else targets


def _overhead(landing: Landing) -> str:
    budget = formats.overhead(landing.threshold)
    caption = (
        "<caption><b>What encryption costs</b><span>Encrypted against plain, with the 95 % interval and n, what it "
        "rests on: samples on each side where percentiles of bursts are compared, else units, each measured in either order. "
        f"In the pictures: solid line no cost, dashed line the budget of {budget}.</span></caption>"
    )
    if not landing.overhead:
        return f'<div class="card"><table>{caption}</table><p class="empty">Nothing measured yet.</p></div>'
    scale = Scale.around(filter(None, (_fact(row.latency) for row in landing.overhead)), landing.threshold)
    bodies = []
    for (target, pair), rows in groupby(landing.overhead, key=lambda row: (row.target, row.pair)):
        cost = landing.costs.get((target, pair), "")
        group = (
            f'<tr class="group"><th colspan="9" scope="rowgroup">{escape(target)}<span>{escape(pair)}</span>'
            f"{f'<span class={chr(34)}cost{chr(34)}>{escape(cost)}</span>' if cost else ''}</th></tr>"
        )
        bodies.append(f"<tbody>{group}{''.join(_overhead_row(row, scale, landing.threshold) for row in rows)}</tbody>")
    heads = (
        '<thead><tr><th scope="col">Operation</th><th scope="col">Verdict</th>'
        '<th scope="col" class="number">Latency overhead</th><th scope="col"></th>'
        '<th scope="col" class="number">Encrypted<br>median</th><th scope="col" class="number">Plain<br>median</th>'
        '<th scope="col" class="number">CPU overhead</th><th scope="col" class="number">Through the cipher<br>per sample</th>'
        '<th scope="col">From</th></tr></thead>'
    )
    table = f'<div class="card"><table>{caption}{heads}{"".join(bodies)}</table></div>'
    return table + _legend(row.word for row in landing.overhead)


def _through_cipher(row: OverheadRow) -> str:
    # What is decrypted and what is encrypted stand below each other: side by side they are wider than the page.
    return formats.through_cipher(row.decrypts_per_sample, row.encrypts_per_sample).replace(", ", "<br>")


def _overhead_row(row: OverheadRow, scale: Scale, threshold: float) -> str:
    judged = verdict(row.word)
    muted = " muted" if judged.tone == "mute" else ""
    cells = [
        f'<td class="op">{escape(row.operation.replace("_", " "))}{_beneath(row.rate)}</td>',
        cell("Verdict", chip(judged.words, judged.tone)),
        cell("Latency overhead", _ratio(row.latency) + "".join(map(_beneath, row.beneath)), f"number keep{muted}"),
        f'<td class="picture t-{judged.tone}">{picture(_fact(row.latency), scale, threshold)}</td>',
        cell("Encrypted", formats.duration(row.encrypted_seconds), "number"),
        cell("Plain", formats.duration(row.plain_seconds), "number"),
        cell("CPU overhead", _ratio(row.cpu), f"number{muted}"),
        cell("Through the cipher", _through_cipher(row), "number"),
        cell("From", _source(row), "from"),
    ]
    return f"<tr>{''.join(cells)}</tr>{_sentences(row.notes)}"


def _sentences(notes: tuple[Note, ...]) -> str:
    """A row of its own."""
    said = "".join(f'<li class="{escape(note.about)}">{escape(note.words)}</li>' for note in notes)
    return f'<tr class="notes"><td colspan="9"><ul>{said}</ul></td></tr>' if said else ""


def _beneath(words: str) -> str:
    return f'<span class="interval rate">{escape(words)}</span>' if words else ""


def _source(row: OverheadRow) -> str:
    if not row.source:
        return UNKNOWN
    samples = "" if row.samples is None else f"<br>2\u00a0×\u00a0{formats.count(row.samples)}\u00a0samples"
    return f'<span class="soft">{escape(row.source)}{samples}</span>'


def _fact(ratio: Ratio | None) -> Ratio | None:
    """A ratio without interval is not shown."""
    return ratio if ratio is not None and ratio.has_interval else None


def _ratio(found: Ratio | None) -> str:
    ratio = _fact(found)
    if ratio is None:
        return UNKNOWN
    return (
        f'<span><span class="big">{formats.headline(ratio)}</span> '
        f'<span class="interval">({formats.interval(ratio)}) · n\u00a0{formats.count(ratio.samples)}</span></span>'
    )


def _legend(words: Iterable[str]) -> str:
    present = set(words)
    items = (
        f"<li><b>{escape(found.words)}</b>: {escape(found.meaning)}</li>"
        for word, found in VERDICTS.items()
        if word in present
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _targets(targets: tuple[TargetRow, ...]) -> str:
    if not targets:
        return ""
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ("Target", "State", "Engine", "Keystore", "Twins", "Facts")
    )
    return (
        '<div class="card"><table><caption><b>Targets</b><span>As of the last look at each of them.</span></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(map(_target_row, targets))}</tbody></table></div>"
    )


def _target_row(target: TargetRow) -> str:
    state, tone = _state(target.up)
    cells = [
        f'<th scope="row">{escape(target.name)}</th>',
        cell("State", chip(state, tone)),
        cell("Engine", escape(target.engine)),
        cell("Keystore", _keystores(target.keystores), "" if target.keystores else "soft"),
        cell("Twins", f"<span>{''.join(_pair(pair) for pair in target.pairs) or UNKNOWN}</span>"),
        cell("Facts", f'<span class="words soft">{escape(target.words) or UNKNOWN}</span>'),
    ]
    return f"<tr>{''.join(cells)}</tr>{_notes(target)}"


def _notes(target: TargetRow) -> str:
    """A row of its own: what is missing, and what would help, are whole sentences."""
    said = "".join(
        f"<li><b>{escape(collector.replace('_', ' '))}</b> cannot read everything: {escape(words)}</li>"
        for collector, words in target.notes
    )
    if target.lock:
        said += (
            f"<li><b>scratch lock</b> held by somebody else: {escape(target.lock)}. This exporter writes nothing there, and "
            "measures what only reads.</li>"
        )
    return f'<tr class="notes"><td colspan="6"><ul>{said}</ul></td></tr>' if said else ""


def _keystores(keystores: tuple[KeystoreRow, ...]) -> str:
    return f"<span>{''.join(map(_keystore, keystores))}</span>" if keystores else "unknown"


def _keystore(keystore: KeystoreRow) -> str:
    state = keystore.state.replace("_", " ")
    tone = {"open": "", "unknown": "mute"}.get(keystore.state, "bad")
    shown = chip(state, tone) if tone else state
    if keystore.missing:
        of = "" if keystore.keys is None else f" of {formats.count(keystore.keys)}"
        keys = f" {chip(f'{formats.count(keystore.missing)}{of} keys missing', 'bad')}"
    elif keystore.keys is not None:
        keys = f", {formats.count(keystore.keys)} key{'' if keystore.keys == 1 else 's'} in use"
    else:
        keys = ""
    return f'<span class="pair">{escape(keystore.name)} <span class="soft">{shown}{keys}</span></span>'


def _pair(pair: PairRow) -> str:
    found = {True: "valid", False: "not valid", None: "not verified yet"}[pair.valid]
    words = f": {escape(pair.words)}" if pair.words else ""
    return f'<span class="pair">{escape(pair.name)} <span class="soft">{found}{words}</span></span>'


def _state(up: bool | None) -> tuple[str, str]:
    return {True: ("up", "good"), False: ("down", "bad"), None: ("unknown", "mute")}[up]
