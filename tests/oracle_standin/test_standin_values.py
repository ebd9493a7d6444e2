"""Values survive the way through the real driver, in both directions."""

import datetime
from decimal import Decimal

import oracledb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle_standin.datatypes import decode_number, encode_number
from tests.oracle_standin.primitives import Reader, counted, sb, sized, ub

UTC = datetime.UTC
EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
WEST = datetime.timezone(-datetime.timedelta(hours=3, minutes=30))
DAY = datetime.datetime(2026, 2, 28, 23, 59, 58)  # noqa: DTZ001 - as Oracle's DATE
NUMBERS = [0, 1, -1, 10, 99, 100, 101, -100, 12345, 2**53 + 1, 2**63 - 1, 11 * 2**30, 10**38 - 1, -(10**37)]
FRACTIONS = [0.5, -0.5, 0.05, 123.456, -0.001, 1e-9, 3.14159]


def nothing_more():
    raise AssertionError("read too far")


@given(st.integers(0, 2**64 - 1))
def test_lengths_are_read_as_written(number):
    assert Reader(ub(number), nothing_more).number() == number


@given(st.integers(-(2**63), 2**63))
def test_signed_numbers_are_read_as_written(number):
    assert Reader(sb(number), nothing_more).number() == number


@given(st.binary(max_size=700), st.integers(1, 50))
def test_bytes_are_read_as_written_even_from_many_packets(data, size):
    raw = counted(data) + sized(data)
    pieces = iter([raw[at : at + size] for at in range(0, len(raw), size)])
    reader = Reader(next(pieces), lambda: next(pieces))

    assert (reader.counted() or b"", reader.sized()) == (data, data)
    assert reader.left() == 0


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=8))
def test_numbers_are_decoded_as_encoded(number):
    assert decode_number(encode_number(number)) == number


@given(st.integers(-(10**38), 10**38))
def test_integers_are_decoded_as_encoded(number):
    assert decode_number(encode_number(number)) == number


@pytest.fixture
def echo(standin, cursor):
    """Sends values through bind variables and back through columns."""
    received: list[object] = []

    def through(spec, *values):
        sql = f"SELECT {', '.join(f':{place}' for place in range(1, len(values) + 1))} FROM echo"

        @standin.statements.add(sql, spec=spec)
        def _echo(call):
            received[:] = call.binds
            return [list(call.binds)]

        cursor.execute(sql, values)
        assert received == list(values)
        return cursor.fetchone()

    return through


@pytest.mark.parametrize("number", [*NUMBERS, *FRACTIONS])
def test_numbers(standin, cursor, number):
    standin.statements.add("SELECT n FROM numbers", spec="N N")(lambda call: [(number,)])
    standin.statements.add("SELECT n FROM numbers WHERE n = :1", spec="N N")(lambda call: [(call.binds[0],)])

    (given,) = cursor.execute("SELECT n FROM numbers").fetchone()
    (echoed,) = cursor.execute("SELECT n FROM numbers WHERE n = :1", [number]).fetchone()

    assert (given, echoed) == (number, number)
    assert type(given) is type(number)


def test_all_types_that_can_be_bound(echo):
    values = ("Ärger", 17, b"\x00\xff", DAY, datetime.timedelta(days=3, hours=4, seconds=5, microseconds=6), None)

    assert echo("T V30, N N, R R16, D D, I DS, X V10", *values) == values


def test_a_text_of_many_packets(echo):
    assert echo("T V32767", "ü" * 16_000) == ("ü" * 16_000,)


@pytest.mark.parametrize("zone", [UTC, EAST, WEST])
def test_a_time_with_a_zone_comes_without_it_in_its_own_hours(standin, cursor, zone):
    moment = DAY.replace(tzinfo=zone, microsecond=123000)
    standin.statements.add("SELECT t FROM times", spec="T TZ")(lambda call: [(moment,)])

    assert cursor.execute("SELECT t FROM times").fetchone() == (moment.replace(tzinfo=None),)


@pytest.mark.parametrize("seconds", [0, 1.5, -1.5, 90061.25, -90061.25])
def test_intervals(standin, cursor, seconds):
    interval = datetime.timedelta(seconds=seconds)
    standin.statements.add("SELECT i FROM intervals", spec="I DS")(lambda call: [(interval,)])

    assert cursor.execute("SELECT i FROM intervals").fetchone() == (interval,)


def test_timestamps_keep_their_fractions_and_dates_do_not(standin, cursor):
    moment = DAY.replace(microsecond=42)
    standin.statements.add("SELECT t, d FROM times", spec="T TS, D D")(lambda call: [(moment, moment)])

    assert cursor.execute("SELECT t, d FROM times").fetchone() == (moment, DAY)


def test_columns_are_described_with_names_types_and_sizes(standin, cursor):
    standin.statements.add("SELECT * FROM kinds", spec="A# N, B V30, C R16, D D, E TZ, F DS")(lambda call: [])

    cursor.execute("SELECT * FROM kinds")

    assert [(each.name, each.type_code) for each in cursor.description] == [
        ("A#", oracledb.DB_TYPE_NUMBER),
        ("B", oracledb.DB_TYPE_VARCHAR),
        ("C", oracledb.DB_TYPE_RAW),
        ("D", oracledb.DB_TYPE_DATE),
        ("E", oracledb.DB_TYPE_TIMESTAMP_TZ),
        ("F", oracledb.DB_TYPE_INTERVAL_DS),
    ]
    assert [cursor.description[place].internal_size for place in (1, 2)] == [30, 16]


def test_decimals_keep_all_digits(standin, cursor):
    number = Decimal("12345678901234567890.123456789")
    standin.statements.add("SELECT n FROM numbers", spec="N N")(lambda call: [(number,)])
    cursor.outputtypehandler = lambda cur, meta: cur.var(Decimal, arraysize=cur.arraysize)

    assert cursor.execute("SELECT n FROM numbers").fetchone() == (number,)


@pytest.fixture
def documents(standin):
    texts = ["é" * 50_000, "", None, "short"]
    rows = [(place, text, text.encode() if text is not None else None) for place, text in enumerate(texts)]
    standin.statements.add("SELECT id, c, b FROM documents", spec="ID N, C CLOB, B BLOB")(lambda call: rows)
    return texts


def test_lobs_are_read_by_their_locators(cursor, documents):
    for _ in range(2):  # the second execution is of a cursor that is known
        rows = cursor.execute("SELECT id, c, b FROM documents").fetchall()
        assert [row[1] and row[1].read() for row in rows] == documents
        assert [row[2] if row[2] is None else row[2].read() for row in rows] == [
            text if text is None else text.encode() for text in documents
        ]
    clob, blob = rows[0][1:]
    assert (clob.size(), blob.size()) == (50_000, 100_000)
    assert (clob.read(49_999, 5), blob.read(3, 2)) == ("éé", "é".encode())
    assert clob.getchunksize() == 8132
    clob.open()
    clob.close()
    assert not clob.isopen()


def test_lobs_are_fetched_as_values_where_the_client_asks_for_them(connection, documents):
    with connection.cursor() as cursor:
        rows = cursor.execute("SELECT id, c, b FROM documents", fetch_lobs=False).fetchall()

    assert [row[1] for row in rows] == [text or None for text in documents]
    assert [row[2] for row in rows] == [text.encode() if text else None for text in documents]
