"""Looking at the files of twins: those of real servers, and made-up ones for what servers of today do no more."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.engines._mysql_protocol import ondisk
from exporter.engines._mysql_protocol.ondisk import Look, look, on_this_host, table_file
from exporter.engines._mysql_protocol.twins import KNOWN_TEXT, Twins
from tests.engines.mysql_protocol.twins_at_hand import SCHEMA, file_of, flushed, make, session, twins_on
from tests.servers.server import Server

PAGE = 16_384
INDEX = 17_855


@pytest.fixture
def on_disk(database: Server) -> Iterator[tuple[Server, Twins]]:
    """Twins that the server has written out."""
    connection, twins = session(database), twins_on(database, rows=6_000)
    make(connection, twins)
    flushed(database, "main_encrypted", "main_plain")
    yield database, twins
    connection.close()


def _seen(server: Server, twins: Twins, table: str) -> Look | None:
    row = server.query(twins.ddl.space_sql, f"{SCHEMA}/{table}")[0]
    space, size = (int(value) for value in row.values())
    return look(file_of(server, table), twins.ddl.page_format, PAGE, space, size)


def test_real_files_show_what_they_are(on_disk: tuple[Server, Twins]) -> None:
    server, twins = on_disk
    encrypted, plain = _seen(server, twins, "main_encrypted"), _seen(server, twins, "main_plain")
    assert encrypted is not None
    assert plain is not None
    assert encrypted.encrypted is True
    assert plain.encrypted is False
    assert encrypted.known_text == 0
    assert plain.known_text > 3
    assert plain.encrypted_pages == 0
    assert encrypted.contradiction(True) == encrypted.contradiction(None) == plain.contradiction(False) == ""
    assert "readable" in plain.contradiction(True)
    assert "encrypted" in encrypted.contradiction(False)


def test_a_file_that_the_server_does_not_mean_is_not_looked_at(on_disk: tuple[Server, Twins]) -> None:
    server, twins = on_disk
    path = file_of(server, "main_plain")
    row = server.query(twins.ddl.space_sql, f"{SCHEMA}/main_plain")[0]
    space, size = (int(value) for value in row.values())
    assert look(path, twins.ddl.page_format, PAGE, space, size) is not None
    assert look(path, twins.ddl.page_format, PAGE, space + 1, size) is None
    assert look(path, twins.ddl.page_format, PAGE, space, size + PAGE) is None
    assert look(path.with_name("main_gone.ibd"), twins.ddl.page_format, PAGE, space, size) is None
    assert look(path.parent, twins.ddl.page_format, PAGE, space, size) is None


def test_the_older_format_of_mariadb(make_mariadb: Callable[..., Server]) -> None:
    server = make_mariadb("10.11", options={"innodb-checksum-algorithm": "crc32"})
    connection, twins = session(server), twins_on(server)
    make(connection, twins)
    connection.close()
    flushed(server, "main_encrypted", "main_plain")
    header = file_of(server, "main_plain").read_bytes()[:PAGE]
    assert not struct.unpack_from(">I", header, 54)[0] & 0x10  # it is the older one
    encrypted, plain = _seen(server, twins, "main_encrypted"), _seen(server, twins, "main_plain")
    assert encrypted is not None
    assert plain is not None
    assert (encrypted.encrypted, plain.encrypted) == (True, False)


def _file(path: Path, pages: list[bytes]) -> Path:
    header = bytearray(PAGE)
    struct.pack_into(">I", header, 34, 9)
    path.write_bytes(bytes(header) + b"".join(pages))
    return path


def _page(kind: int, text: bool = False) -> bytes:
    page = bytearray(os.urandom(PAGE))
    struct.pack_into(">H", page, 24, kind)
    if text:
        page[5_000 : 5_000 + len(KNOWN_TEXT)] = KNOWN_TEXT.encode()
    return bytes(page)


@pytest.mark.parametrize(
    ("pages", "encrypted"),
    [
        ([], None),
        ([bytes(PAGE)] * 3, None),
        ([_page(15)] * 3, True),
        ([_page(INDEX, text=True)] * 3, False),
        ([_page(15), _page(INDEX, text=True)], None),  # half-way
        ([_page(INDEX)] * 3, None),  # plain by its headers, but not what we wrote
        ([_page(15, text=True)], None),  # encrypted by its headers, but readable
    ],
)
def test_what_pages_mean(tmp_path: Path, pages: list[bytes], encrypted: bool | None) -> None:
    path = _file(tmp_path / "x.ibd", pages)
    seen = look(path, "mysql", PAGE, 9, PAGE * (1 + len(pages)))
    assert seen is not None
    assert seen.encrypted is encrypted


def test_few_pages_of_a_large_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pages = tmp_path / "large.ibd", 10_000
    header = bytearray(PAGE)
    struct.pack_into(">I", header, 34, 9)
    path.write_bytes(header)
    os.truncate(path, pages * PAGE)  # the rest is a hole
    reads: list[int] = []
    read = os.pread

    def counted(handle: int, size: int, offset: int) -> bytes:
        reads.append(offset)
        return read(handle, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    assert look(path, "mysql", PAGE, 9, pages * PAGE) == Look()
    assert len(reads) <= ondisk.PAGES + 1
    assert max(reads) > 0.9 * pages * PAGE


def test_a_truncated_file_and_a_link(tmp_path: Path) -> None:
    short = tmp_path / "short.ibd"
    short.write_bytes(b"12345")
    assert look(short, "mysql", PAGE, 9, 5) is None
    link = tmp_path / "link.ibd"
    link.symlink_to(_file(tmp_path / "real.ibd", [_page(15)]))
    assert look(link, "mysql", PAGE, 9, 2 * PAGE) is None


def test_another_host_is_told_apart() -> None:
    assert on_this_host(socket.gethostname())
    assert not on_this_host(socket.gethostname() + "x")
    assert not on_this_host("")


def test_where_a_table_lies() -> None:
    assert table_file("/var/lib/mysql/", "tde_canary", "main_plain") == Path("/var/lib/mysql/tde_canary/main_plain.ibd")
