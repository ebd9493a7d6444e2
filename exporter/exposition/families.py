"""From a view to the families of the client library, through the catalogue and nothing else.

The client library accepts names that are not legal, samples twice, and values that are no numbers; so
what reaches it is checked here: a name or label that the catalogue does not know raises at once, a
value that is unknown or not finite gives no sample, and a second sample with the same name and labels
is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from exporter.domain.model import PairFacts, TargetFacts, Variant
from exporter.domain.states import Activity, Keystore, KeystoreState, LagKind, StandbyState
from exporter.exposition.catalogue import CATALOGUE, SOMETIMES, WINDOW, Kind
from exporter.exposition.view import (
    CollectorView,
    ExporterView,
    HistogramView,
    PairView,
    SeriesView,
    SideView,
    StandbyView,
    TargetView,
    View,
)

if TYPE_CHECKING:
    from exporter.overhead.ratio import Ratio
    from exporter.overhead.windows import SeriesSummary


ONE_LOG = "1"
"""The label `thread` where a database writes one log: the number that engines with several give their first."""


class Sheet:
    """Families in the making. `bound` labels are added to every sample put through the returned sheet."""

    def __init__(self, parent: Sheet | None = None, bound: dict[str, str] | None = None) -> None:
        self._bound = bound or {}
        self._families: dict[str, Metric] = {} if parent is None else parent._families
        self._seen: set[tuple[str, tuple[str, ...]]] = set() if parent is None else parent._seen

    def bound(self, **labels: str) -> Sheet:
        """A sheet that writes into the same families with these labels already given."""
        return Sheet(self, {**self._bound, **labels})

    def put(self, name: str, value: float | None, **labels: str) -> None:
        """One sample; none when the value is unknown. Raises KeyError for what the catalogue does not know."""
        values = self._label_values(name, labels)
        if value is None or not math.isfinite(value) or self._repeated(name, values):
            return
        family = self._family(name)
        if not SOMETIMES.isdisjoint(CATALOGUE[name].labels):
            present = zip(CATALOGUE[name].labels, values, strict=True)
            family.add_sample(name, {key: word for key, word in present if word or key not in SOMETIMES}, float(value))
            return
        assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
        family.add_metric(values, float(value))

    def put_histogram(self, name: str, histogram: HistogramView, **labels: str) -> None:
        """All samples of one histogram."""
        values = self._label_values(name, labels)
        if self._repeated(name, values):
            return
        bounds = [*map(floatToGoString, CATALOGUE[name].buckets), "+Inf"]
        family = self._family(name)
        assert isinstance(family, HistogramMetricFamily)
        family.add_metric(values, list(zip(bounds, histogram.counts, strict=True)), histogram.total)

    def families(self) -> list[Metric]:
        """Those that have samples, in the order of the catalogue."""
        return [self._families[name] for name in CATALOGUE if name in self._families]

    def _label_values(self, name: str, labels: dict[str, str]) -> list[str]:
        given = {**self._bound, **labels}
        wanted = CATALOGUE[name].labels
        if labels.keys() - set(wanted):
            raise KeyError(f"{name} has no label {sorted(labels.keys() - set(wanted))}")
        return [given.get(label, "") if label in SOMETIMES else given[label] for label in wanted]

    def _repeated(self, name: str, values: list[str]) -> bool:
        identity = (name, tuple(values))
        repeated = identity in self._seen
        self._seen.add(identity)
        return repeated

    def _family(self, name: str) -> Metric:
        if (family := self._families.get(name)) is None:
            metric = CATALOGUE[name]
            make = {Kind.COUNTER: CounterMetricFamily, Kind.HISTOGRAM: HistogramMetricFamily}
            family = make.get(metric.kind, GaugeMetricFamily)(name, metric.help, labels=metric.labels)
            self._families[name] = family
        return family


def families(view: View) -> list[Metric]:
    """Everything that the view knows, as families of the client library, most important first."""
    sheet = Sheet()
    _put_exporter(sheet, view.exporter)
    for target in view.targets:
        _put_target(sheet.bound(target=target.name, engine=target.engine), target)
    return sheet.families()


def _put_exporter(sheet: Sheet, exporter: ExporterView) -> None:
    sheet.put("tde_exporter_build_info", 1, version=exporter.version, python=exporter.python)
    for process, up in exporter.processes.items():
        sheet.put("tde_exporter_probe_process_up", up, process=str(process))
        starts = exporter.process_starts.get(process)
        sheet.put("tde_exporter_probe_process_starts_total", starts, process=str(process))
    sheet.put("tde_exporter_lanes_abandoned_total", exporter.lanes_abandoned)
    sheet.put("tde_exporter_clock_steps_total", exporter.clock_steps)
    sheet.put("tde_exporter_messages_dropped_total", exporter.messages_dropped)
    for reason, runs in exporter.skipped.items():
        sheet.put("tde_exporter_runs_skipped_total", runs, reason=reason)
    sheet.put_histogram("tde_exporter_schedule_lateness_seconds", exporter.lateness)
    sheet.put_histogram("tde_exporter_timer_noise_seconds", exporter.noise)
    sheet.put("tde_exporter_state_bytes", exporter.state_bytes)
    sheet.put("tde_exporter_state_errors_total", exporter.state_errors)


def _put_target(sheet: Sheet, target: TargetView) -> None:
    sheet.put("tde_target_up", target.up)
    if target.facts is not None:
        facts = {label: getattr(target.facts, label) for label in ("flavor", "version", "role", "open_mode", "edition")}
        sheet.put("tde_target_info", 1, **facts)
    sheet.put("tde_target_connects_total", target.connects)
    sheet.put("tde_target_connect_seconds_total", target.connect_seconds)
    for reason, errors in target.connection_errors.items():
        sheet.put("tde_target_connection_errors_total", errors, reason=reason.value)
    sheet.put("tde_exporter_invalid_values_total", target.invalid_values)
    for collector in target.collectors:
        _put_collector(sheet.bound(collector=collector.name), collector)
    sheet.put("tde_canary_contended_total", target.contended)
    sheet.put("tde_canary_load_ratio", target.load)
    sheet.put("tde_canary_load_limit_ratio", target.load_limit)
    for budget, share in target.budgets.items():
        sheet.put("tde_canary_budget_used_ratio", share, budget=budget)
    sheet.put("tde_canary_bytes_read_total", target.bytes_read)
    sheet.put("tde_canary_bytes_written_total", target.bytes_written)
    _put_encryption_state(sheet, target)
    if target.activity is not None:
        _put_activity(sheet, target.activity.reading)
    for standby in target.standbys:
        _put_standby(sheet.bound(standby=standby.name), standby)
    for pair in target.pairs:
        _put_pair(sheet.bound(pair=pair.name), pair, target.facts)
        _put_baseline(sheet.bound(pair=pair.name), pair)
    for event in target.events:
        sheet.put("tde_event_timestamp_seconds", event.at, event=event.id, kind=event.kind.value)


def _put_collector(sheet: Sheet, collector: CollectorView) -> None:
    sheet.put("tde_exporter_collector_success", collector.success)
    sheet.put("tde_exporter_collector_duration_seconds", collector.seconds)
    sheet.put("tde_exporter_collector_last_success_timestamp_seconds", collector.last_success)


def _put_encryption_state(sheet: Sheet, target: TargetView) -> None:
    for name, activated in target.key_activated.items():
        sheet.put("tde_master_key_activation_timestamp_seconds", activated, keystore=name)
    if target.state is None:
        return
    for keystore in target.state.keystores:
        _put_keystore(sheet.bound(keystore=keystore.name), keystore)
    for kind, condition, objects in target.state.objects:
        sheet.put("tde_objects", objects, kind=kind, state=condition)
    for kind, condition, size in target.state.object_bytes:
        sheet.put("tde_object_bytes", size, kind=kind, state=condition)
    for algorithm, objects in target.state.algorithms:
        sheet.put("tde_algorithm_objects", objects, algorithm=algorithm)
    for kind, parts in target.state.unprotected:
        sheet.put("tde_unprotected_dependents", parts, kind=kind)
    for name, done in target.state.conversions:
        sheet.put("tde_conversion_progress_ratio", done, object=name)
    sheet.put("tde_conversion_stalled", target.state.conversion_stalled)


def _put_keystore(sheet: Sheet, keystore: Keystore) -> None:
    for state in KeystoreState:
        sheet.put("tde_keystore_state", keystore.state is state, state=state.value)
    facts = {"type": keystore.kind, "mode": keystore.mode, "raw": keystore.raw, "seen_from": keystore.seen_from}
    sheet.put("tde_keystore_info", 1, **facts)
    sheet.put("tde_keys_in_use", keystore.keys_in_use)
    sheet.put("tde_keys_missing", keystore.keys_missing)
    sheet.put("tde_master_key_backed_up", keystore.backed_up)


def _put_activity(sheet: Sheet, activity: Activity) -> None:
    if activity.decrypt_source is not None:
        cipher = sheet.bound(unit=activity.decrypt_unit, source=activity.decrypt_source)
        cipher.put("tde_instance_decrypts_total", activity.decrypts)
        cipher.put("tde_instance_encrypts_total", activity.encrypts)
    sheet.put("tde_instance_cpu_seconds_total", activity.cpu_seconds)
    sheet.put("tde_instance_reads_total", activity.reads)
    sheet.put("tde_instance_read_seconds_total", activity.read_seconds)
    sheet.put("tde_instance_buffer_hit_ratio", activity.buffer_hit_ratio)
    sheet.put("tde_host_cpu_utilization_ratio", activity.host_cpu_ratio)
    sheet.put("tde_host_cpus", activity.host_cpus)
    sheet.put("tde_host_aes_acceleration", activity.host_aes)


def _put_standby(sheet: Sheet, standby: StandbyView) -> None:
    sheet.put("tde_standby_configured", standby.configured)
    for channel, state in standby.states.items():
        _put_channel(sheet.bound(channel=channel), state)


def _put_channel(sheet: Sheet, state: StandbyState | None) -> None:
    for kind in LagKind:
        lag = None if state is None else state.lag(kind)
        sheet.put("tde_standby_lag_known", lag is not None, kind=kind.value)
        sheet.put("tde_standby_lag_seconds", lag, kind=kind.value)
    if state is None:
        return
    sheet.put("tde_standby_transport_running", state.transport_running)
    sheet.put("tde_standby_apply_running", state.apply_running)
    sheet.put("tde_standby_sequence", state.received_sequence, thread=ONE_LOG, stage="received")
    sheet.put("tde_standby_sequence", state.applied_sequence, thread=ONE_LOG, stage="applied")
    sheet.put("tde_standby_gap_sequences", state.gap_sequences)
    sheet.put("tde_standby_destination_up", state.destination_up)
    sheet.put("tde_standby_master_key_match", state.key_match)
    sheet.put("tde_standby_configured_delay_seconds", state.configured_delay)
    sheet.put("tde_standby_clock_skew_seconds", state.clock_skew)


def _put_pair(sheet: Sheet, pair: PairView, target: TargetFacts | None) -> None:
    if pair.facts is not None:
        sheet.put("tde_pair_valid", pair.facts.valid)
        _put_twins(sheet, pair.facts, target)
    if pair.decrypt_cost is not None and target is not None and target.decrypt_unit is not None:
        unit = sheet.bound(unit=target.decrypt_unit)
        unit.put("tde_decrypt_cost_seconds", pair.decrypt_cost.seconds)
        unit.put("tde_decrypt_cost_seconds_lower", pair.decrypt_cost.lower)
        unit.put("tde_decrypt_cost_seconds_upper", pair.decrypt_cost.upper)
    for series in pair.series:
        operation = sheet.bound(operation=series.operation.value)
        for variant, side in series.sides.items():
            _put_side(operation.bound(variant=variant.value), side)
        operation.put("tde_canary_tier", None if series.tier is None else series.tier.number)
        operation.put("tde_canary_boosted", series.boosted)
        if series.summary is not None:
            _put_summary(operation, series)


def _put_twins(sheet: Sheet, facts: PairFacts, target: TargetFacts | None) -> None:
    attribution = facts.attribution
    twins = {variant: facts.twin(slot) for variant, slot in (attribution or {}).items()}
    if target is not None:
        sheet.put(
            "tde_pair_info",
            1,
            scope=target.scope,
            phase=(facts.found or facts.phase).value,
            algorithm=twins[Variant.ENCRYPTED].algorithm if twins else "",
            clock=target.clock,
            cpu_source=target.cpu_source,
            decrypt_source=target.decrypt_source or "",
            shared_costs=target.shared_costs,
        )
    for variant, twin in twins.items():
        sheet.put("tde_pair_rows", twin.rows, variant=variant.value)
        sheet.put("tde_pair_rows_per_block", twin.rows_per_block, variant=variant.value)


def _put_side(sheet: Sheet, side: SideView) -> None:
    sheet.put("tde_canary_runs_total", side.runs)
    for reason, failures in side.failures.items():
        sheet.put("tde_canary_run_failures_total", failures, reason=reason.value)
    sheet.put("tde_canary_last_success_timestamp_seconds", side.last_success)
    sheet.put("tde_canary_cpu_seconds_total", side.cpu_seconds)
    sheet.put("tde_canary_server_seconds_total", side.server_seconds)
    sheet.put("tde_canary_blocks_read_total", side.blocks_read)
    for (unit, source), decrypts in side.decrypts.items():
        sheet.put("tde_canary_decrypts_total", decrypts, unit=unit, source=source)
    for (unit, source), encrypts in side.encrypts.items():
        sheet.put("tde_canary_encrypts_total", encrypts, unit=unit, source=source)
    for phase, seconds in side.phase_seconds.items():
        sheet.put("tde_canary_phase_seconds_total", seconds, phase=phase)


def _put_summary(sheet: Sheet, series: SeriesView) -> None:
    summary = series.summary
    assert summary is not None
    sheet.put("tde_canary_blind", summary.blind)
    sheet.put("tde_overhead_order_bias_ratio", summary.order_bias)
    for percentile, ratio in summary.latency_ratio.items():
        _put_ratio(sheet.bound(window=WINDOW, percentile=str(percentile)), "tde_overhead_ratio", ratio)
    _put_ratio(sheet.bound(window=WINDOW), "tde_overhead_cpu_ratio", summary.cpu_ratio)
    for variant in Variant:
        _put_side_summary(sheet.bound(variant=variant.value), summary, variant)


def _put_side_summary(sheet: Sheet, summary: SeriesSummary, variant: Variant) -> None:
    sheet.put("tde_overhead_samples", summary.samples.get(variant), window=WINDOW)
    sheet.put("tde_canary_cold_ratio", summary.cold_ratio.get(variant))
    for percentile, seconds in summary.percentiles.get(variant, {}).items():
        sheet.put("tde_canary_latency_seconds", seconds, percentile=str(percentile), window=WINDOW)


def _put_ratio(sheet: Sheet, name: str, ratio: Ratio | None) -> None:
    if ratio is not None:
        sheet.put(name, ratio.estimate)
        sheet.put(f"{name}_lower", ratio.lower)
        sheet.put(f"{name}_upper", ratio.upper)


def _put_baseline(sheet: Sheet, pair: PairView) -> None:
    """What was frozen of a pair, and how now compares with it."""
    if pair.baseline is not None:
        sheet.put("tde_baseline_timestamp_seconds", pair.baseline.frozen)
    for series in pair.series:
        operation = sheet.bound(operation=series.operation.value)
        if series.baseline is not None:
            for variant, side in series.baseline.sides.items():
                for percentile, level in side.levels.items():
                    labels = {"variant": variant.value, "percentile": str(percentile)}
                    operation.put("tde_baseline_latency_seconds", level.seconds, **labels)
        if series.compared is None:
            continue
        for percentile, ratio in series.compared.adjusted.items():
            _put_ratio(operation.bound(window=WINDOW, percentile=str(percentile)), "tde_baseline_overhead_ratio", ratio)
        for percentile, ratio in series.compared.raw.items():
            operation.put("tde_baseline_raw_ratio", ratio.estimate, window=WINDOW, percentile=str(percentile))


def samples_of(families: Iterable[Metric]) -> int:
    """How many sample lines the families make."""
    return sum(len(family.samples) for family in families)
