"""A made-up fleet with a history of hours, in every metric of the catalogue, as OpenMetrics text for `promtool tsdb`.

    python -m tests.dashboards.synthetic history.om --hours 12 --step 30
    promtool tsdb create-blocks-from openmetrics history.om data

Four databases: `orders` (its twins were both plain until encryption was enabled in the middle of the history; one operation
is over budget since), `billing` (within budget, two channels to its standby, restarted), `archive` (certifying), `edge` (the
embedded one: warm reads are blind). It is random with a fixed seed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from exporter.exposition.catalogue import CATALOGUE, SOMETIMES, Kind, Metric
from tests.dashboards.made_up_fleet import FLEET, Recipe, Series, World
from tests.dashboards.made_up_series import (
    TOOK,
    baseline_latency,
    by_operation,
    cipher_of_instance,
    collectors,
    cores,
    cost,
    cpu_ratios,
    detectors,
    events,
    evidence,
    failures,
    histogram,
    in_breach,
    inventory,
    keystore_info,
    keystore_states,
    keystores,
    labelled,
    lag,
    latency,
    many,
    onset,
    pair,
    pair_info,
    pairs,
    per_database,
    phases,
    plain,
    queries,
    ratios,
    sequences,
    sides,
    slow,
    standbys,
    states,
    target_info,
    thresholds,
    through_cipher,
    twins,
    windows,
)

SCRAPED = {"job": "tde-exporter", "instance": "exporter:10161"}


__all__ = ["FLEET", "World", "families", "write"]

RECIPES: dict[str, Recipe] = {
    "tde_target_up": per_database(lambda w, d: w.steady(1)),
    "tde_target_info": target_info,
    "tde_target_connects_total": per_database(lambda w, d: w.rare(6) + 3),
    "tde_target_connect_seconds_total": per_database(lambda w, d: (w.rare(6) + 3) * 0.08),
    "tde_target_connection_errors_total": labelled(
        "reason", ("connect", "auth", "tls", "timeout", "unavailable"), lambda w, d, reason: w.rare(1 if reason == "timeout" else 0)
    ),
    "tde_exporter_build_info": plain(lambda w: w.steady(1), {"version": "0.1.0", "python": "3.11.2"}),
    "tde_exporter_config_last_reload_successful": plain(lambda w: w.steady(1)),
    "tde_exporter_config_last_reload_success_timestamp_seconds": plain(lambda w: w.steady(w.times[0])),
    "tde_exporter_shard": plain(lambda w: w.steady(0)),
    "tde_exporter_shards": plain(lambda w: w.steady(1)),
    "tde_exporter_targets": plain(lambda w: w.steady(3)),
    "tde_exporter_configured_targets": plain(lambda w: w.steady(3)),
    "tde_exporter_config_hash": plain(lambda w: w.steady(178225841309270)),
    "tde_exporter_series": plain(lambda w: w.steady(1180)),
    "tde_exporter_series_refused_total": plain(lambda w: w.steady(0)),
    "tde_exporter_page_errors_total": plain(lambda w: w.steady(0)),
    "tde_exporter_page_render_seconds": plain(lambda w: w.noise(0.021, 0.5)),
    "tde_exporter_probe_process_up": many("process", {"0": lambda w: w.steady(1), "1": lambda w: w.steady(1)}),
    "tde_exporter_probe_process_starts_total": many("process", {"0": lambda w: w.steady(1), "1": lambda w: 1 + w.rare(0.2)}),
    "tde_exporter_lanes_abandoned_total": plain(lambda w: w.rare(0.2)),
    "tde_exporter_clock_steps_total": plain(lambda w: w.steady(0)),
    "tde_exporter_messages_dropped_total": plain(lambda w: w.steady(0)),
    "tde_exporter_runs_skipped_total": many(
        "reason",
        {
            "busy": lambda w: w.rare(8),
            "missed": lambda w: w.rare(2),
            "budget": lambda w: w.rare(40),
            "back_off": lambda w: w.rare(1),
            "abandoned": lambda w: w.steady(0),
        },
    ),
    "tde_exporter_schedule_lateness_seconds": histogram,
    "tde_exporter_timer_noise_seconds": histogram,
    "tde_exporter_state_bytes": plain(lambda w: 4e6 + w.counter(40.0, 0)),
    "tde_exporter_state_errors_total": plain(lambda w: w.steady(0)),
    "tde_exporter_web_connections_refused_total": many(
        "reason",
        {
            "too_many": lambda w: w.steady(0),
            "deadline": lambda w: w.rare(4),
            "tls": lambda w: w.rare(1),
            "certificate": lambda w: w.steady(0),
            "malformed": lambda w: w.rare(0.5),
        },
    ),
    "tde_exporter_web_requests_total": many(
        "code", {"200": lambda w: w.counter(0.07), "401": lambda w: w.rare(2), "404": lambda w: w.rare(1)}
    ),
    "tde_exporter_web_certificate_expiry_timestamp_seconds": plain(lambda w: w.steady(w.times[-1] + 60 * 86400)),
    "tde_exporter_collector_success": collectors(lambda w, d, c: w.steady(1)),
    "tde_exporter_collector_duration_seconds": collectors(lambda w, d, c: w.noise(TOOK[c], 0.6)),
    "tde_exporter_collector_last_success_timestamp_seconds": collectors(lambda w, d, c: w.times - w.noise(6.0, 2.0)),
    "tde_exporter_scratch_lock_held": many("target", {d.name: lambda w: w.steady(1) for d in FLEET}),
    "tde_exporter_invalid_values_total": many("target", {d.name: lambda w: w.steady(0) for d in FLEET}),
    "tde_pair_valid": pairs(lambda w, d: w.steady(1)),
    "tde_pair_info": pair_info,
    "tde_pair_rows": twins(2_400_000),
    "tde_pair_rows_per_block": twins(96.4),
    "tde_overhead_ratio": ratios(""),
    "tde_overhead_ratio_lower": ratios("lower"),
    "tde_overhead_ratio_upper": ratios("upper"),
    "tde_overhead_samples": windows,
    "tde_overhead_cpu_ratio": cpu_ratios(""),
    "tde_overhead_cpu_ratio_lower": cpu_ratios("lower"),
    "tde_overhead_cpu_ratio_upper": cpu_ratios("upper"),
    "tde_overhead_breach": detectors(lambda w, o, p, t: in_breach(w, o, t)),
    "tde_overhead_onset_timestamp_seconds": detectors(onset),
    "tde_overhead_onset_uncertainty_seconds": detectors(
        lambda w, o, p, t: None if (known := onset(w, o, p, t)) is None else known * 0 + 900
    ),
    "tde_overhead_evidence": detectors(evidence),
    "tde_overhead_evidence_threshold": thresholds,
    "tde_overhead_state": states,
    "tde_overhead_order_bias_ratio": by_operation(lambda w, d, o: w.noise(1.0, 0.01, 0.003)),
    "tde_decrypt_cost_seconds": cost(0.0),
    "tde_decrypt_cost_seconds_lower": cost(-0.18),
    "tde_decrypt_cost_seconds_upper": cost(0.21),
    "tde_encryption_cpu_cores_estimate": cores(0.0),
    "tde_encryption_cpu_cores_estimate_lower": cores(-0.18),
    "tde_encryption_cpu_cores_estimate_upper": cores(0.21),
    "tde_baseline_timestamp_seconds": lambda w, _: iter([(pair(FLEET[0]), w.since(0.44, w.steady(w.event - 240)))]),
    "tde_baseline_overhead_ratio": ratios("", baseline=True),
    "tde_baseline_overhead_ratio_lower": ratios("lower", baseline=True),
    "tde_baseline_overhead_ratio_upper": ratios("upper", baseline=True),
    "tde_baseline_raw_ratio": ratios("raw", baseline=True),
    "tde_baseline_control_ratio": ratios("control", baseline=True),
    "tde_baseline_latency_seconds": baseline_latency,
    "tde_event_timestamp_seconds": events,
    "tde_keystore_state": keystore_states,
    "tde_keystore_info": keystore_info,
    "tde_keys_in_use": keystores(lambda w, d, k: w.steady(3)),
    "tde_keys_missing": keystores(lambda w, d, k: w.steady(0)),
    "tde_master_key_activation_timestamp_seconds": keystores(lambda w, d, k: w.steady(w.end - 86400 * d.key_days)),
    "tde_master_key_backed_up": keystores(lambda w, d, k: w.steady(d.name != "edge")),
    "tde_objects": inventory(1.0),
    "tde_object_bytes": inventory(6.5e9),
    "tde_algorithm_objects": labelled("algorithm", ("aes256", "aes128"), lambda w, d, a: w.steady(22 if a == "aes256" else 2)),
    "tde_unprotected_dependents": labelled("kind", ("redo", "temp"), lambda w, d, k: w.steady(1 if k == "temp" else 0)),
    "tde_conversion_progress_ratio": lambda w, _: iter(
        (
            {**FLEET[0].labels, "object": f"ORDERS_{n}"},
            np.where((w.times > w.event + n * 300) & (w.times < w.end), np.clip((w.times - w.event) / 9000 - n * 0.1, 0, 1), np.nan),
        )
        for n in (1, 2)
    ),
    "tde_conversion_stalled": per_database(lambda w, d: w.steady(d.name == "archive")),
    "tde_instance_decrypts_total": cipher_of_instance(1.0),
    "tde_instance_encrypts_total": cipher_of_instance(0.1),
    "tde_instance_cpu_seconds_total": per_database(lambda w, d: w.counter(w.noise(6 * d.busy, 0.2, 0.3))),
    "tde_instance_reads_total": per_database(lambda w, d: w.counter(w.noise(2400 * d.busy, 0.2, 0.3))),
    "tde_instance_read_seconds_total": per_database(lambda w, d: w.counter(w.noise(1.1 * d.busy, 0.2, 0.3))),
    "tde_instance_buffer_hit_ratio": per_database(lambda w, d: np.minimum(1.0, w.noise(0.962, 0.01, 0.01))),
    "tde_host_cpu_utilization_ratio": per_database(lambda w, d: np.minimum(1.0, w.noise(d.busy, 0.2, 0.25)) if d.host else None),
    "tde_host_cpus": per_database(lambda w, d: w.steady(8) if d.host else None),
    "tde_host_aes_acceleration": per_database(lambda w, d: w.steady(1) if d.host else None),
    "tde_standby_configured": standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_lag_known": standbys(lambda w, d, k: w.steady(1), ("transport", "apply", "heartbeat")),
    "tde_standby_lag_seconds": standbys(lag, ("transport", "apply", "heartbeat")),
    "tde_standby_transport_running": standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_apply_running": standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_sequence": sequences,
    "tde_standby_gap_sequences": standbys(lambda w, d, k: w.steady(0)),
    "tde_standby_destination_up": standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_master_key_match": standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_configured_delay_seconds": standbys(lambda w, d, k: w.steady(300) if d.name == "edge" else None),
    "tde_standby_clock_skew_seconds": standbys(lambda w, d, k: w.noise(0.02, 0.5)),
    "tde_canary_runs_total": sides(lambda w, d, o, e: w.counter(queries(o), 0.0)),
    "tde_canary_run_failures_total": failures,
    "tde_canary_last_success_timestamp_seconds": sides(lambda w, d, o, e: w.times - (70 if o.rare else 8)),
    "tde_canary_blind": by_operation(lambda w, d, o: w.steady(o.final == "blind")),
    "tde_canary_encrypted_failing": lambda w, _: ((pair(d), w.steady(0)) for d in FLEET if d.certifies < 1),
    "tde_canary_boosted": by_operation(
        lambda w, d, o: ((w.times > w.event) & (w.times < w.event + 5400) & (o.final == "over_budget")).astype(np.float64)
    ),
    "tde_canary_contended_total": per_database(lambda w, d: w.rare(3)),
    "tde_canary_load_ratio": per_database(lambda w, d: w.noise(0.0042, 0.2, 0.2)),
    "tde_canary_load_limit_ratio": per_database(lambda w, d: w.steady(0.01)),
    "tde_canary_budget_used_ratio": labelled(
        "budget",
        ("time", "bytes_read", "bytes_written", "sessions"),
        lambda w, d, b: w.noise({"time": 0.42, "bytes_read": 0.61, "bytes_written": 0.02, "sessions": 0.5}[b], 0.1, 0.1),
    ),
    "tde_canary_bytes_read_total": per_database(lambda w, d: w.counter(2.1e5)),
    "tde_canary_bytes_written_total": per_database(lambda w, d: w.counter(900.0)),
    "tde_canary_tier": by_operation(lambda w, d, o: w.steady(3 if o.rare else 1 if o.samples > 2000 else 2)),
    "tde_canary_latency_seconds": latency,
    "tde_canary_cold_ratio": sides(lambda w, d, o, e: np.minimum(1.0, w.noise(o.cold, 0.02, 0.02))),
    "tde_canary_cpu_seconds_total": sides(lambda w, d, o, e: w.counter(0.6 * o.median * queries(o) * slow(w, o, e))),
    "tde_canary_server_seconds_total": sides(lambda w, d, o, e: w.counter(0.9 * o.median * queries(o) * slow(w, o, e))),
    "tde_canary_blocks_read_total": sides(lambda w, d, o, e: w.counter(o.blocks * queries(o), 0.0)),
    "tde_canary_decrypts_total": through_cipher(1.0),
    "tde_canary_encrypts_total": through_cipher(0.5),
    "tde_canary_phase_seconds_total": phases,
}  # fmt: skip  # fmt: skip
"""How each metric of the catalogue is made up."""


BESIDE: dict[str, Recipe] = {
    "up": plain(lambda w: w.steady(1)),
    "scrape_duration_seconds": plain(lambda w: w.noise(0.012, 0.4)),
    "scrape_samples_scraped": plain(lambda w: w.steady(1180)),
    "process_cpu_seconds_total": plain(lambda w: w.counter(0.02)),
    "process_resident_memory_bytes": plain(lambda w: w.noise(7.2e7, 0.02, 0.01)),
    "process_open_fds": plain(lambda w: np.floor(w.noise(32, 0.1))),
    "process_max_fds": plain(lambda w: w.steady(1024)),
    "ALERTS": lambda w, _: iter(
        [
            ({"alertname": "TDEWatchdog", "alertstate": "firing", "severity": "none"}, w.steady(1)),
            (
                {"alertname": "TDEOverheadHighP99", "alertstate": "firing", "severity": "warning", "target": "orders"},
                np.where(in_breach(w, FLEET[0].operations[1], "1.2") > 0, 1.0, np.nan),
            ),
        ]
    ),
}
"""What Prometheus and the client library add."""


def families(world: World) -> Iterator[tuple[str, Kind, list[Series]]]:
    """Name of the samples, type, and series of every metric; raises AssertionError for labels that the catalogue has not."""
    for name, metric in CATALOGUE.items():
        series = list(RECIPES[name](world, name))
        _check(metric, series)
        yield name, metric.kind, series
    for name, recipe in BESIDE.items():
        yield name, Kind.COUNTER if name.endswith("_total") else Kind.GAUGE, list(recipe(world, name))


def _check(metric: Metric, series: list[Series]) -> None:
    wanted = {*metric.labels, "le"} if metric.kind is Kind.HISTOGRAM else set(metric.labels)
    for labels, _ in series:
        assert wanted - SOMETIMES <= set(labels) <= wanted, f"{metric.name}{labels}"
    assert series, metric.name


def write(path: Path, world: World, without: frozenset[str] = frozenset()) -> None:
    """The history as OpenMetrics text, without some families."""
    stamps = [f" {moment:.0f}\n" for moment in world.times]
    with path.open("w", encoding="utf-8") as out:
        for name, kind, series in families(world):
            if name in without:
                continue
            family = name.removesuffix("_total") if kind is Kind.COUNTER else name
            shape = {Kind.INFO: "gauge"}.get(kind, kind.value)
            out.write(f"# TYPE {family} {shape}\n")
            suffix = "_bucket" if kind is Kind.HISTOGRAM else ""
            for labels, values in series:
                told = ",".join(f'{key}="{value}"' for key, value in {**SCRAPED, **labels}.items())
                start = f"{name}{suffix}{{{told}}} "
                out.writelines(
                    f"{start}{value!r}{stamp}"
                    for value, stamp in zip(values.astype(float).tolist(), stamps, strict=True)
                    if value == value
                )
        out.write("# EOF\n")


def main() -> None:
    """Write a history that ends now."""
    parser = argparse.ArgumentParser(description="Write a made-up history as OpenMetrics text.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--step", type=int, default=30, help="seconds between scrapes")
    arguments = parser.parse_args()
    write(arguments.out, World(int(time.time()), arguments.hours, arguments.step))


if __name__ == "__main__":
    main()
