"""Whether the standbys follow, and could take over."""

from __future__ import annotations

from exporter.bundle.alerts.asking import COUNT, SECONDS, asked, listed
from exporter.bundle.alerts.rules import Alert, Group, Record, Severity
from exporter.bundle.alerts.thresholds import Thresholds
from exporter.bundle.alerts.vectors import DROPPED, newest

LAG = "target_standby:tde_standby_lag_beyond_delay:seconds"
_STANDBY = ("job", "target", "standby")
_NAMED = "standby {{ $labels.standby }} of {{ $labels.target }}"


def records(v: Thresholds) -> tuple[Group, ...]:
    """What the alerts of this module read."""
    lag = Record(
        LAG,
        f"""
        max without ({DROPPED}, kind) (
          tde_standby_lag_seconds{{kind=~"apply|heartbeat"}} - ignoring (kind) group_left () tde_standby_configured_delay_seconds
          or
          tde_standby_lag_seconds
        )
        """,
        "The largest lag of a standby, of whatever kind, without the delay that is set on purpose.",
    )
    return (Group("tde-standby-recording", (lag,)),)


def groups(v: Thresholds) -> tuple[Group, ...]:
    """The alerts about standbys."""
    return (Group("tde-standby", (*_lag(v), *_stopped(v), *_fit(v))),)


def _lag(v: Thresholds) -> tuple[Alert, ...]:
    by = asked("tde_standby_lag_seconds", _STANDBY, 'kind="%s"', "{{ {} | humanizeDuration }}", "unknown")
    kinds = ", ".join(f"{kind} {by.replace('%s', kind)}" for kind in ("transport", "apply", "heartbeat"))
    unknown = listed("tde_standby_lag_known", _STANDBY, "kind", "== 0")
    return (
        Alert(
            "TDEStandbyLagHigh",
            Severity.WARNING,
            "standby",
            f"{LAG} > {v.standby_lag_seconds:.15g}\nunless\n{LAG} > {v.standby_lag_critical_seconds:.15g}",
            f"The {_NAMED} is {SECONDS} behind",
            f"The {_NAMED} is {SECONDS} behind, beyond its configured delay ({kinds}): what it has not received would be lost with the primary, "
            "and reports on it are old. If transport is large look at the network and the log's size, if only apply is large at the "
            "standby's CPU and storage.",
            wait=v.standby_lag_for,
            keep=300,
        ),
        Alert(
            "TDEStandbyLagCritical",
            Severity.CRITICAL,
            "standby",
            f"{LAG} > {v.standby_lag_critical_seconds:.15g}",
            f"The {_NAMED} is {SECONDS} behind",
            f"The {_NAMED} is {SECONDS} behind, beyond its configured delay ({kinds}): if the primary fails now, that much may be lost, and a "
            "switchover takes that much longer. Look whether transport and apply run, and at the standby's log for a key that it lacks; "
            "do not remove logs of the primary that it still needs.",
            wait=v.standby_lag_for,
            keep=300,
        ),
        Alert(
            "TDEStandbyLagUnknown",
            Severity.WARNING,
            "standby",
            f"""
            max without ({DROPPED}, kind) (tde_standby_lag_known) == 0
            unless
            min without ({DROPPED}) (tde_standby_apply_running) == 0
            unless
            min without ({DROPPED}) (tde_standby_transport_running) == 0
            """,
            f"Nobody knows how far the {_NAMED} is behind",
            f"No lag of the {_NAMED} can be read ({unknown}): it does not run, does not answer the exporter, or is not set up on the "
            "primary. Unknown is not zero: log in to the standby and look whether it applies.",
            wait=v.standby_unknown_for,
            keep=300,
        ),
    )


def _stopped(v: Thresholds) -> tuple[Alert, ...]:
    return (
        Alert(
            "TDEStandbyApplyStopped",
            Severity.WARNING,
            "standby",
            f"min without ({DROPPED}) (tde_standby_apply_running) == 0",
            f"The {_NAMED} does not apply changes",
            f"The {_NAMED} receives changes at best, but does not apply them: its data gets older every minute, and so a switchover takes "
            "longer. Somebody may have stopped it on purpose; otherwise its log says why, an encryption key that it lacks being one cause. "
            "tde_standby_master_key_match tells whether the keys are there.",
            wait=v.standby_stopped_for,
            keep=300,
        ),
        Alert(
            "TDEStandbyTransportStopped",
            Severity.WARNING,
            "standby",
            f"""
            min without ({DROPPED}) (tde_standby_transport_running) == 0
            or
            min without ({DROPPED}) (tde_standby_destination_up) == 0
            """,
            f"The {_NAMED} does not receive changes",
            f"No changes reach the {_NAMED}: what the primary writes from now on would be lost with it. Look at the network between the "
            "two, at the login that replication uses, and at the destination's error on the primary.",
            wait=v.standby_stopped_for,
            keep=300,
        ),
    )


def _fit(v: Thresholds) -> tuple[Alert, ...]:
    return (
        Alert(
            "TDEStandbyKeyMismatch",
            Severity.CRITICAL,
            "standby",
            f"min without ({DROPPED}) (tde_standby_master_key_match) == 0",
            f"The {_NAMED} lacks encryption keys of its primary",
            f"The {_NAMED} does not have all keys that the primary's objects use: it stops applying, and after a switchover that data "
            "could not be read, so at present there is no standby for it. Bring the keystore of the primary to the standby and open it "
            "there; do not switch over before.",
            wait=300,
            keep=300,
        ),
        Alert(
            "TDEStandbyGap",
            Severity.WARNING,
            "standby",
            f"{newest('tde_standby_gap_sequences')} > 0",
            f"The {_NAMED} lacks {COUNT} log sequences",
            f"Between the logs that the {_NAMED} has received {COUNT} are missing, and it cannot apply beyond the gap. See that the missing "
            "logs are still on the primary or in a backup and send them, before they are deleted there.",
            wait=v.standby_stopped_for,
            keep=300,
        ),
    )
