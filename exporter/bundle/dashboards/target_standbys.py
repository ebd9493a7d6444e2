"""Target detail, standbys, and facts about everything."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.limits import LAG_SECONDS
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    DASHED,
    DOTTED,
    DOUBT,
    GREY,
    LIMIT,
    ORANGE,
    TRANSPARENT,
    YES_OR_NO,
    Word,
    quiet,
)
from exporter.bundle.dashboards.panels import LAST, Panel, Query, Style, timeseries
from exporter.bundle.dashboards.queries import TARGET, lag
from exporter.bundle.dashboards.tables import Column, table

RUNNING = quiet(YES_OR_NO)
FAILING = (Word("", 1, "FAILS", BAD), Word("", 0, "works", TRANSPARENT))
ACCELERATION = (Word("", 1, "YES", TRANSPARENT), Word("", 0, "NO", DOUBT))

_EACH = "standby, channel"


def _standby_table() -> Panel:
    def lowest(metric: str) -> str:
        return f"min by ({_EACH}) ({metric}{{{TARGET}}})"

    def of_kind(kind: str) -> str:
        return f'max by ({_EACH}) (tde_standby_lag_seconds{{{TARGET},kind="{kind}"}})'

    columns = [
        Column("standby", "Standby", 110),
        Column("channel", "Channel", 90),
        Column("Value #A", "Configured", 95, "none", words=RUNNING),
        Column("Value #B", "Can send", 85, "none", words=RUNNING),
        Column("Value #C", "Receives", 85, "none", words=RUNNING),
        Column("Value #D", "Applies", 85, "none", words=RUNNING),
        Column("Value #E", "Has all keys", 100, "none", words=RUNNING),
        Column("Value #F", "Transport", 90, "s", 1),
        Column("Value #G", "Apply", 85, "s", 1),
        Column("Value #H", "Heartbeat", 90, "s", 1),
        Column("Value #I", "Delay set", 90, "s", 0),
        Column("Value #J", "Clock ahead", 100, "s", 1),
    ]
    return table(
        "Each standby",
        "Each standby, and each replication channel where there are several: does it receive, apply and hold the keys; how"
        " far is it behind.",
        "Can send NO: the primary's way to it is in error or switched off. Has all keys NO: it cannot apply, or cannot be"
        " read after a switchover. Delay set: on purpose. Clock ahead is no lag. – is unknown or not"
        " told by this engine.",
        [
            f"max by ({_EACH}) (tde_standby_lag_known{{{TARGET}}}) * 0"
            f" + on (standby) group_left () min by (standby) (tde_standby_configured{{{TARGET}}})",
            lowest("tde_standby_destination_up"),
            lowest("tde_standby_transport_running"),
            lowest("tde_standby_apply_running"),
            lowest("tde_standby_master_key_match"),
            of_kind("transport"),
            of_kind("apply"),
            of_kind("heartbeat"),
            f"max by ({_EACH}) (tde_standby_configured_delay_seconds{{{TARGET}}})",
            f"max by ({_EACH}) (tde_standby_clock_skew_seconds{{{TARGET}}})",
        ],
        columns,
        order=("Standby", False),
        none="no standby",
    )


STANDBY = Row(
    7,
    "Standbys",
    (
        Place(
            71,
            12,
            9,
            timeseries(
                "Lag of the standbys",
                "How long the oldest change has been waiting that a standby has not received (transport), has received and"
                " not applied (apply), or does not show to a reader (heartbeat); without a delay that is set on purpose.",
                "A sawtooth of seconds is usual. Above the dashed line it is behind. A gap is unknown, not 0.",
                [Query(f"max by ({_EACH}, kind) ({lag(TARGET)})", "{{standby}} {{channel}} {{kind}}")],
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
                calcs=LAST,
            ),
        ),
        Place(
            72,
            12,
            9,
            timeseries(
                "Changes that wait for a standby",
                "Received and not yet applied changes (or log sequence numbers), and log sequence numbers that are missing"
                " between others.",
                "Waiting that only grows: apply cannot keep up, decrypting and encrypting again may be why. A gap above 0 does"
                " not close by itself.",
                [
                    Query(
                        f'max by ({_EACH}, thread) (tde_standby_sequence{{{TARGET},stage="received"}}) - '
                        f'max by ({_EACH}, thread) (tde_standby_sequence{{{TARGET},stage="applied"}})',
                        "{{standby}} {{channel}} waiting",
                    ),
                    Query(f"max by ({_EACH}) (tde_standby_gap_sequences{{{TARGET}}})", "{{standby}} {{channel}} gap"),
                ],
                "none",
                none="not counted",
                decimals=0,
                low=0,
                styles=[Style("/waiting$/", ORANGE), Style("/gap$/", LIMIT, {"lineStyle": DOTTED})],
                legend="right",
                calcs=LAST,
            ),
        ),
        Place(73, 24, 6, _standby_table()),
    ),
)


def _pair_facts() -> Panel:
    labels = "pair, scope, phase, algorithm, clock, cpu_source, decrypt_source, shared_costs"
    columns = [
        Column("pair", "Pair", 110),
        Column("Value #B", "Valid", 80, "none", words=RUNNING),
        Column("Value #C", "Encrypted side", 120, "none", words=FAILING),
        Column("scope", "Scope", 100),
        Column("phase", "Phase", 100),
        Column("algorithm", "Algorithm", 110),
        Column("clock", "Clock", 90),
        Column("cpu_source", "CPU from", 110),
        Column("decrypt_source", "Decrypts from", 120),
        Column("shared_costs", "Costs that the plain twin pays as well", 260),
    ]
    return table(
        "Pairs",
        "What verification found: what is encrypted and how, which clock decides, where CPU and decrypts come from.",
        "Encrypted side FAILS: its queries fail while those of the plain twin work. Costs that the plain twin pays as well (redo, temporary files) are in both latencies and so not in the overhead.",
        [
            f"max by ({labels}) (tde_pair_info{{{TARGET}}})",
            f"max by (pair) (tde_pair_valid{{{TARGET}}})",
            f"max by (pair) (tde_canary_encrypted_failing{{{TARGET}}})",
        ],
        columns,
        order=("Pair", False),
        hidden=["Value #A"],
        none="no pair is verified yet",
    )


def _target_facts() -> Panel:
    labels = "target, engine, flavor, version, role, open_mode, edition"
    return table(
        "Database",
        "Facts about the database, found at the last connect.",
        "The role changes with a switchover, the version with an upgrade: both open a new epoch of the statistics. AES NO: the"
        " processors have no instructions for it, and encryption costs several times as much.",
        [
            f"max by ({labels}) (tde_target_info{{{TARGET}}})",
            f"max by (target) (tde_target_up{{{TARGET}}})",
            f"min by (target) (tde_host_aes_acceleration{{{TARGET}}})",
        ],
        [
            Column("target", "Target", 95),
            Column("Value #B", "Up", 45, "none", words=RUNNING),
            Column("engine", "Engine", 70),
            Column("flavor", "Flavor", 85),
            Column("version", "Version", 80),
            Column("role", "Role", 90),
            Column("open_mode", "Open mode", 90),
            Column("edition", "Edition", 90),
            Column("Value #C", "AES", 50, "none", words=ACCELERATION),
        ],
        hidden=["Value #A"],
        none="not reached yet",
    )


def _keystore_facts() -> Panel:
    labels = "keystore, type, mode, raw, seen_from"
    return table(
        "Keystores",
        "Facts about the keystores: the engine's own word for the state, and from where it was seen.",
        "The engine's own word is what its manual explains; the word in Keystore is ours.",
        [
            f"max by ({labels}) (tde_keystore_info{{{TARGET}}})",
            f"max by (keystore) (tde_keys_in_use{{{TARGET}}})",
        ],
        [
            Column("keystore", "Keystore", 100),
            Column("type", "Type", 65),
            Column("mode", "Mode", 85),
            Column("raw", "The engine's word", 150),
            Column("seen_from", "Seen from", 80),
            Column("Value #B", "Keys in use", 95, "none", 0),
        ],
        hidden=["Value #A"],
        none="no keystore is seen yet",
    )


FACTS = Row(
    8,
    "Facts",
    (
        Place(80, 24, 5, _pair_facts()),
        Place(81, 24, 4, _target_facts()),
        Place(82, 24, 5, _keystore_facts()),
    ),
)
