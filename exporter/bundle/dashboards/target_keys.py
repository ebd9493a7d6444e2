"""Target detail, encryption of the database: keys and objects."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.limits import KEY_DAYS, KEY_DAYS_SOON
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    GOOD,
    GREY,
    KEYSTORES,
    ORANGE,
    VERMILION,
    YES_OR_NO,
    Word,
    steps,
)
from exporter.bundle.dashboards.panels import LAST, Panel, Query, Style, stat, timeline, timeseries
from exporter.bundle.dashboards.queries import TARGET, coverage, keystore
from exporter.bundle.dashboards.shared import objects_by_state
from exporter.bundle.dashboards.tables import Column, table

MOVING = (Word("", 1, "STALLED", BAD), Word("", 0, "NO", GOOD))


def _kinds() -> Panel:
    def of(state: str) -> str:
        return f'max by (kind) (tde_objects{{{TARGET},state="{state}"}})'

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
            f'max by (kind) (tde_object_bytes{{{TARGET},state="encrypted"}})',
            f"max by (kind) (tde_unprotected_dependents{{{TARGET}}})",
        ],
        [
            Column("kind", "Kind", 110),
            Column("Value #A", "Encrypted", 85, "none", 0),
            Column("Value #B", "Plain", 65, "none", 0),
            Column("Value #C", "Pending", 75, "none", 0),
            Column("Value #D", "In progress", 95, "none", 0),
            Column("Value #E", "Encrypted size", 120, "bytes", 1),
            Column("Value #F", "In the clear", 100, "none", 0),
        ],
        across=15,
        none="no objects are counted yet",
        order=("Encrypted", True),
    )


def _algorithms() -> Panel:
    return table(
        "Encrypted objects by algorithm",
        "How many objects are encrypted with which algorithm.",
        "More than one: a conversion is not complete, or a default was changed meanwhile.",
        [f"max by (algorithm) (tde_algorithm_objects{{{TARGET}}})"],
        [Column("algorithm", "Algorithm", 120), Column("Value", "Objects", 90, "none", 0)],
        across=9,
        order=("Objects", True),
        none="nothing encrypted, or its algorithm is not told",
    )


KEYS = Row(
    6,
    "Encryption: keys and objects",
    (
        Place(
            60,
            4,
            4,
            stat(
                "Keystore",
                "The worst state of all keystores of this database, in one vocabulary for all engines.",
                "Anything but OPEN needs somebody: what is encrypted cannot be read, at the latest after a restart. UNKNOWN:"
                " it could not be asked.",
                [Query(keystore(TARGET), "keystore")],
                "none",
                words=KEYSTORES,
                none="not known",
            ),
        ),
        Place(
            61,
            4,
            4,
            stat(
                "Keys missing",
                "Keys that encrypted objects refer to and that the keystore cannot give.",
                "Must be 0. The objects of a missing key cannot be read, at the latest after a restart.",
                [
                    Query(f"sum(max by (target, keystore) (tde_keys_missing{{{TARGET}}}))", "missing"),
                    Query(f"sum(max by (target, keystore) (tde_keys_in_use{{{TARGET}}}))", "in use"),
                ],
                "none",
                none="not known",
                text="value_and_name",
                thresholds=steps(BLUE, (1, VERMILION)),
                styles=[Style("in use", properties={"thresholds": steps(GREY)})],
            ),
        ),
        Place(
            62,
            4,
            4,
            stat(
                "Master key age",
                "Days since the oldest active master key was activated.",
                "Orange from 330 days, vermilion from 365: time to rotate, if your policy is a year.",
                [
                    Query(
                        f"(time() - min(tde_master_key_activation_timestamp_seconds{{{TARGET}}})) / 86400",
                        "age",
                    )
                ],
                "suffix: d",
                decimals=0,
                none="not known",
                thresholds=steps(BLUE, (KEY_DAYS_SOON, ORANGE), (KEY_DAYS, VERMILION)),
            ),
        ),
        Place(
            63,
            4,
            4,
            stat(
                "Key backed up",
                "Whether the active master key was backed up since it was made, as the database knows.",
                "NO: losing the keystore now would lose the data.",
                [Query(f"min(tde_master_key_backed_up{{{TARGET}}})", "backed up")],
                "none",
                words=YES_OR_NO,
                none="not told by this engine",
            ),
        ),
        Place(
            64,
            4,
            4,
            stat(
                "Encrypted objects",
                "Encrypted objects as a share of all objects in the inventory, those of unknown state included.",
                "It should only grow. A canary's plain twin counts as plain: just below 100 % can be all there is.",
                [Query(coverage(TARGET), "encrypted")],
                "percentunit",
                decimals=1,
                none="no inventory",
            ),
        ),
        Place(
            74,
            4,
            4,
            stat(
                "Conversion stalled",
                "Whether objects are pending or in progress and nothing has moved for an hour.",
                "STALLED: threads are off, suspended or wait; the database's own view of the conversion says which.",
                [Query(f"max(tde_conversion_stalled{{{TARGET}}})", "conversion")],
                "none",
                words=MOVING,
                none="no inventory",
            ),
        ),
        Place(
            66,
            8,
            8,
            timeline(
                "Keystores over time",
                "The state of each keystore, in the words of the panel Keystore.",
                "One lane for each keystore. A gap is a time in which it could not be read.",
                [Query(keystore(TARGET, "keystore"), "{{keystore}}")],
                words=KEYSTORES,
                none="no keystore read",
            ),
        ),
        Place(
            67,
            8,
            8,
            objects_by_state(
                "Number of objects in the inventory by state: encrypted, plain, pending (should be encrypted, nothing works on"
                " it), in progress, unknown.",
                "During a conversion the stack turns from blue to orange. Orange that shrinks is encryption lost.",
            ),
        ),
        Place(
            68,
            8,
            8,
            timeseries(
                "Conversions under way",
                "Share that is done of each object that is being encrypted, decrypted or given another key; ten at most.",
                "Lines climb to 100 % and vanish. A flat one stands still: see Conversion stalled.",
                [Query(f"max by (object) (tde_conversion_progress_ratio{{{TARGET}}})", "{{object}}")],
                "percentunit",
                none="no conversion under way",
                low=0,
                high=1,
                legend="right",
                calcs=LAST,
            ),
        ),
        Place(69, 15, 7, _kinds()),
        Place(70, 9, 7, _algorithms()),
    ),
)
