"""Target detail, third part: keys and encrypted objects, and the standbys."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board
from exporter.bundle.dashboards.limits import KEY_DAYS, KEY_DAYS_SOON, LAG_SECONDS
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    DASHED,
    DOTTED,
    DOUBT,
    GOOD,
    GREY,
    KEYSTORES,
    LIMIT,
    OBJECTS,
    ORANGE,
    VERMILION,
    Word,
    steps,
)
from exporter.bundle.dashboards.panels import Column, Query, Style, stat, table, timeline, timeseries
from exporter.bundle.dashboards.queries import coverage, keystore, lag

_LAST = ("lastNotNull",)

BACKUPS = (Word("", 1, "YES", GOOD), Word("", 0, "NO", BAD))
RUNNING = (Word("", 1, "YES", GOOD), Word("", 0, "NO", BAD))
ACCELERATION = (Word("", 1, "YES", GOOD), Word("", 0, "NO", DOUBT))
MOVING = (Word("", 1, "STALLED", BAD), Word("", 0, "NO", GOOD))


def _keys(board: Board, target: str) -> None:
    board.row(6, "Encryption: keys and objects")
    board.add(
        60,
        stat(
            "Keystore",
            "The worst state of all keystores of this database, in one vocabulary for all engines.",
            "Anything but OPEN needs somebody: what is encrypted cannot be read, at the latest after a restart. UNKNOWN:"
            " it could not be asked.",
            [Query(keystore(target), "keystore")],
            "none",
            words=KEYSTORES,
            none="not known",
        ),
        4,
        4,
    )
    board.add(
        61,
        stat(
            "Keys missing",
            "Keys that encrypted objects refer to and that the keystore cannot give.",
            "Must be 0. The objects of a missing key cannot be read, at the latest after a restart.",
            [
                Query(f"sum(max by (target, keystore) (tde_keys_missing{{{target}}}))", "missing"),
                Query(f"sum(max by (target, keystore) (tde_keys_in_use{{{target}}}))", "in use"),
            ],
            "none",
            none="not known",
            text="value_and_name",
            thresholds=steps(BLUE, (1, VERMILION)),
            styles=[Style("in use", properties={"thresholds": steps(GREY)})],
        ),
        4,
        4,
    )
    board.add(
        62,
        stat(
            "Age of the master key",
            "Days since the oldest active master key was activated.",
            "Orange from 330 days, vermilion from 365: time to rotate, if your policy is a year.",
            [
                Query(
                    f"(time() - min(tde_master_key_activation_timestamp_seconds{{{target}}})) / 86400",
                    "age",
                )
            ],
            "suffix: d",
            decimals=0,
            none="not known",
            thresholds=steps(BLUE, (KEY_DAYS_SOON, ORANGE), (KEY_DAYS, VERMILION)),
        ),
        4,
        4,
    )
    board.add(
        63,
        stat(
            "Master key backed up",
            "Whether the active master key was backed up since it was made, as the database knows.",
            "NO: losing the keystore now would lose the data.",
            [Query(f"min(tde_master_key_backed_up{{{target}}})", "backed up")],
            "none",
            words=BACKUPS,
            none="not told by this engine",
        ),
        4,
        4,
    )
    board.add(
        64,
        stat(
            "Encrypted objects",
            "Encrypted objects as a share of all objects in the inventory, those of unknown state included.",
            "It should only grow. A canary's plain twin counts as plain: just below 100 % can be all there is.",
            [Query(coverage(target), "encrypted")],
            "percentunit",
            decimals=1,
            none="no inventory",
        ),
        4,
        4,
    )
    board.add(
        65,
        stat(
            "AES in the processor",
            "Whether the processors of the database's host have instructions for AES.",
            "NO: encryption costs several times as much; on virtual machines the type of processor may hide them.",
            [Query(f"min(tde_host_aes_acceleration{{{target}}})", "AES")],
            "none",
            words=ACCELERATION,
            none="not known for this host",
        ),
        4,
        4,
    )
    board.add(
        66,
        timeline(
            "Keystores over time",
            "The state of each keystore, in the words of the panel Keystore.",
            "One lane for each keystore. A gap is a time in which it could not be read.",
            [Query(keystore(target, "keystore"), "{{keystore}}")],
            words=KEYSTORES,
            none="no keystore read",
        ),
        8,
        8,
    )
    board.add(
        67,
        timeseries(
            "Objects by state of encryption",
            "Number of objects in the inventory by state: encrypted, plain, pending (should be encrypted, nothing works on"
            " it), in progress, unknown.",
            "During a conversion the stack turns from blue to orange. Orange that shrinks is encryption lost.",
            [Query(f"sum by (state) (max by (kind, state) (tde_objects{{{target}}}))", "{{state}}")],
            "none",
            none="no inventory",
            decimals=0,
            low=0,
            styles=[Style(state, colour) for state, colour in OBJECTS.items()],
            stacked=True,
            steps_of=True,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        68,
        timeseries(
            "Conversions under way",
            "Share that is done of each object that is being encrypted, decrypted or given another key; ten at most.",
            "Lines climb to 100 % and vanish. A flat one stands still: see Conversion stalled.",
            [Query(f"max by (object) (tde_conversion_progress_ratio{{{target}}})", "{{object}}")],
            "percentunit",
            none="no conversion under way",
            low=0,
            high=1,
            legend="right",
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(69, _kinds(target), 12, 7)
    board.add(70, _algorithms(target), 6, 7)
    board.add(
        74,
        stat(
            "Conversion stalled",
            "Whether objects are pending or in progress and nothing has moved for an hour.",
            "STALLED: threads are off, suspended or wait; the database's own view of the conversion says which.",
            [Query(f"max(tde_conversion_stalled{{{target}}})", "conversion")],
            "none",
            words=MOVING,
            none="no inventory",
        ),
        6,
        7,
    )


def _kinds(target: str) -> dict[str, object]:
    def of(state: str) -> str:
        return f'max by (kind) (tde_objects{{{target},state="{state}"}})'

    return table(
        "Inventory by kind of object",
        "Objects of each kind by state, the bytes that are encrypted, and parts of encrypted objects that lie in the clear.",
        "In the clear above 0: indexes, logs or temporary files hold data of encrypted objects. Pending: something is"
        " switched off that should encrypt it. – is not known, or none.",
        [
            of("encrypted"),
            of("plain"),
            of("pending"),
            of("in_progress"),
            f'max by (kind) (tde_object_bytes{{{target},state="encrypted"}})',
            f"max by (kind) (tde_unprotected_dependents{{{target}}})",
        ],
        [
            Column("kind", "Kind", 150),
            Column("Value #A", "Encrypted", 95, "none", 0),
            Column("Value #B", "Plain", 80, "none", 0),
            Column("Value #C", "Pending", 85, "none", 0),
            Column("Value #D", "In progress", 100, "none", 0),
            Column("Value #E", "Bytes encrypted", 130, "bytes", 1),
            Column("Value #F", "In the clear", 105, "none", 0),
        ],
        order=("Encrypted", True),
    )


def _algorithms(target: str) -> dict[str, object]:
    return table(
        "Encrypted objects by algorithm",
        "How many objects are encrypted with which algorithm.",
        "More than one: a conversion is not complete, or a default was changed meanwhile.",
        [f"max by (algorithm) (tde_algorithm_objects{{{target}}})"],
        [Column("algorithm", "Algorithm", 160), Column("Value", "Objects", 90, "none", 0)],
        order=("Objects", True),
    )


def _standbys(board: Board, target: str) -> None:
    each = "standby, channel"
    board.row(7, "Standbys")
    board.add(
        71,
        timeseries(
            "Lag of the standbys",
            "How long the oldest change has been waiting that a standby has not received (transport), has received and"
            " not applied (apply), or does not show to a reader (heartbeat); without a delay that is set on purpose.",
            "A sawtooth of seconds is usual. Above the dashed line it is behind. A gap is unknown, not 0.",
            [Query(f"max by ({each}, kind) ({lag(target)})", "{{standby}} {{channel}} {{kind}}")],
            "s",
            none="no standby",
            limit=LAG_SECONDS,
            low=0,
            styles=[
                Style("/transport$/", BLUE),
                Style("/apply$/", ORANGE),
                Style("/heartbeat$/", GREY, {"lineStyle": DASHED}),
            ],
            legend="right",
            calcs=_LAST,
        ),
        12,
        9,
    )
    board.add(
        72,
        timeseries(
            "Changes that wait for a standby",
            "Received and not yet applied changes (or log sequence numbers), and log sequence numbers that are missing"
            " between others.",
            "Waiting that only grows: apply cannot keep up, decrypting and encrypting again may be why. A gap above 0 does"
            " not close by itself.",
            [
                Query(
                    f'max by ({each}, thread) (tde_standby_sequence{{{target},stage="received"}}) - '
                    f'max by ({each}, thread) (tde_standby_sequence{{{target},stage="applied"}})',
                    "{{standby}} {{channel}} waiting",
                ),
                Query(f"max by ({each}) (tde_standby_gap_sequences{{{target}}})", "{{standby}} {{channel}} gap"),
            ],
            "none",
            none="not counted",
            decimals=0,
            low=0,
            styles=[Style("/waiting$/", ORANGE), Style("/gap$/", LIMIT, {"lineStyle": DOTTED})],
            legend="right",
            calcs=_LAST,
        ),
        12,
        9,
    )
    board.add(73, _standby_table(target, each), 24, 6)


def _standby_table(target: str, each: str) -> dict[str, object]:
    def lowest(metric: str) -> str:
        return f"min by ({each}) ({metric}{{{target}}})"

    def of_kind(kind: str) -> str:
        return f'max by ({each}) (tde_standby_lag_seconds{{{target},kind="{kind}"}})'

    columns = [
        Column("standby", "Standby", 150),
        Column("channel", "Channel", 110),
        Column("Value #A", "Configured", 100, "none", words=RUNNING),
        Column("Value #B", "Primary can send", 130, "none", words=RUNNING),
        Column("Value #C", "Receives", 90, "none", words=RUNNING),
        Column("Value #D", "Applies", 90, "none", words=RUNNING),
        Column("Value #E", "Has all keys", 105, "none", words=RUNNING),
        Column("Value #F", "Transport", 95, "s", 1),
        Column("Value #G", "Apply", 85, "s", 1),
        Column("Value #H", "Heartbeat", 95, "s", 1),
        Column("Value #I", "Delay on purpose", 130, "s", 0),
        Column("Value #J", "Clock ahead", 105, "s", 1),
    ]
    return table(
        "Standbys",
        "Each standby, and each replication channel where there are several: does it receive, apply and hold the keys; how"
        " far is it behind.",
        "Has all keys NO: it cannot apply, or cannot be read after a switchover. Clock ahead is no lag. – is unknown or not"
        " told by this engine.",
        [
            f"max by ({each}) (tde_standby_lag_known{{{target}}}) * 0"
            f" + on (standby) group_left () min by (standby) (tde_standby_configured{{{target}}})",
            lowest("tde_standby_destination_up"),
            lowest("tde_standby_transport_running"),
            lowest("tde_standby_apply_running"),
            lowest("tde_standby_master_key_match"),
            of_kind("transport"),
            of_kind("apply"),
            of_kind("heartbeat"),
            f"max by ({each}) (tde_standby_configured_delay_seconds{{{target}}})",
            f"max by ({each}) (tde_standby_clock_skew_seconds{{{target}}})",
        ],
        columns,
        order=("Standby", False),
    )


def _facts(board: Board, target: str) -> None:
    board.row(8, "Facts")
    board.add(80, _pair_facts(target), 24, 5)
    board.add(81, _target_facts(target), 12, 5)
    board.add(82, _keystore_facts(target), 12, 5)


def _pair_facts(target: str) -> dict[str, object]:
    labels = "pair, scope, phase, algorithm, clock, cpu_source, decrypt_source, shared_costs"
    columns = [
        Column("pair", "Pair", 150),
        Column("Value #B", "Valid", 80, "none", words=RUNNING),
        Column("scope", "Scope", 120),
        Column("phase", "Phase", 100),
        Column("algorithm", "Algorithm", 130),
        Column("clock", "Clock", 90),
        Column("cpu_source", "CPU from", 130),
        Column("decrypt_source", "Decrypts from", 130),
        Column("shared_costs", "Costs that the plain twin pays as well", 280),
    ]
    return table(
        "Pairs",
        "What verification found: what is encrypted and how, which clock decides, where CPU and decrypts come from.",
        "Costs that the plain twin pays as well (redo, temporary files) are in both latencies and so not in the overhead.",
        [f"max by ({labels}) (tde_pair_info{{{target}}})", f"max by (pair) (tde_pair_valid{{{target}}})"],
        columns,
        order=("Pair", False),
        hidden=["Value #A"],
    )


def _target_facts(target: str) -> dict[str, object]:
    labels = "target, engine, flavor, version, role, open_mode, edition"
    return table(
        "Database",
        "Facts about the database, found at the last connect.",
        "The role changes with a switchover, the version with an upgrade: both open a new epoch of the statistics.",
        [f"max by ({labels}) (tde_target_info{{{target}}})", f"max by (target) (tde_target_up{{{target}}})"],
        [
            Column("target", "Target", 130),
            Column("Value #B", "Up", 60, "none", words=RUNNING),
            Column("engine", "Engine", 80),
            Column("flavor", "Flavor", 95),
            Column("version", "Version", 150),
            Column("role", "Role", 90),
            Column("open_mode", "Open mode", 95),
            Column("edition", "Edition", 90),
        ],
        hidden=["Value #A"],
    )


def _keystore_facts(target: str) -> dict[str, object]:
    labels = "keystore, type, mode, raw, seen_from"
    return table(
        "Keystores",
        "Facts about the keystores: the engine's own word for the state, and from where it was seen.",
        "The engine's own word is what its manual explains; the word in Keystore is ours.",
        [
            f"max by ({labels}) (tde_keystore_info{{{target}}})",
            f"max by (keystore) (tde_keys_in_use{{{target}}})",
        ],
        [
            Column("keystore", "Keystore", 130),
            Column("type", "Type", 100),
            Column("mode", "Mode", 90),
            Column("raw", "The engine's word", 150),
            Column("seen_from", "Seen from", 95),
            Column("Value #B", "Keys in use", 95, "none", 0),
        ],
        hidden=["Value #A"],
    )


def add_to(board: Board, target: str) -> None:
    """Add the rows about keys, objects, standbys and facts of the target that the selector means."""
    _keys(board, target)
    _standbys(board, target)
    _facts(board, target)
