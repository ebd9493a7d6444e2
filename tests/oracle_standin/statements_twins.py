"""The statements of the engine's canaries, twins and counters, answered on the model.

Texts come from the engine's own list, by name; what is not named here stays unknown to the stand-in. Twins are made with
no rows, and filled by the statements that fill them: what they cost follows from what is in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.engines.oracle import statements as engine
from tests.oracle_standin import canaries, standard
from tests.oracle_standin.counters import TIME_MODEL, numbered
from tests.oracle_standin.datatypes import Value
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.model import Database, Row, Seat, User
from tests.oracle_standin.statements import Answer, Call, Statements
from tests.oracle_standin.storage import EncryptedColumn, Table, Tablespace
from tests.oracle_standin.views import Views, columns

ROWS_PER_BLOCK = 25
PIECE = 8192
SIMPLE = (
    "session.still_there",
    "identity.where",
    "identity.database",
    "identity.banner",
    "identity.block_size",
    "activity.statistics",
    "activity.times",
    "activity.host",
    "activity.memory",
    "counters.names",
    "counters.times",
    "counters.of_session_without_times",
    "counters.of_own_session_without_times",
    "twins.table",
    "twins.object",
    "twins.lobs",
    "twins.indexes",
    "twins.encrypted_columns",
    "twins.tablespaces",
    "twins.algorithms",
    "provision.schema",
    "provision.encrypted_columns",
)
"""Queries of views that need no function."""


@dataclass
class Twin(Table):
    """A table that the engine made. `rows` and `blocks` grow as it is filled; `lobs` are the bytes of each row's object."""

    comment: str | None = None
    key: str = ""
    object_id: int = 0
    lobs: dict[int, int] = field(default_factory=dict)
    cache: str = "NO"
    gathered: bool = False

    def fill(self, rows: int) -> None:
        self.rows = rows
        self.blocks = max(1, -(-rows // ROWS_PER_BLOCK))
        self.cold = self.blocks


def engine_statements() -> Statements:
    """The standard table, and what the engine asks of it."""
    from tests.oracle_standin import statements_state  # which builds upon this module

    table = standard.statements()
    register(table)
    statements_state.register(table)
    return table


def engine_database(version: str = "19", **grants: set[str]) -> Database:
    """A database with tablespaces and a schema for twins, and no twins yet; `grants` are of further users."""
    database = Database(version)
    database.tables.clear()
    database.users["TDE"] = User("", locked=True)
    for name, granted in grants.items():
        database.users[name.upper()] = User("secret", grants=granted)
    return database


# -- views -----------------------------------------------------------------------------------------


def _readable(database: Database, seat: Seat) -> Iterator[Table]:
    grants = seat.account.grants
    for table in database.tables:
        at = f"{table.owner}.{table.name}"
        if table.con_id == seat.con_id and (grants is None or at in grants or "SELECT ANY TABLE" in grants):
            yield table


def _views(views: Views) -> None:
    @views.define(
        "ALL_TABLES",
        "OWNER V128, TABLE_NAME V128, TABLESPACE_NAME V30, NUM_ROWS N, BLOCKS N",
        public=True,
        container_rows=False,
    )
    def _tables(database: Database, seat: Seat) -> Iterator[Row]:
        for each in _readable(database, seat):
            known = not isinstance(each, Twin) or each.gathered
            yield {
                "OWNER": each.owner,
                "TABLE_NAME": each.name,
                "TABLESPACE_NAME": each.tablespace,
                "NUM_ROWS": each.rows if known else None,
                "BLOCKS": each.blocks if known else None,
            }

    @views.define("ALL_TAB_COMMENTS", "OWNER V128, TABLE_NAME V128, COMMENTS V4000", public=True, container_rows=False)
    def _comments(database: Database, seat: Seat) -> Iterator[Row]:
        for each in _readable(database, seat):
            yield {"OWNER": each.owner, "TABLE_NAME": each.name, "COMMENTS": getattr(each, "comment", None)}

    @views.define(
        "ALL_OBJECTS",
        "OWNER V128, OBJECT_NAME V128, OBJECT_TYPE V23, DATA_OBJECT_ID N",
        public=True,
        container_rows=False,
    )
    def _objects(database: Database, seat: Seat) -> Iterator[Row]:
        for each in _readable(database, seat):
            number = getattr(each, "object_id", 1)
            yield {"OWNER": each.owner, "OBJECT_NAME": each.name, "OBJECT_TYPE": "TABLE", "DATA_OBJECT_ID": number}

    @views.define(
        "ALL_LOBS", "OWNER V128, TABLE_NAME V128, TABLESPACE_NAME V30, CACHE V10", public=True, container_rows=False
    )
    def _lobs(database: Database, seat: Seat) -> Iterator[Row]:
        for each in _readable(database, seat):
            cache = getattr(each, "cache", "NO")
            yield {"OWNER": each.owner, "TABLE_NAME": each.name, "TABLESPACE_NAME": each.tablespace, "CACHE": cache}

    @views.define(
        "ALL_INDEXES",
        "TABLE_OWNER V128, TABLE_NAME V128, TABLESPACE_NAME V30, INDEX_NAME V128, INDEX_TYPE V27",
        public=True,
        container_rows=False,
    )
    def _indexes(database: Database, seat: Seat) -> Iterator[Row]:
        for each in _readable(database, seat):
            yield {
                "TABLE_OWNER": each.owner,
                "TABLE_NAME": each.name,
                "TABLESPACE_NAME": each.tablespace,
                "INDEX_NAME": getattr(each, "key", f"SYS_{each.name}"),
                "INDEX_TYPE": "NORMAL",
            }

    @views.define(
        "ALL_ENCRYPTED_COLUMNS",
        "OWNER V128, TABLE_NAME V128, COLUMN_NAME V128, ENCRYPTION_ALG V29",
        public=True,
        container_rows=False,
    )
    def _columns(database: Database, seat: Seat) -> Iterator[Row]:
        readable = {(each.owner, each.name) for each in _readable(database, seat)}
        for column in database.encrypted_columns:
            if (column.owner, column.table) in readable:
                yield {
                    "OWNER": column.owner,
                    "TABLE_NAME": column.table,
                    "COLUMN_NAME": column.column,
                    "ENCRYPTION_ALG": column.algorithm,
                }

    @views.define("ALL_USERS", "USERNAME V128", public=True, container_rows=False)
    def _users(database: Database, _seat: Seat) -> Iterable[Row]:
        return [{"USERNAME": name} for name in database.users]


# -- statements ------------------------------------------------------------------------------------


def register(table: Statements) -> None:
    """Add views and statements to a table."""
    _views(table.views)
    texts = {name: statement.sql for name, statement in engine.every().items()}
    for name in SIMPLE:
        table.select(texts[name], name=name)
    _counters(table, texts)
    _canaries(table, texts)
    _looks(table, texts)
    _making(table, texts)
    for name in ("session.cell_offload_off", "session.serial_direct_read"):
        assert table.find(texts[name]), "settings of sessions are in the standard table"


def _counters(table: Statements, texts: Mapping[str, str]) -> None:
    def values(call: Call, sid: int, numbers: Sequence[Value]) -> Iterator[tuple[Value, Value]]:
        seat = call.database.seats.get(sid)
        if seat is None:
            return
        for number, name, _group, _identifier in numbered(
            call.database.profile.release, call.database.missing_statistics
        ):
            if number in numbers:
                yield number, seat.counters.statistic(name)
        for name in ("DB CPU", "DB time"):
            yield TIME_MODEL[name], seat.counters.microseconds(name)

    @table.add(texts["counters.of_session"], spec="ID N, VALUE N", reads=["V$SESSTAT", "V$SESS_TIME_MODEL"])
    def _of_other(call: Call) -> Iterable[Sequence[Value]]:
        sid = call.binds[0]
        assert isinstance(sid, int)
        return list(values(call, sid, call.binds[1:6]))

    @table.add(texts["counters.of_own_session"], spec="ID N, VALUE N", reads=["V$MYSTAT", "V$SESS_TIME_MODEL"])
    def _of_own(call: Call) -> Iterable[Sequence[Value]]:
        return list(values(call, call.seat.sid, call.binds[:5]))


def _number(value: Value) -> int:
    assert isinstance(value, int), f"{value!r} is no number"
    return value


def _between(table: Table, low: Value, high: Value) -> range:
    return range(max(1, _number(low)), min(table.rows, _number(high)) + 1)


def _hash(table: Table, numbers: Iterable[int]) -> int:
    return sum(int(canaries.payload(table, number)[:8], 16) for number in numbers)


def _reading(table: Statements, name: str, sql: str, spec: str, shape: str, touched: str) -> None:
    """A canary that answers with one row; `touched` says how many rows it reads: "one", "range" or "all"."""
    found = tuple(column for _, column, _ in columns(spec))

    def function(call: Call) -> Answer:
        twin = canaries.table_of(call)
        tablespace = call.database.tablespace(twin.tablespace, twin.con_id)
        if not twin.rows:
            return Answer(found, [(0, None)])
        numbers = {
            "all": lambda: range(1, twin.rows + 1),
            "range": lambda: _between(twin, call.binds[0], call.binds[1]),
            "one": lambda: _between(twin, call.binds[0], call.binds[0]),
        }[touched]()
        done = canaries.work(call, twin, name.partition(".")[2], shape, max(1, len(numbers)))
        rows: list[Sequence[Value]] = [(len(numbers), _hash(twin, numbers))]
        if name.endswith("point_select"):
            rows = [(number, canaries.payload(twin, number)) for number in numbers]
        elif name.endswith("lob_read"):
            rows = [(_lob_bytes(twin, number), 0) for number in numbers]
        return Answer(found, rows, work=done, tablespace=tablespace)

    table.add(sql, name=name)(function)


def _lob_bytes(table: Table, number: int) -> int | None:
    return table.lobs.get(number) if isinstance(table, Twin) else table.lob_blocks * PIECE


def _canaries(table: Statements, texts: Mapping[str, str]) -> None:
    point, pair = "ID N, PAYLOAD V300", "N N, DIGEST N"
    _reading(table, "canary.point_select", texts["canary.point_select"], point, "rows", "one")
    _reading(table, "canary.range_select", texts["canary.range_select"], pair, "rows", "range")
    _reading(table, "canary.full_scan", texts["canary.full_scan"], pair, "full", "all")
    _reading(table, "canary.lob_read", texts["canary.lob_read"], "N N, FOUND N", "lob", "one")


def _looks(table: Statements, texts: Mapping[str, str]) -> None:
    def readable(call: Call, rows: int) -> Table:
        """What is read to verify needs the key as well."""
        twin = canaries.table_of(call)
        if twin.rows:
            canaries.work(call, twin, "verify", "rows", rows)
        return twin

    @table.add(texts["twins.ends"], spec="LOW N, HIGH N")
    def _ends(call: Call) -> Iterable[Sequence[Value]]:
        twin = readable(call, 2)
        return [(1, twin.rows) if twin.rows else (None, None)]

    @table.add(texts["twins.sums"], spec="N N, DIGEST N")
    def _sums(call: Call) -> Iterable[Sequence[Value]]:
        twin = readable(call, 500)
        numbers = [n for at in range(0, 10, 2) for n in _between(twin, call.binds[at], call.binds[at + 1])]
        return [(len(numbers), _hash(twin, numbers))]

    @table.add(texts["twins.lob_bytes"], spec="N N, BYTES N")
    def _lobs(call: Call) -> Iterable[Sequence[Value]]:
        twin = readable(call, 16)
        sizes = [_lob_bytes(twin, number) for number in _between(twin, 1, call.binds[0])]
        return [(len(sizes), sum(size or 0 for size in sizes))]

    @table.add(texts["provision.checksum"], spec="N N, DIGEST N")
    def _checksum(call: Call) -> Iterable[Sequence[Value]]:
        twin = canaries.table_of(call)
        return [(twin.rows, _hash(twin, range(1, twin.rows + 1)))]


def _may(call: Call, privilege: str) -> None:
    grants = call.seat.account.grants
    if grants is not None and privilege not in grants:
        raise OraError(1031)
    if call.database.open_mode != "READ WRITE":
        raise OraError(16000)


def _twin(call: Call, privilege: str) -> Twin:
    twin = canaries.table_of(call)
    assert isinstance(twin, Twin)
    _may(call, privilege)
    return twin


def _making(table: Statements, texts: Mapping[str, str]) -> None:
    table.add(texts["twins.create"])(lambda call: _create(call, 0))
    for name, text in texts.items():
        if name.startswith("twins.create_with_column"):
            table.add(text)(lambda call: _create(call, 1))

    @table.add("COMMENT ON TABLE {table} IS {literal}")
    def _comment(call: Call) -> Answer:
        _twin(call, "COMMENT ANY TABLE").comment = call.names["literal"].strip("'")
        return Answer(commits=True)

    @table.add(texts["provision.grant_read"])
    def _grant(call: Call) -> Answer:
        twin, reader = _twin(call, "GRANT ANY OBJECT PRIVILEGE"), call.names["reader"]
        account = call.database.users.get(reader)
        if account is None:
            raise OraError(1917, reader)
        if account.grants is not None:
            account.grants.add(f"{twin.owner}.{twin.name}")
        return Answer(commits=True)

    @table.add(texts["twins.lock"])
    def _lock(call: Call) -> None:
        _twin(call, "LOCK ANY TABLE")

    @table.add(texts["twins.insert"])
    def _insert(call: Call) -> Answer:
        twin, (first, rows) = _twin(call, "INSERT ANY TABLE"), call.binds
        if _number(first) != twin.rows + 1:
            raise OraError(1)
        twin.fill(twin.rows + _number(rows))
        return Answer(affected=_number(rows), changes=True)

    @table.add(texts["twins.fill_lob"])
    def _fill(call: Call) -> Answer:
        number, pieces, _ = call.binds
        _twin(call, "UPDATE ANY TABLE").lobs[_number(number)] = _number(pieces) * PIECE
        return Answer(changes=True)

    @table.add(texts["twins.gather_statistics"])
    def _gather(call: Call) -> None:
        owner, name = (str(value) for value in call.binds)
        twin = call.database.table(owner, name, call.seat.con_id)
        assert isinstance(twin, Twin)
        twin.gathered = True

    @table.add(texts["twins.drop"])
    def _drop(call: Call) -> Answer:
        twin = _twin(call, "DROP ANY TABLE")
        call.database.tables.remove(twin)
        call.database.encrypted_columns[:] = [
            each for each in call.database.encrypted_columns if (each.owner, each.table) != (twin.owner, twin.name)
        ]
        return Answer(commits=True)


def _create(call: Call, encrypted_columns: int) -> Answer:
    database, con_id = call.database, call.seat.con_id
    _may(call, "CREATE ANY TABLE")
    owner, _, name = call.names["table"].rpartition(".")
    tablespace: Tablespace = database.tablespace(call.names["tablespace"], con_id)
    if database.table(owner, name, con_id) is not None:
        raise OraError(955)
    twin = Twin(owner, name, tablespace.name, con_id, rows=0, blocks=1, encrypted_columns=encrypted_columns)
    twin.key = call.names["key"]
    twin.object_id = max([70_000, *(each.object_id for each in database.tables if isinstance(each, Twin))]) + 1
    database.tables.append(twin)
    if encrypted_columns:
        for column in ("PAYLOAD", "DATA"):
            database.encrypted_columns.append(
                EncryptedColumn(owner, name, column, "AES 256 bits key", "NO", "NOMAC", con_id)
            )
    return Answer(commits=True)
