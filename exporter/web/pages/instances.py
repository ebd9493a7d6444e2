"""The table of instances: what whole databases do just now, beside our canaries."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from exporter.overhead import formats
from exporter.overhead.cost import Interval
from exporter.overhead.formats import UNKNOWN
from exporter.web.pages.cells import cell

HEADS = (
    "Decrypted",
    "Encrypted",
    "CPUs of encryption",
    "CPUs of the database",
    "CPU of the host",
    "Physical reads",
    "Time of a read",
    "Found in memory",
)


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """An instance between the last two looks at it; None is unknown.

    Rates are per second, `unit` says of what decrypts and encrypts are. `cpus_used` is CPU time per second, `host_cpus`
    the processors of its host, `host_share` the share of them in use. `derived` decrypts are not counted by the engine.
    `cores` is how many of its CPUs encryption takes.
    """

    target: str
    unit: str = "block"
    derived: bool = False
    decrypts: float | None = None
    encrypts: float | None = None
    cpus_used: float | None = None
    reads: float | None = None
    read_seconds: float | None = None
    hits: float | None = None
    host_share: float | None = None
    host_cpus: int | None = None
    host_aes: bool | None = None
    cores: Interval | None = None


def table(rows: tuple[InstanceRow, ...]) -> str:
    """The card with the table; nothing where nothing is known of any instance."""
    if not rows:
        return ""
    heads = "".join(f'<th scope="col" class="number">{name}</th>' for name in HEADS)
    return (
        '<div class="card"><table><caption><b>Whole instances</b><span>What the databases did between the last two looks '
        f"at them, our canaries included.</span></caption><thead>"
        f'<tr><th scope="col">Target</th>{heads}</tr></thead>'
        f"<tbody>{''.join(map(_row, rows))}</tbody></table></div>"
    )


def _row(row: InstanceRow) -> str:
    unit = f"{row.unit}s"
    values = (
        _rate(row.decrypts, unit, ", derived" if row.derived else ""),
        _rate(row.encrypts, unit),
        _cores(row.cores),
        UNKNOWN if row.cpus_used is None else f"{row.cpus_used:.2f}",
        _host(row),
        _rate(row.reads),
        formats.duration(row.read_seconds),
        _percent(row.hits),
    )
    cells = "".join(cell(name, value, "number") for name, value in zip(HEADS, values, strict=True))
    return f'<tr><th scope="row">{escape(row.target)}</th>{cells}</tr>'


def _rate(rate: float | None, unit: str = "", more: str = "") -> str:
    if rate is None:
        return UNKNOWN
    what = f'<span class="interval">{escape(unit)}{more}</span>' if unit else ""
    return f"<span>{formats.count(rate)}\u00a0/\u00a0s{what}</span>"


def _cores(cores: Interval | None) -> str:
    """The estimate with its bounds; it is one, for it takes all blocks for such as those of the twins."""
    if cores is None:
        return UNKNOWN
    low, high = (("?" if bound is None else f"{bound:.3g}") for bound in (cores.lower, cores.upper))
    return f'<span>about {cores.estimate:.2g}<span class="interval">{low} … {high}</span></span>'


def _percent(share: float | None) -> str:
    """Not rounded up to all: a last per mille that misses is what reads from storage come from."""
    return UNKNOWN if share is None else f"{int(share * 1000) / 10:.1f}\u00a0%"


def _host(row: InstanceRow) -> str:
    share = UNKNOWN if row.host_share is None else f"{row.host_share:.0%}".replace("%", "\u00a0%")
    cpus = "" if row.host_cpus is None else f"{row.host_cpus} CPU{'' if row.host_cpus == 1 else 's'}"
    aes = {True: "AES", False: "no AES", None: ""}[row.host_aes]
    known = ", ".join(part for part in (cpus, aes) if part)
    return f'<span>{share}<span class="interval">{known}</span></span>' if known else share
