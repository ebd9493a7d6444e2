"""Every SQL text that this engine can send, each named, with the grants that it takes.

There is no other way to a database than a `Statement`: `Connection` takes nothing else. So the list of them is complete:
the self test runs it, the documentation's table of grants is made of it, and a test looks through it for what is under an
extra licence or writes outside of our schema.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

_IDENTIFIER = re.compile(r"[A-Z][A-Z0-9_$#]{0,127}")
_HOLE = re.compile(r"\{(\w+)\}")


class Need(StrEnum):
    """What a statement wants of the database beside grants; where it is not there, the statement is not sent."""

    OPEN = "open"
    """A database that is open: dictionary views and tables cannot be read when it is only mounted."""
    PRIMARY = "primary"
    """A database that is open for writing."""
    STANDBY = "standby"
    """A standby; elsewhere there are no rows."""
    CDB = "cdb"
    """The root of a container database."""
    TWINS = "twins"
    """Twins that were made."""
    LOGIN = "login"
    """An account that may make and remove objects; only the commands `provision` and `drop` send it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL text, or PL/SQL block.

    `{holes}` in `sql` and in `grants` stand for identifiers; `on` fills them. Values go as `:1`, `:2` ..., by their place.

    `name` is unique, such as `canary.point_select`; `collector` groups statements by what is lost without them. `grants`
    is what the account needs, as one writes it between GRANT and TO. `since` is the first release that knows all of it.
    `example` are values with which the self test may run it.
    """

    name: str
    sql: str
    collector: str
    grants: tuple[str, ...] = ()
    needs: frozenset[Need] = frozenset()
    since: int = 12
    example: tuple[object, ...] = field(default=(), compare=False)

    @property
    def holes(self) -> tuple[str, ...]:
        """Names of the identifiers that are still to be filled in, in the order of the text."""
        return tuple(dict.fromkeys(_HOLE.findall(self.sql)))

    @property
    def changes(self) -> bool:
        """Whether it is no mere query: DDL, DML, a PL/SQL block, or a setting of the session."""
        return re.match(r"\s*(SELECT|WITH)\b", self.sql, re.IGNORECASE) is None

    def on(self, **identifiers: str) -> Statement:
        """The same statement on certain objects. An identifier is `NAME` or `OWNER.NAME`, as the dictionary has it.

        Raises ValueError for what is no plain identifier: nothing else ever gets into a text.
        """
        filled = {hole: quoted(name) for hole, name in identifiers.items()}
        return replace(self, sql=_fill(self.sql, filled), grants=tuple(_fill(grant, filled) for grant in self.grants))


_registry: dict[str, Statement] = {}


def define(
    name: str,
    sql: str,
    collector: str,
    grants: tuple[str, ...] = (),
    *,
    needs: tuple[Need, ...] = (),
    since: int = 12,
    example: tuple[object, ...] = (),
) -> Statement:
    """A statement, and its entry in the list; for module level only. Raises ValueError for a name that is taken."""
    if name in _registry:
        raise ValueError(f"there is a statement of that name already: {name}")
    made = Statement(name, " ".join(sql.split()), collector, grants, frozenset(needs), since, example)
    _registry[name] = made
    return made


def every() -> Mapping[str, Statement]:
    """All statements of the engine, by name; imports all of its modules."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return dict(sorted(_registry.items()))


def quoted(name: str) -> str:
    """An identifier, part by part, for a statement. Raises ValueError for one that is not plain."""
    parts = name.split(".")
    if len(parts) > 2 or not all(map(is_plain, parts)):
        raise ValueError(f"not a plain identifier: {name!r}")
    return ".".join(f'"{part}"' for part in parts)


def is_plain(name: str) -> bool:
    """Whether a name is one that needs no quotes, as the dictionary has it: in upper case."""
    return _IDENTIFIER.fullmatch(name) is not None


def view(*names: str) -> tuple[str, ...]:
    """The grants for reading views: `V$DATABASE` is granted as `SYS.V_$DATABASE`, `DBA_TABLES` as `SYS.DBA_TABLES`."""
    return tuple(f"READ ON SYS.{name.replace('V$', 'V_$', 1)}" for name in names)


def _fill(text: str, filled: Mapping[str, str]) -> str:
    return _HOLE.sub(lambda match: filled.get(match[1], match[0]), text)
