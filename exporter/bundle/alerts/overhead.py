"""What encryption costs. The exporter decides, these rules only pass its verdict on.

No rule over percentiles of windows keeps false alarms down; `tde_overhead_breach` is latched by sequential evidence,
so it needs no waiting time, and ends only when the interval of the last hour lies below the threshold.
"""

from __future__ import annotations

from exporter.bundle.alerts.asking import OPERATION, asked, ratio_in_words
from exporter.bundle.alerts.rules import RESTART, Alert, Board, Group, Severity
from exporter.bundle.alerts.thresholds import Thresholds, threshold_label
from exporter.bundle.alerts.vectors import OF_OPERATION, newest

_WHERE = "{{ $labels.operation }} on {{ $labels.target }}, pair {{ $labels.pair }}"


def groups(v: Thresholds) -> tuple[Group, ...]:
    """The alerts about overhead; those that look back for days are evaluated seldom."""
    return (
        Group("tde-overhead", (*_against_the_twin(v), _against_the_baseline(v))),
        Group("tde-overhead-slow", (_undecidable(v), _rising(v)), interval=300),
    )


def _breach(reference: str, ratio: float, percentile: str = "") -> str:
    of = f'percentile="{percentile}",' if percentile else ""
    return newest(f'tde_overhead_breach{{{of}reference="{reference}",threshold="{threshold_label(ratio)}"}}') + " == 1"


def _since(reference: str) -> str:
    labels = (*OPERATION, "percentile", "threshold")
    metric = "time() - tde_overhead_onset_timestamp_seconds"
    return asked(metric, labels, f'reference="{reference}"', ", for about {{ {} | humanizeDuration }}")


def _against_the_twin(v: Thresholds) -> tuple[Alert, ...]:
    percent = f"{v.overhead_ratio - 1:.0%}".replace("%", " %")
    now = f"{ratio_in_words()}{_since('plain')}"
    return (
        Alert(
            "TDEOverheadHighP99",
            Severity.WARNING,
            "overhead",
            _breach("plain", v.overhead_ratio, "99"),
            f"Encryption makes the slowest queries more than {percent} slower: {_WHERE}",
            f"The slowest 1 % of {_WHERE}, take more than {percent} longer than on the plain twin: {now}. Typical "
            "queries may not feel it; reads from storage, which are decrypted, do. Look at the target's dashboard when it began, and "
            "compare with changes of load, cache size and storage at that time.",
            keep=RESTART,
            shows=(*OPERATION, "percentile"),
        ),
        Alert(
            "TDEOverheadHighP50",
            Severity.WARNING,
            "overhead",
            _breach("plain", v.overhead_ratio, "50"),
            f"Encryption makes typical queries more than {percent} slower: {_WHERE}",
            f"Every second one of {_WHERE}, takes more than {percent} longer than on the plain twin: {now}. That "
            "concerns all users of encrypted data, and its CPU as well. Look at tde_overhead_cpu_ratio and tde_host_aes_acceleration "
            "first: processors without AES instructions, or lost ones after a move, are the usual cause.",
            keep=RESTART,
            shows=(*OPERATION, "percentile"),
        ),
        Alert(
            "TDEOverheadCritical",
            Severity.CRITICAL,
            "overhead",
            _breach("plain", v.overhead_ratio_critical),
            f"Encrypted queries take more than {v.overhead_ratio_critical:.15g} times as long as plain ones: {_WHERE}",
            '{{ if eq $labels.percentile "50" }}Typical queries{{ else }}The slowest 1 % of queries{{ end }} of '
            f"{_WHERE}, take more than {v.overhead_ratio_critical:.15g} times as long as on the plain twin: {now}. Encryption "
            "itself hardly ever costs that much: suspect the key server or keystore, AES instructions lost after a move to "
            "another host, or storage under the encrypted files. Look at the keystore's state and the host's CPU first.",
            keep=RESTART,
            shows=(*OPERATION, "percentile"),
        ),
    )


