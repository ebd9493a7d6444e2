"""From a view to the families of the client library."""

from __future__ import annotations

from prometheus_client.core import Metric

from exporter.domain.model import PairFacts, TargetFacts, Variant
from exporter.domain.states import Activity, Keystore, KeystoreState, LagKind, StandbyState
from exporter.exposition.series_families import put_series
from exporter.exposition.sheet import Sheet
from exporter.exposition.view import CollectorView, ExporterView, PairView, StandbyView, TargetView, View

ONE_LOG = "1"
"""The label `thread` where a database writes one log: the number that engines with several give their first."""


def families(view: View) -> list[Metric]:
    """Everything that the view knows, as families of the client library, most important first."""
    sheet = Sheet()
    _put_exporter(sheet, view.exporter)
    for target in view.targets:
        _put_target(sheet.bound(target=target.name, engine=target.engine), target)
    return sheet.families()


def _put_exporter(sheet: Sheet, exporter: ExporterView) -> None:
    sheet.put("tde_exporter_build_info", 1, version=exporter.version, python=exporter.python)
    if exporter.config is not None:
        sheet.put("tde_exporter_config_last_reload_successful", exporter.config.reloaded)
        sheet.put("tde_exporter_config_last_reload_success_timestamp_seconds", exporter.config.at)
        sheet.put("tde_exporter_config_hash", exporter.config.fingerprint)
        sheet.put("tde_exporter_shard", exporter.config.shard.index)
        sheet.put("tde_exporter_shards", exporter.config.shard.count)
        sheet.put("tde_exporter_targets", exporter.config.own)
        sheet.put("tde_exporter_configured_targets", exporter.config.configured)
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
    if (web := exporter.web) is not None:
        for why, connections in web.refused.items():
            sheet.put("tde_exporter_web_connections_refused_total", connections, reason=why)
        for code, requests in web.answered.items():
            sheet.put("tde_exporter_web_requests_total", requests, code=str(code))
        sheet.put("tde_exporter_web_certificate_expiry_timestamp_seconds", web.certificate_ends)


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
    if target.lock is not None:
        sheet.put("tde_exporter_scratch_lock_held", target.lock.held)
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
    if target.cores is not None:
        sheet.put("tde_encryption_cpu_cores_estimate", target.cores.estimate)
        sheet.put("tde_encryption_cpu_cores_estimate_lower", target.cores.lower)
        sheet.put("tde_encryption_cpu_cores_estimate_upper", target.cores.upper)
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
    sheet.put("tde_canary_encrypted_failing", pair.failing)
    if pair.baseline is not None:
        sheet.put("tde_baseline_timestamp_seconds", pair.baseline.frozen)
    for series in pair.series:
        put_series(sheet.bound(operation=series.operation.value), series)


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
