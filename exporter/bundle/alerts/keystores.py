"""Whether the keys can be had, now and after a restart, and whether they are looked after."""

from __future__ import annotations

from exporter.bundle.alerts.asking import COUNT, asked, listed
from exporter.bundle.alerts.rules import RESTART, Alert, Group, Severity
from exporter.bundle.alerts.thresholds import Thresholds
from exporter.bundle.alerts.vectors import OF_TARGET, newest

_KEYSTORE = ("job", "target", "keystore")
_NAMED = "keystore {{ $labels.keystore }} of {{ $labels.target }}"
_DAY = 86400
_KEEP = 600
"""Longer than what a lost key brings with it is kept firing: else that would be heard of when all is well again."""


def groups(v: Thresholds) -> tuple[Group, ...]:
    """The alerts about keystores and master keys."""
    return (Group("tde-keystore", (*_state(v), *_keys(), *_care(v))),)


def _in(states: str) -> str:
    return newest(f'tde_keystore_state{{state=~"{states}"}}', "state") + " == 1"


_LOST = _in("closed|no_key|missing")
_RAW = asked("tde_keystore_info", _KEYSTORE, "", '"{{ (. | first).Labels.raw }}"', "unknown")


def _state(v: Thresholds) -> tuple[Alert, ...]:
    state = listed("tde_keystore_state", _KEYSTORE, "state", "== 1")
    missing = newest("tde_keys_missing")
    return (
        Alert(
            "TDEKeystoreNotOpen",
            Severity.CRITICAL,
            "keystore",
            _LOST,
            f"The {_NAMED} is not open",
            f"The {_NAMED} cannot give its keys (state {state}, in the engine's words {_RAW}): encrypted data can no longer be read, or will "
            "not be after the next restart of the database. Do not restart the database and drop nothing: bring the key file, "
            "wallet or key server back first, or open the keystore.",
            wait=v.keystore_for,
            keep=_KEEP,
        ),
        Alert(
            "TDEKeystoreDegraded",
            Severity.WARNING,
            "keystore",
            f"""
            {_in("degraded")}
            unless on ({OF_TARGET}, keystore)
            {missing} > 0
            """,
            f"The {_NAMED} works only in part",
            f"The {_NAMED} is in use, but not all of it works or would be found after a restart (in the engine's words {_RAW}). "
            "Mend it before the database is restarted; `tde-exporter verify {{ $labels.target }}` shows what is seen of it.",
            wait=v.keystore_unknown_for,
            keep=300,
        ),
        Alert(
            "TDEKeystoreStateUnknown",
            Severity.WARNING,
            "keystore",
            f"""
            {_in("unknown")}
            unless on ({OF_TARGET})
            tde_target_info{{open_mode="mounted"}}
            """,
            f"Nobody can tell whether the {_NAMED} is open",
            f"The state of the {_NAMED} cannot be read (in the engine's words {_RAW}), so a lost key would go unseen. A missing "
            "grant or setting is the usual cause: `tde-exporter selftest {{ $labels.target }}` names it.",
            wait=v.keystore_unknown_for,
            keep=300,
        ),
    )


def _keys() -> tuple[Alert, ...]:
    return (
        Alert(
            "TDEKeysMissing",
            Severity.CRITICAL,
            "keystore",
            f"""
            {newest("tde_keys_missing")} > 0
            unless on ({OF_TARGET}, keystore)
            {_LOST}
            """,
            f"The {_NAMED} lacks {COUNT} of the keys in use",
            f"{COUNT} of the keys that encrypted objects of {{{{ $labels.target }}}} refer to cannot be had from keystore "
            "{{ $labels.keystore }}: those objects cannot be read, at the latest after a restart of the database. Do not restart it and "
            "drop nothing, whatever the database advises: the data is intact, so bring the keys back from a backup of the keystore.",
            wait=120,
            keep=_KEEP,
        ),
    )


def _care(v: Thresholds) -> tuple[Alert, ...]:
    age = f"(time() - {newest('tde_master_key_activation_timestamp_seconds')}) / {_DAY}"
    return (
        Alert(
            "TDEMasterKeyTooOld",
            Severity.WARNING,
            "keystore",
            f"{age} > {v.key_age_days:.15g}",
            f"The master key of {{{{ $labels.target }}}} is {COUNT} days old",
            f"The active master key in the {_NAMED} has been in use for {COUNT} days, longer than the {v.key_age_days:.15g} days allowed. Nothing is "
            "broken: plan a rotation, back the keystore up before and after it, and see that all standbys get the new key.",
            wait=3600,
            keep=RESTART,
        ),
        Alert(
            "TDEMasterKeyRotationDue",
            Severity.INFO,
            "keystore",
            f"""
            {age} > {v.key_age_notice_days:.15g}
            unless
            {age} > {v.key_age_days:.15g}
            """,
            f"The master key of {{{{ $labels.target }}}} is {COUNT} days old",
            f"The active master key in the {_NAMED} has been in use for {COUNT} days; after {v.key_age_days:.15g} days there will be a ticket. Plan its "
            "rotation.",
            wait=3600,
            keep=RESTART,
        ),
        Alert(
            "TDEMasterKeyNotBackedUp",
            Severity.WARNING,
            "keystore",
            "min without (instance, pod) (tde_master_key_backed_up) == 0",
            "The master key of {{ $labels.target }} has no backup",
            f"The database says that the active master key in the {_NAMED} was not backed up since it was made: if the keystore is lost, all "
            "encrypted data is lost with it. Back the keystore up now, to another place than the data.",
            wait=3600,
            keep=RESTART,
        ),
    )
