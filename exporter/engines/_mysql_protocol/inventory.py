"""What both engines need to find out about encryption: asking narrowly, names of tablespaces, pace, standstill.

Narrowly: a grant or a view that is missing makes one thing unknown, adds one sentence to the problems, and leaves the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from exporter.domain.clock import Clock
from exporter.domain.errors import DeadlineExceeded, KeystoreFailed, PermissionMissing, QueryFailed, Unsupported
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines.pace import LONGEST_PAUSE_SECONDS as LONGEST_PAUSE_SECONDS
from exporter.engines.pace import STANDSTILL_SECONDS as STANDSTILL_SECONDS
from exporter.engines.pace import Pace as Pace
from exporter.engines.pace import Restarts as Restarts
from exporter.engines.pace import Standstill as Standstill
from exporter.engines.pace import condition as condition
from exporter.engines.pace import summed as summed

MOST_CONVERSIONS = 10

Rows = list[tuple[Any, ...]]
Counted = TypeVar("Counted")


class Source(Protocol):
    """What is asked: a `Connection`."""

    @property
    def alive(self) -> bool: ...

    def rows(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> Rows: ...


@dataclass(frozen=True, slots=True)
class TableEncryption:
    """What the server's own views say about one table.

    `encrypted` is None while that is not known, or neither (half-way): `problem` says why. `algorithm` is empty where it
    is not known. `identity` changes when the table is made anew, and is empty where nothing tells that.
    """

    encrypted: bool | None
    algorithm: str = ""
    identity: str = ""
    problem: str = ""


class Questions:
    """Asks one thing after another within one deadline (seconds), and gathers in `problems` what got no answer."""

    def __init__(self, source: Source, timeout: float, what: str) -> None:
        self.source = source
        self._deadline = Deadline(timeout, what)
        self._problems: dict[str, None] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(self._problems)

    @property
    def left(self) -> float:
        """Seconds. Raises DeadlineExceeded when there are none."""
        return self._deadline.left

    def note(self, problem: str) -> None:
        """Add a sentence, once."""
        self._problems.setdefault(problem)

    def ask(
        self, sql: str, args: tuple[Any, ...] = (), *, what: str = "", grant: str = "", most: float = math.inf
    ) -> Rows | None:
        """The rows; None when the server refuses the statement, with a sentence that says that `what` is unknown.

        `grant` is what the statement needs, as one would write it between GRANT and TO. Without `what` there is no
        sentence. Raises what means that the server cannot be asked at all (ConnectFailed, DeadlineExceeded, …).
        """
        try:
            return self.source.rows(sql, args, timeout=self._deadline.step(most))
        except PermissionMissing as error:
            if what:
                self.note(f"unknown: {what}; it takes GRANT {grant}" if grant else f"unknown: {what}; {error}")
        except (KeystoreFailed, QueryFailed, Unsupported) as error:
            if not self.source.alive:
                raise
            if what:
                self.note(f"unknown: {what}; {error}")
        return None

    def variables(self, names: Iterable[str]) -> dict[str, str]:
        """Global variables by name; those that the server does not have are left out."""
        wanted = tuple(names)
        marks = ", ".join(["%s"] * len(wanted))
        rows = self.ask(
            f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", wanted, what="settings of the server"
        )
        return {str(name).lower(): str(value) for name, value in rows or ()}

    def counters(self, names: Iterable[str]) -> dict[str, int]:
        """Global status counters by name; those that the server does not have are left out."""
        wanted = tuple(names)
        marks = ", ".join(["%s"] * len(wanted))
        rows = self.ask(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({marks})", wanted, what="counters of the server")
        return {str(name).lower(): int(value) for name, value in rows or () if str(value).isdigit()}


def switched(value: str | None) -> bool | None:
    """The value of an ON/OFF variable; None where there is none."""
    return None if value is None else value.upper() not in {"OFF", "0", "NO", ""}


# -- names of tablespaces ------------------------------------------------------------------------

_PART = re.compile(r"#s?p#", re.IGNORECASE)
_SAFE = re.compile(r"\w+", re.ASCII)
_CODED = re.compile(r"@([0-9a-f]{4})")


def is_safe(name: str) -> bool:
    """Whether a name is written in a file name as it is."""
    return _SAFE.fullmatch(name) is not None


def file_name(name: str) -> str:
    """A name as InnoDB writes it where it has nothing but ASCII: `a-b` is `a@002db`."""
    return "".join(char if char.isascii() and is_safe(char) else f"@{ord(char):04x}" for char in name)


def spoken(tablespace: str) -> str:
    """A tablespace's name for people; the short codes of letters beyond ASCII stay as they are."""
    return _CODED.sub(lambda found: chr(int(found[1], 16)), tablespace)


