"""From a view to the landing page: which numbers a person sees for each operation, and from where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from exporter.breach_words import sentence
from exporter.domain.events import Origin
from exporter.domain.model import Variant
from exporter.domain.sharding import WHOLE
from exporter.domain.states import LagKind, ScratchLock, StandbyState
from exporter.exposition.view import PairView, SeriesView, TargetView, View
from exporter.overhead import formats
from exporter.overhead.baseline import verdict
from exporter.overhead.certificate import Certificate
from exporter.overhead.cost import tightest
from exporter.overhead.gap import STRADDLES
from exporter.overhead.snapshot import SnapshotRow
from exporter.overhead.windows import SeriesSummary
from exporter.overhead.words import Word
from exporter.web.pages.events import EventRow
from exporter.web.pages.instances import InstanceRow
from exporter.web.pages.landing import KeystoreRow, Landing, Note, OverheadRow, PairRow, TargetRow
from exporter.web.pages.standbys import StandbyRow

UNDECIDED = Word.UNDECIDED.value
MOST_EVENTS = 20
"""Events on the page; the command line lists all."""


def landing(view: View, started: float, now: float) -> Landing:
    """Everything on the page; computes no statistics. `started` and `now` are Unix times."""
    return Landing(
        version=view.exporter.version,
        started=started,
        now=now,
        targets=tuple(_target(target) for target in view.targets),
        overhead=tuple(row for target in view.targets for pair in target.pairs for row in _overhead(target, pair, now)),
        standbys=tuple(row for target in view.targets for row in _standbys(target)),
        instances=tuple(row for target in view.targets for row in _instances(target)),
        events=_events(view.targets),
        costs={(target.name, pair.name): _cost(target, pair) for target in view.targets for pair in target.pairs},
        problems=tuple(_problems(view)),
        noise=_noise(view),
        shard=_shard(view),
    )


def _shard(view: View) -> str:
    """In one sentence, which of the targets are its own; empty where all are."""
    config = view.exporter.config
    if config is None or config.shard == WHOLE:
        return ""
    return f"Shard {config.shard}: {config.own} of {config.configured} configured targets are measured here."


def _noise(view: View) -> str:
    """What the exporter adds to what it measures, in one sentence; empty while nobody knows."""
    noise = view.exporter.recent_noise
    if noise is None:
        return ""
    contended, ticks = (sum(getattr(target, name) for target in view.targets) for name in ("contended", "ticks"))
    return (
        f"The exporter's own noise: {formats.duration(noise.median)} median, {formats.duration(noise.p99)} P99 in the last "
        f"hour; since the start {formats.count(contended)} of {formats.count(ticks)} ticks were dropped as contended."
    )


def _problems(view: View) -> Iterator[str]:
    for process, up in sorted(view.exporter.processes.items()):
        if not up:
            yield f"probe process {process} is not running; nothing is known about its targets"
    if view.exporter.state_errors:
        yield "the history could not be read or written; see the log"


def _target(target: TargetView) -> TargetRow:
    words = target.problem
    if target.building is not None:
        what, share = target.building
        words = f"{what}, {share:.0%} done"
    elif not words and target.facts is not None:
        words = " ".join(part for part in (target.facts.flavor, target.facts.version, target.facts.role) if part)
    keystores = () if target.state is None else target.state.keystores
    return TargetRow(
        name=target.name,
        engine=target.engine,
        up=target.up,
        words=words,
        keystores=tuple(
            KeystoreRow(keystore.name, keystore.state.value, keystore.keys_in_use, keystore.keys_missing)
            for keystore in keystores
        ),
        pairs=tuple(PairRow(pair.name, pair.valid, _pair_words(pair)) for pair in target.pairs),
        notes=tuple((collector.name, collector.narrowed) for collector in target.collectors if collector.narrowed),
        lock=_lock(target.lock),
    )


def _lock(lock: ScratchLock | None) -> str:
    """Who keeps this exporter from writing; empty where nobody does."""
    return "" if lock is None or lock.held else lock.holder or "another exporter"


def _instances(target: TargetView) -> Iterator[InstanceRow]:
    """One row where anything is known of the instance."""
    activity = target.activity
    if activity is None:
        return
    reading = activity.reading
    row = InstanceRow(
        target.name,
        unit=reading.decrypt_unit,
        derived=reading.decrypt_source == "proxy",
        decrypts=activity.decrypts_per_second,
        encrypts=activity.encrypts_per_second,
        cpus_used=activity.cpus_used,
        reads=activity.reads_per_second,
        read_seconds=activity.seconds_per_read,
        hits=reading.buffer_hit_ratio,
        host_share=reading.host_cpu_ratio,
        host_cpus=reading.host_cpus,
        host_aes=reading.host_aes,
        cores=target.cores,
    )
    if row != InstanceRow(target.name, unit=row.unit, derived=row.derived):
        yield row


def _events(targets: Iterable[TargetView]) -> tuple[EventRow, ...]:
    """The newest of all targets."""
    rows = [
        EventRow(target.name, event.at, event.kind.value, event.text, event.origin is Origin.DETECTED)
        for target in targets
        for event in target.events
    ]
    return tuple(sorted(rows, key=lambda row: row.at, reverse=True)[:MOST_EVENTS])


def _standbys(target: TargetView) -> Iterator[StandbyRow]:
    """One row for each standby, or for each of its replication channels."""
    for standby in target.standbys:
        for channel, state in standby.states.items():
            yield _standby(target.name, f"{standby.name}, channel {channel}" if channel else standby.name, state)


def _standby(target: str, name: str, state: StandbyState | None) -> StandbyRow:
    if state is None:
        return StandbyRow(target, name, problem="not read yet, or too long ago")
    known = [lag for kind in (LagKind.TRANSPORT, LagKind.APPLY) if (lag := state.lag(kind)) is not None]
    heartbeat = state.lag(LagKind.HEARTBEAT)
    return StandbyRow(
        target,
        name,
        lag=max(known, default=None) if heartbeat is None else heartbeat,
        delay=state.configured_delay,
        receives=state.transport_running,
        applies=state.apply_running,
        keys=state.key_match,
        problem=state.problem,
    )


def _pair_words(pair: PairView) -> str:
    if pair.facts is None:
        return ""
    if pair.facts.problem:
        return pair.facts.problem
    baseline = pair.baseline_words
    if pair.baseline is not None:
        frozen = f"baseline of {formats.clock(pair.baseline.frozen)}"
        baseline = f"{frozen} ({baseline})" if baseline else frozen
    algorithm = pair.facts.a.algorithm or pair.facts.b.algorithm
    rows = pair.facts.a.rows
    parts = [algorithm, "" if rows is None else f"{formats.count(rows)} rows each", _certificate(pair), baseline]
    return ", ".join(part for part in parts if part)


def _certificate(pair: PairView) -> str:
    """Whether twins that are both plain are alike enough to enable encryption on one of them, and else why not yet."""
    if pair.certificate is None:
        return ""
    operation, found = pair.certificate
    if found.word is Certificate.CERTIFIED:
        return f"certified by the last 24 h: {found.reason}"
    return f"not certified ({found.word.words}): {operation.value.replace('_', ' ')}: {found.reason}"


def _overhead(target: TargetView, pair: PairView, now: float) -> Iterator[OverheadRow]:
    """One row for each operation: the 1 h window once it has an interval, the snapshot until then."""
    snapshots = {row.operation: row for row in target.snapshot if row.pair == pair.name}
    for series in pair.series:
        snapshot = snapshots.get(series.operation)
        if series.summary is not None and (series.summary.latency_ratio or snapshot is None):
            row = _from_window(target, pair, series, series.summary)
        elif snapshot is not None and pair.valid is not False:
            row = _from_snapshot(target, series, snapshot)
        else:
            row = OverheadRow(target.name, pair.name, series.operation.value, word=series.word or Word.NO_DATA)
        yield replace(row, rate=_rate(series), beneath=tuple(_beneath(series)), notes=tuple(_notes(series, now)))


def _beneath(series: SeriesView) -> Iterator[str]:
    """What else is known of the latency: the tail, the whole day, and the baseline."""
    tail = None if series.summary is None else series.summary.latency_ratio.get(99)
    if tail is not None and tail.has_interval:
        yield f"P99 {formats.with_interval(tail)}"
    day = None if series.day is None else series.day.latency_ratio.get(50)
    if day is not None and day.has_interval:
        yield f"24 h {formats.with_interval(day)}"
    # Corrected for what both twins suffered.
    adjusted = None if series.compared is None else series.compared.adjusted.get(50)
    if adjusted is not None and adjusted.has_interval:
        yield f"{formats.with_interval(adjusted)} since the baseline"


def _notes(series: SeriesView, now: float) -> Iterator[Note]:
    """Sentences: breaches that last, what a comparison with the baseline means, where a figure says little."""
    for breach in series.breaches:
        yield Note("breach", sentence(breach, now))
    if series.compared is not None:
        # The tail speaks where both would say the same.
        said = {verdict(series.compared, percent): percent for percent in (50, 99)}
        for words, percent in said.items():
            if words:
                open_question = "whether by encryption is undecided"
                yield Note(
                    "baseline", f"P{percent} grew since the baseline: {open_question if words == UNDECIDED else words}"
                )
    if series.day is not None and (series.day.gap or 0.0) > STRADDLES:
        yield Note("tail", "P99 straddles the boundary between hits and misses of the cache: its ratio says little")


def _cost(target: TargetView, pair: PairView) -> str:
    """What one decrypt costs there, in words: by the last hour, by the snapshot until then."""
    rows = (row.decrypt_cost for row in target.snapshot if row.pair == pair.name)
    cost = pair.decrypt_cost or tightest(rows)
    if cost is None or target.facts is None or pair.valid is False:
        return ""
    return cost.words(target.facts.decrypt_unit, target.facts.block_bytes)


def _rate(series: SeriesView) -> str:
    """What the operation can say at its rate, and that a budget slows it down."""
    if series.tier is None or series.period is None:
        return ""
    return series.tier.words + (f"; every {formats.age(series.period)}, to keep the budgets" if series.thinned else "")


def _from_window(target: TargetView, pair: PairView, series: SeriesView, summary: SeriesSummary) -> OverheadRow:
    return OverheadRow(
        target=target.name,
        pair=pair.name,
        operation=series.operation.value,
        encrypted_seconds=summary.percentiles.get(Variant.ENCRYPTED, {}).get(50),
        plain_seconds=summary.percentiles.get(Variant.PLAIN, {}).get(50),
        latency=summary.latency_ratio.get(50),
        cpu=summary.cpu_ratio,
        decrypts_per_sample=summary.decrypts_per_sample.get(Variant.ENCRYPTED),
        encrypts_per_sample=summary.encrypts_per_sample.get(Variant.ENCRYPTED),
        samples=summary.samples[Variant.ENCRYPTED],
        source="1 h window",
        word=series.word or summary.word,
    )


def _from_snapshot(target: TargetView, series: SeriesView, row: SnapshotRow) -> OverheadRow:
    """Its own word stands as long as nothing else was measured, or not enough to say more."""
    word = row.word if not target.ticks or series.word in (None, Word.WARMING) else series.word
    taken = (
        ""
        if target.snapshot_taken is None
        else datetime.fromtimestamp(target.snapshot_taken, UTC).strftime(" %H:%M UTC")
    )
    return OverheadRow(
        target=target.name,
        pair=row.pair,
        operation=row.operation.value,
        encrypted_seconds=row.encrypted_seconds,
        plain_seconds=row.plain_seconds,
        latency=row.latency,
        cpu=row.cpu,
        decrypts_per_sample=row.decrypts_per_sample,
        encrypts_per_sample=row.encrypts_per_sample,
        samples=row.samples,
        source=f"snapshot{taken}",
        word=word,
    )
