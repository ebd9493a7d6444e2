"""Panels that stand on more than one dashboard, each with what it says and how it is read there."""

from __future__ import annotations

from exporter.bundle.dashboards.palette import DASHED, OBJECTS, ORANGE, PURPLE
from exporter.bundle.dashboards.panels import LAST, Panel, Query, Style, timeseries
from exporter.bundle.dashboards.queries import RATE, TARGET


def ciphered(what: str, reading: str) -> Panel:
    """What the whole database decrypts and encrypts in a second."""
    return timeseries(
        "Decrypts and encrypts of the database",
        what,
        reading,
        [
            Query(f"sum by (unit) (rate(tde_instance_decrypts_total{{{TARGET}}}[{RATE}]))", "{{unit}}s decrypted"),
            Query(f"sum by (unit) (rate(tde_instance_encrypts_total{{{TARGET}}}[{RATE}]))", "{{unit}}s encrypted"),
        ],
        "ops",
        none="not counted by this engine",
        low=0,
        styles=[Style("/decrypted$/", ORANGE), Style("/encrypted$/", PURPLE, {"lineStyle": DASHED})],
        calcs=LAST,
    )


def objects_by_state(what: str, reading: str) -> Panel:
    """The inventory of the database."""
    return timeseries(
        "Objects by state of encryption",
        what,
        reading,
        [Query(f"sum by (state) (max by (kind, state) (tde_objects{{{TARGET}}}))", "{{state}}")],
        "none",
        none="no inventory",
        decimals=0,
        low=0,
        styles=[Style(state, colour) for state, colour in OBJECTS.items()],
        stacked=True,
        steps_of=True,
        calcs=LAST,
    )