def names_condition(column: str, tablespaces: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A condition that is true for these tablespaces and their partitions, and maybe a few more; and its values.

    Servers compare these columns without regard to case: see `of_table`.
    """
    marks = ", ".join(["%s"] * len(tablespaces))
    likes = " OR ".join([f"{column} LIKE %s ESCAPE '|'"] * len(tablespaces))
    patterns = tuple(re.sub(r"([%_|])", r"|\1", name) + "#%" for name in tablespaces)
    return f"({column} IN ({marks}) OR {likes})", (*tablespaces, *patterns)


def of_table(found: Iterable[str], tablespace: str, folded: bool) -> list[str]:
    """Which of these tablespaces are the table's own, or its partitions'. `folded`: the server folds names."""

    def fits(name: str, wanted: str) -> bool:
        rest = name.removeprefix(wanted)
        return name == wanted or (rest != name and _PART.match(rest) is not None)

    listed = list(found)
    wanted = tablespace.lower() if folded else tablespace
    return [name for name in listed if fits(name, tablespace)] or [
        name for name in listed if fits(name.lower() if folded else name, wanted)
    ]


# -- pace and standstill -------------------------------------------------------------------------


class Inventory(Generic[Counted]):
    """What is counted over all tablespaces, and kept until it is time to count anew (see `Pace`)."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._pace = clock, Pace(clock)
        self._counted: Counted | None = None
        self._problems: tuple[str, ...] = ()

    def get(self, asked: Questions, count: Callable[[float], Counted | None]) -> Counted | None:
        """What `count` gives now, or gave last; None where that is unknown. `count` is given its own limit in seconds.

        A count that does not end in time is not tried again for an hour, and is unknown until then. Raises
        DeadlineExceeded only when it cost the connection.
        """
        if self._pace.due():
            before = set(asked.problems)
            begun = self._clock.monotonic()
            self._counted = None
            try:
                self._counted = count(asked.left / 2)
                self._pace.took(self._clock.monotonic() - begun)
            except DeadlineExceeded:
                self._pace.took(LONGEST_PAUSE_SECONDS)
                if not asked.source.alive:
                    raise
                asked.note("unknown: which tablespaces are encrypted; the server could not count them in time")
            self._problems = tuple(problem for problem in asked.problems if problem not in before)
        for problem in self._problems:
            asked.note(problem)
        return self._counted

    def forget(self) -> None:
        """Count at the next call: the server is not what it was."""
        self._pace.forget()


def in_the_clear(parts: Mapping[str, Iterable[bool | None]], encrypted: int | None) -> tuple[tuple[str, int], ...]:
    """How many parts of each kind hold data of encrypted tables in the clear.

    `parts` says of each whether it is encrypted (None: unknown); `encrypted` is the number of encrypted objects. A kind is
    left out while nothing is known to lie in the clear and something is not known.
    """
    if encrypted is None:
        return ()
    found = {kind: list(states) for kind, states in parts.items()}
    if not encrypted:
        return tuple((kind, 0) for kind in found)
    return tuple((kind, states.count(False)) for kind, states in found.items() if False in states or None not in states)
