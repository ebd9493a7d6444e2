"""Whether what should be encrypted is encrypted."""

from __future__ import annotations

from exporter.bundle.alerts.asking import COUNT
from exporter.bundle.alerts.rules import RESTART, Alert, Board, Group, Record, Severity
from exporter.bundle.alerts.thresholds import Thresholds
from exporter.bundle.alerts.vectors import OF_TARGET, newest

OBJECTS = "target_kind_state:tde_objects:max"
_KIND = "{{ $labels.kind }} objects of {{ $labels.target }}"
_SECONDS = 120.0
"""Inventories change seldom, and are compared over a day: seldom recorded, that is cheap."""
_IN_THE_CLEAR = 'state=~"plain|pending"'


def records(v: Thresholds) -> tuple[Group, ...]:
    """What the alerts of this module read."""
    objects = Record(
        OBJECTS, newest("tde_objects"), "Objects by kind and state, whichever instance of the exporter tells."
    )
    return (Group("tde-coverage-recording", (objects,), interval=_SECONDS),)


def groups(v: Thresholds) -> tuple[Group, ...]:
    """The alerts about the inventory."""
    return (Group("tde-coverage", (_lost(v), *_waiting(v), *_plain()), interval=_SECONDS),)


def _lost(v: Thresholds) -> Alert:
    back = v.span(v.coverage_window)
    encrypted = f'{OBJECTS}{{state="encrypted"}}'
    clear = f"{OBJECTS}{{{_IN_THE_CLEAR}}}"
    return Alert(
        "TDEEncryptionCoverageLost",
        Severity.WARNING,
        "coverage",
        f"""
        max_over_time({encrypted}[{back}]) - {encrypted} > 0
        and ignoring (state)
        {clear} - min_over_time({clear}[{back}]) > 0
        """,
        f"{COUNT} {_KIND} lost their encryption",
        f"{COUNT} fewer {_KIND} are encrypted than at some time in the last {back}, and more lie in the clear: somebody or something "
        "decrypted them, or they were replaced by plain ones. Look at the audit trail of the database for who did it; if it was meant, this "
        f"ends by itself after {back}.",
        wait=300,
        keep=RESTART,
        board=Board.ENABLEMENT,
    )


def _waiting(v: Thresholds) -> tuple[Alert, ...]:
    return (
        Alert(
            "TDEObjectsPending",
            Severity.WARNING,
            "coverage",
            f"""
            {OBJECTS}{{state="pending"}} > 0
            unless on ({OF_TARGET})
            {newest("tde_conversion_stalled")} == 1
            """,
            f"{COUNT} {_KIND} should be encrypted and are not",
            f"The settings of the database say that {COUNT} {_KIND} should be encrypted, but they are not, and nothing works on it. Look "
            "whether encryption in the background is switched on and has threads; new objects may have been made by a session that overrode "
            "the setting.",
            wait=v.objects_pending_for,
            keep=RESTART,
            board=Board.ENABLEMENT,
        ),
        Alert(
            "TDEConversionStalled",
            Severity.WARNING,
            "coverage",
            f"{newest('tde_conversion_stalled')} == 1",
            "Encryption in the background stands still on {{ $labels.target }}",
            "Objects of {{ $labels.target }} wait for encryption, decryption or a new key, and nothing has moved for an hour, so they stay "
            "as they are. The exporter's log says in words what it waits for: threads that are off, a lock, a suspended or aborted job.",
            wait=300,
            keep=300,
            board=Board.ENABLEMENT,
        ),
    )


def _plain() -> tuple[Alert, ...]:
    return (
        Alert(
            "TDEObjectsPlain",
            Severity.INFO,
            "coverage",
            f"""
            {OBJECTS}{{state="plain"}} > 0
            and ignoring (state)
            {OBJECTS}{{state="encrypted"}} > 0
            """,
            f"{COUNT} {_KIND} are not encrypted, others are",
            f"On {{{{ $labels.target }}}} some objects of kind {{{{ $labels.kind }}}} are encrypted, and {COUNT} are plain although no setting asks "
            "for them. Nothing is wrong if they hold nothing that needs it.",
            wait=3600,
            keep=RESTART,
            board=Board.ENABLEMENT,
        ),
        Alert(
            "TDEUnprotectedDependents",
            Severity.INFO,
            "coverage",
            f"{newest('tde_unprotected_dependents')} > 0",
            f"{COUNT} {{{{ $labels.kind }}}} objects beside encrypted data of {{{{ $labels.target }}}} lie in the clear",
            f"{COUNT} objects of kind {{{{ $labels.kind }}}} on {{{{ $labels.target }}}} hold data of encrypted objects and are not encrypted "
            "themselves. Decide whether that is acceptable; the documentation of the engine names the setting or statement that encrypts "
            "them.",
            wait=3600,
            keep=RESTART,
            board=Board.ENABLEMENT,
        ),
    )
