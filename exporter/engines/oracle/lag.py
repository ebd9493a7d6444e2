"""What the texts of V$DATAGUARD_STATS and the rows of redo processes mean. No I/O."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass

from exporter.engines.beats import seconds

FROZEN_SECONDS = 10.0
"""How long nothing may have come from the primary before its time is added to the lags. Redo comes at least every few
seconds, also from a primary that rests."""

_STAMP = "%m/%d/%Y %H:%M:%S"

NO_NEWS = "nothing comes from the primary any more"
NO_STATS = "it tells no lags (V$DATAGUARD_STATS is empty)"
NO_TIME = "it does not tell when it last heard of the primary"


@dataclass(frozen=True, slots=True)
class Lags:
    """Lags in seconds; None is unknown. `frozen`: nothing has come from the primary for a while; None where unknown."""

    transport: float | None = None
    apply: float | None = None
    frozen: bool | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Redo:
    """The processes of redo on a standby; None is unknown. Sequences are those that are written or applied just now."""

    receives: bool | None = None
    applies: bool | None = None
    receiving: int | None = None
    applying: int | None = None
    delay: float | None = None
    problem: str = ""


def lags_of(rows: Iterable[tuple[object, object, object, object]]) -> Lags:
    """From (NAME, VALUE, DATUM_TIME, now), all texts, the times those of the standby's host.

    A lag stands still when nothing comes from the primary any more, so the time since then is added to it. A lag without a
    value is unknown; so is one of which it is unknown when it was true.
    """
    found: dict[str, float | None] = {}
    ages: list[float | None] = []
    undated = False
    for name, value, datum, now in rows:
        kind = str(name).lower()
        if kind not in ("transport lag", "apply lag"):
            continue
        lag, age = seconds(value), _age(datum, now)
        undated = undated or (lag is not None and age is None)
        ages.append(age)
        if lag is None or age is None:
            found[kind] = None
        else:
            found[kind] = lag + age if age > FROZEN_SECONDS else lag
    if not found:
        return Lags(problem=NO_STATS)
    known = [age for age in ages if age is not None]
    frozen = min(known) > FROZEN_SECONDS if known else None
    problem = NO_NEWS if frozen else NO_TIME if undated else ""
    return Lags(found.get("transport lag"), found.get("apply lag"), frozen, problem)


def redo_of(rows: Iterable[tuple[object, object, object, object]]) -> Redo:
    """From (name of the process, what it does, SEQUENCE#, DELAY_MINS) of V$DATAGUARD_PROCESS or V$MANAGED_STANDBY."""
    receivers, appliers, receiving, applying = 0, 0, 0, 0
    waits_for_gap, delay = False, 0
    for name, action, sequence, minutes in rows:
        process, number = str(name).upper(), _whole(sequence)
        if process.startswith("RFS"):
            receivers += 1
            receiving = max(receiving, number)
        elif re.match(r"MRP|MR\(FG\)|LSP|PR\d", process):
            # The one that manages, of a physical or logical standby, and those that work for it.
            appliers += not process.startswith("PR")
            applying = max(applying, number)
            delay = max(delay, _whole(minutes))
            waits_for_gap = waits_for_gap or str(action).upper() == "WAIT_FOR_GAP"
    return Redo(
        receives=receivers > 0,
        applies=appliers > 0,
        receiving=receiving or None,
        applying=applying or None,
        delay=delay * 60.0,
        problem="its apply waits for redo that is missing (a gap)" if waits_for_gap else "",
    )


def sequences_of(rows: Iterable[tuple[object, object, object]]) -> tuple[int | None, int | None]:
    """(received, applied) from (THREAD#, APPLIED, highest SEQUENCE#) of V$ARCHIVED_LOG; of the threads of a cluster the
    sums, so that both count logs."""
    received: dict[int, int] = {}
    applied: dict[int, int] = {}
    for thread, is_applied, newest in rows:
        number, at = _whole(newest), _whole(thread)
        received[at] = max(received.get(at, 0), number)
        if str(is_applied).upper() in ("YES", "IN-MEMORY"):
            applied[at] = max(applied.get(at, 0), number)
    return sum(received.values()) or None, sum(applied.values()) or None


def gap_of(rows: Iterable[tuple[object, object, object]]) -> int:
    """How many logs are missing, from (THREAD#, LOW_SEQUENCE#, HIGH_SEQUENCE#) of V$ARCHIVE_GAP."""
    return sum(max(0, _whole(high) - _whole(low) + 1) for _, low, high in rows)


def _age(datum: object, now: object) -> float | None:
    """Seconds from one text to the other; never negative, for clocks are set back."""
    try:
        then, since = (datetime.datetime.strptime(str(text).strip(), _STAMP) for text in (datum, now))  # noqa: DTZ007
    except ValueError:
        return None
    return max(0.0, (since - then).total_seconds())


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0
