"""The table of grants of docs/engines/*.md, and what a session finds out with them: what is known, and in which words the
rest is not."""

from __future__ import annotations

import dataclasses
import re
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from exporter.domain.errors import TargetError
from exporter.domain.model import Operation, Slot
from exporter.domain.states import LagKind, StandbyState
from exporter.engines import registry
from tests.engines.mysql_protocol.canary_targets import opened, run_both, target_of
from tests.processes import until

DOCS = Path(__file__).resolve().parents[3] / "docs/engines"
SCHEMA = "tde_canary"
ROWS = 40_000
"""Some 12 MB for each twin; the statistics of smaller ones tell no rows per page."""
_CHANGING = ("problems", "decrypt_unit", "host_cpu_ratio", "buffer_hit_ratio")
_ALL_LAGS = tuple((kind, True) for kind in LagKind)


@dataclasses.dataclass(frozen=True)
class Grant:
    """A row of the table: what stands between GRANT and TO, what narrows without it, and the grant of the same purpose on
    standbys, empty where they need none. `always`: its absence shows at any time, and not only in rare cases."""

    text: str
    collectors: frozenset[str]
    on_standbys: str
    always: bool


def documented(engine: str) -> dict[str, Grant]:
    """The grants by their text, as the page of an engine lists them."""
    found = {}
    for line in (DOCS / f"{engine}.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and re.match(r"`(PROCESS|SELECT|INSERT|SLAVE|BINLOG|REPLICATION)\b.* ON ", cells[0]):
            text = cells[0].strip("`")
            names = frozenset(re.findall(r"`(\w+)`", cells[1]))
            on_standbys = text if cells[2] == "the same" else cells[2].strip("`")
            found[text] = Grant(text, names, on_standbys, "rarely" not in cells[1])
    assert found, f"no grants in the page of {engine}"
    return found


class Printed:
    """What `provision --print` writes about the account."""

    def __init__(self, target) -> None:
        lines = [line.removeprefix("-- ") for line in registry.make(target).script()]
        self.user = next(line for line in lines if line.startswith("CREATE USER "))
        self.grants = {unquoted(found[1]): line for line in lines if (found := re.match(r"GRANT (.+) TO .*;", line))}

    def execute(self, server, password: str) -> str:
        """As a DBA does, who fills in what is left to him. The name of the account."""
        for line in (self.user, *self.grants.values()):
            statement = line.replace("<password>", password).replace("<host of the exporter>", "%")
            assert "<" not in statement
            server.query(statement.rstrip(";"))
        return self.user.split("'")[1]


def unquoted(text: str) -> str:
    return text.replace("`", "")


class Fleet:
    """A primary with twins and the printed account, and a standby with an account of its own for just what it needs."""

    def __init__(self, primary, replica, folder: Path, engine: str) -> None:
        self.primary, self.replica, self.folder = primary, replica, folder
        self.grants = documented(engine)
        root = target_of(primary, folder, rows=ROWS, schema=SCHEMA)
        with opened(root, provisioned=True):
            pass
        password = secrets.token_urlsafe(12)
        self.printed = Printed(target_of(primary, folder, rows=ROWS, schema=SCHEMA, account=("tde_exporter", password)))
        self.user = self.printed.execute(primary, password)
        on_standbys = [grant.on_standbys for grant in self.grants.values() if grant.on_standbys]
        secret = folder / "watcher.secret"
        secret.write_text(primary.create_user("watcher", grants=on_standbys))
        replica.wait_for(primary)
        standby = {"name": "east", "socket": replica.socket, "user": "watcher", "password": {"file": str(secret)}}
        self.target = target_of(
            primary, folder, rows=ROWS, schema=SCHEMA, account=(self.user, password), standbys=(standby,)
        )
        self.all_known, self.words = reading(self.target)

    @contextmanager
    def without(self, grant: str, user: str = ""):
        """`user`: empty for the account of the target."""
        account = f"{user or self.user}@'%'"
        self.primary.query(f"REVOKE {grant} FROM {account}")
        self.replica.wait_for(self.primary)
        try:
            yield
        finally:
            self.primary.query(f"GRANT {grant} TO {account}")
            self.replica.wait_for(self.primary)

    def narrowed(self) -> tuple[set[str], str]:
        """The collectors that know less now than with all grants, and all that is said."""
        known, words = reading(self.target)
        return {name for name in known if known[name] != self.all_known[name]}, words


def reading(target, hide: Path | None = None) -> tuple[dict[str, Any], str]:
    """What a session finds out, by collector: not the values, but which of them are known; and all words."""
    known: dict[str, Any] = {}
    words: list[str] = []

    def attempt(name, ask):
        try:
            known[name], problem = ask()
            words.append(problem)
        except TargetError as error:
            known[name] = type(error).__name__
            words.append(str(error))

    with opened(target, hide=hide) as session:
        attempt("canary", lambda: _canary(target, session))
        attempt("activity", lambda: _activity(session))
        attempt("encryption_state", lambda: _encryption_state(session))
        attempt("heartbeat", lambda: (session.heartbeat(10.0), ""))
        attempt("standby", lambda: _standby(session))
        known["tde_target_info"] = session.facts().role
    return known, unquoted(" | ".join(part for part in words if part))


def _canary(target, session):
    pair = target.pairs[0]
    facts = session.verify(pair, 20.0)
    session.prepare(pair, 10.0)
    twins = [(facts.twin(slot).encrypted, facts.twin(slot).rows_per_block is not None) for slot in Slot]
    if facts.problem:
        return (facts.valid, twins), facts.problem
    runs = {}
    for operation, number in ((Operation.POINT_SELECT, 10), (Operation.FULL_SCAN, 1)):
        work = run_both(target, session, operation, runs=number)
        for field in ("cpu_seconds", "server_seconds", "blocks_read", "decrypts"):
            # On a busy machine the time of a single run may be missing.
            runs[operation, field] = [any(getattr(one, field) is not None for one in work[slot]) for slot in Slot]
    told = session.facts()
    return (facts.valid, twins, runs, told.clock, told.cpu_source, told.decrypt_source), ""


def _activity(session):
    activity = session.activity(10.0)
    fields = [field.name for field in dataclasses.fields(activity) if field.name not in _CHANGING]
    return {name: getattr(activity, name) is not None for name in fields}, " | ".join(activity.problems)


def _encryption_state(session):
    state = session.encryption_state(10.0)
    stores = [(store.name, store.state, store.keys_in_use, store.keys_missing) for store in state.keystores]
    kinds = {(kind, condition) for kind, condition, _ in state.objects}
    rest = state.algorithms, [kind for kind, _ in state.unprotected], state.conversion_stalled
    return (stores, kinds, rest), " | ".join(state.problems)


def _standby(session):
    """Beats until all is known, or for as long as it would take."""
    found: list[StandbyState] = []

    def settled():
        with suppress(TargetError):
            session.heartbeat(10.0)
        found[:] = session.standbys(10.0)
        return all(_lags(state) == _ALL_LAGS for state in found)

    with suppress(AssertionError):
        until(settled, "the lags to be known", patience=1.0)
    known = [
        (_lags(state), state.transport_running, state.apply_running, state.key_match, state.configured_delay)
        for state in found
    ]
    return known, " | ".join(state.problem for state in found)


def _lags(state) -> tuple[tuple[LagKind, bool], ...]:
    return tuple((kind, state.lag(kind) is not None) for kind in LagKind)