def _against_the_baseline(v: Thresholds) -> Alert:
    of = f"{OF_OPERATION}, percentile"
    percent = f"{v.overhead_ratio - 1:.0%}".replace("%", " %")
    control = asked(
        "tde_baseline_control_ratio",
        (*OPERATION, "percentile"),
        'window="1h"',
        '{{ printf "%.2f" ({}) }} times',
        "not known",
    )
    return Alert(
        "TDEOverheadBaselineRegression",
        Severity.WARNING,
        "overhead",
        f"""
        {_breach("baseline", v.overhead_ratio)}
        unless on ({of})
        {newest('tde_overhead_ratio_upper{window="1h"}')} < {v.overhead_ratio:.15g}
        unless on ({of})
        {newest('tde_baseline_raw_ratio{window="1h"}')} <= 1
        """,
        f"Encryption costs more than {percent} more than in the baseline: {_WHERE}",
        f"P{{{{ $labels.percentile }}}} of {_WHERE}, has risen by more than {percent} since the baseline, beyond what the plain twin "
        f"rose: {ratio_in_words('tde_baseline_overhead_ratio')}{_since('baseline')}; the plain twin {control}. Something about "
        "encryption changed since then: look at the events on the dashboard (upgrade, rekey, algorithm) first.",
        wait=600,
        keep=RESTART,
        board=Board.ENABLEMENT,
        shows=OPERATION,
    )


def _undecidable(v: Thresholds) -> Alert:
    steps = 12 * 24 * v.undecided_for / 86400
    tier = asked("tde_canary_tier", OPERATION, "", '{{ printf "%.0f" ({}) }}', "unknown")
    breach = newest('tde_overhead_breach{percentile="99",reference="plain"}', "threshold")
    return Alert(
        "TDEOverheadUndecidable",
        Severity.INFO,
        "overhead",
        f"""
        sum_over_time({newest('tde_overhead_state{state="undecided"}', "state")}[{v.span(v.undecided_for)}:{v.span(300)}]) >= {0.9 * steps:.0f}
        or
        min_over_time({newest("tde_canary_tier")}[{v.span(86400)}:{v.span(300)}]) >= 3
        and on ({OF_OPERATION})
        {breach}
        """,
        f"The canaries cannot tell whether encryption keeps its budget: {_WHERE}",
        f"At its present rate {_WHERE}, gives too few samples for a verdict: the interval of the ratio has included the threshold for "
        f"days, or P99 cannot be told at all (tier now: {tier}). Nothing is wrong with the database. Give the operation more "
        "samples, a shorter interval or a larger budget if a verdict is wanted.",
        keep=3600,
        shows=OPERATION,
    )


def _rising(v: Thresholds) -> Alert:
    reads = 'operation!~"insert_batch|update_batch|delete_replenish|checkpoint"'
    latency = f'tde_canary_latency_seconds{{{reads},variant="%s",percentile="50",window="1h"}}'
    ratio = f'tde_overhead_ratio_%s{{{reads},percentile="50",window="1h"}}'
    day = v.span(86400)
    encrypted, plain = (newest(latency % side, "variant") for side in ("encrypted", "plain"))
    # Offsets stand behind the selector.
    encrypted_then, plain_then = (
        newest(f"{latency % side} offset {day}", "variant") for side in ("encrypted", "plain")
    )
    return Alert(
        "TDEEncryptedReadsSlower",
        Severity.WARNING,
        "overhead",
        f"""
        {encrypted}
        / {encrypted_then}
        > {v.read_rise_ratio:.15g}
        unless
        {plain}
        / {plain_then}
        > {1 + (v.read_rise_ratio - 1) / 2:.3g}
        and
        {newest(ratio % "lower")}
        > {newest(f"{ratio % 'upper'} offset {day}")}
        """,
        f"Encrypted reads have become slower since yesterday, plain ones have not: {_WHERE}",
        f"On the encrypted table the median of {_WHERE}, takes "
        '{{ printf "%.2f" $value }} times as long as a day ago, on the plain twin it takes about what it took: load and storage are not '
        "the cause. It may still be within its budget. Look what changed about encryption within the day: key server, algorithm, "
        "cache, host.",
        wait=1800,
        keep=3600,
        shows=OPERATION,
    )
