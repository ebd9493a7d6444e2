"""What one operation on one pair gives to the page: counters, windows, verdicts, baselines."""

from __future__ import annotations

from exporter.domain.model import Variant
from exporter.exposition.catalogue import DAY, WINDOW
from exporter.exposition.sheet import Sheet
from exporter.exposition.view import SeriesView, SideView
from exporter.overhead.evidence import Name
from exporter.overhead.ratio import Ratio
from exporter.overhead.window_day import DaySummary
from exporter.overhead.windows import SeriesSummary
from exporter.overhead.words import Word


def put_series(sheet: Sheet, series: SeriesView) -> None:
    """Everything that is known of it; `sheet` is bound to it."""
    for variant, side in series.sides.items():
        _put_side(sheet.bound(variant=variant.value), side)
    sheet.put("tde_canary_tier", None if series.tier is None else series.tier.number)
    sheet.put("tde_canary_boosted", series.boosted)
    _put_verdict(sheet, series)
    if series.summary is not None:
        _put_hour(sheet, series.summary)
    if series.day is not None:
        _put_window(sheet.bound(window=DAY), series.day)
    _put_baseline(sheet, series)


def _put_verdict(sheet: Sheet, series: SeriesView) -> None:
    for name, breached in series.breached.items():
        _detector(sheet, name).put("tde_overhead_breach", breached)
    for breach in series.breaches:
        detector = _detector(sheet, breach.name)
        detector.put("tde_overhead_onset_timestamp_seconds", breach.onset)
        detector.put("tde_overhead_onset_uncertainty_seconds", breach.uncertainty)
    for evidence in series.evidence:
        detector = _detector(sheet, evidence.detector.name)
        detector.put("tde_overhead_evidence", evidence.shown)
        # It is the same for all series; a second sample of one name is left out.
        detector.put("tde_overhead_evidence_threshold", evidence.detector.alarm_evidence)
    if (said := series.word) is not None:
        for word in Word:
            sheet.put("tde_overhead_state", word is said, state=word.value)


def _detector(sheet: Sheet, name: Name) -> Sheet:
    return sheet.bound(percentile=str(name.percentile), reference=name.reference, threshold=str(float(name.threshold)))


def _put_hour(sheet: Sheet, summary: SeriesSummary) -> None:
    sheet.put("tde_canary_blind", summary.blind)
    sheet.put("tde_overhead_order_bias_ratio", summary.order_bias)
    for variant in Variant:
        sheet.put("tde_canary_cold_ratio", summary.cold_ratio.get(variant), variant=variant.value)
    _put_window(sheet.bound(window=WINDOW), summary)


def _put_window(sheet: Sheet, window: SeriesSummary | DaySummary) -> None:
    for percentile, ratio in window.latency_ratio.items():
        _put_ratio(sheet.bound(percentile=str(percentile)), "tde_overhead_ratio", ratio)
    _put_ratio(sheet, "tde_overhead_cpu_ratio", window.cpu_ratio)
    for variant in Variant:
        side = sheet.bound(variant=variant.value)
        side.put("tde_overhead_samples", window.samples.get(variant))
        for percentile, seconds in window.percentiles.get(variant, {}).items():
            side.put("tde_canary_latency_seconds", seconds, percentile=str(percentile))


def _put_ratio(sheet: Sheet, name: str, ratio: Ratio | None) -> None:
    if ratio is not None:
        sheet.put(name, ratio.estimate)
        sheet.put(f"{name}_lower", ratio.lower)
        sheet.put(f"{name}_upper", ratio.upper)


def _put_baseline(sheet: Sheet, series: SeriesView) -> None:
    """What was frozen of it, and how now compares with that."""
    if series.baseline is not None:
        for variant, side in series.baseline.sides.items():
            for percentile, level in side.levels.items():
                labels = {"variant": variant.value, "percentile": str(percentile)}
                sheet.put("tde_baseline_latency_seconds", level.seconds, **labels)
    if series.compared is None:
        return
    hour = sheet.bound(window=WINDOW)
    for percentile, ratio in series.compared.adjusted.items():
        _put_ratio(hour.bound(percentile=str(percentile)), "tde_baseline_overhead_ratio", ratio)
    for name, ratios in (
        ("tde_baseline_raw_ratio", series.compared.raw),
        ("tde_baseline_control_ratio", series.compared.control),
    ):
        for percentile, ratio in ratios.items():
            hour.put(name, ratio.estimate, percentile=str(percentile))


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
