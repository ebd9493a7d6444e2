"""Sessions on small twins in a folder of their own, closed at the end of the test."""

import shutil
from contextlib import contextmanager

import pytest

from exporter.domain.model import Operation, Slot
from exporter.engines.sqlite.engine import Engine
from exporter.engines.sqlite.files import Connections, identity
from exporter.engines.sqlite.key import KeyFile
from exporter.engines.sqlite.settings import Pair, Target
from exporter.engines.sqlite.twin import open_twin

ROWS = 3000


class Place:
    """A target in a folder, and the files that belong to it."""

    def __init__(self, folder, rows=ROWS, **settings):
        self.target = Target(name="embedded", pairs=(Pair(name="phonebook", rows=rows),), **settings).resolved(folder)
        self.directory = folder / "targets" / "embedded"
        self.key = self.directory / "key"
        self.encrypted = self.directory / "phonebook.encrypted.db"
        self.plain = self.directory / "phonebook.plain.db"
        self._sessions = []

    @property
    def pair(self):
        return self.target.pairs[0]

    def open(self):
        """A new session on the target as it is configured now."""
        session = Engine(self.target).open(5.0)
        self._sessions.append(session)
        return session

    def built(self):
        """A new session whose twins are there."""
        session = self.open()
        self.provision(session)
        return session

    def provision(self, session):
        session.provision(self.pair, lambda _what, _share: None, 60.0)

    def reconfigure(self, pair=None, **settings):
        pairs = (self.pair.model_copy(update=pair or {}),)
        self.target = self.target.model_copy(update={"pairs": pairs, **settings})

    def path(self, slot):
        return self.encrypted if slot is Slot.A else self.plain

    def log(self, slot):
        return self.path(slot).with_name(self.path(slot).name + "-wal")

    def sizes(self):
        return [self.path(slot).stat().st_size for slot in Slot]

    @contextmanager
    def twin(self, slot):
        """A twin as the operations see it, with its two connections."""
        connections = Connections(KeyFile(self.key), self.target.cipher)
        try:
            found = identity(self.path(slot))
            assert found is not None
            yield open_twin(connections, self.path(slot), found)
        finally:
            connections.close_all()

    def exchange(self):
        aside = self.directory / "aside"
        self.encrypted.rename(aside)
        self.plain.rename(self.encrypted)
        aside.rename(self.plain)

    def identities(self):
        return {path: path.stat().st_ino for path in (self.encrypted, self.plain)}

    def temporary_files(self):
        return [path.name for path in self.directory.iterdir() if path.name.startswith(".")]

    def close(self):
        for session in self._sessions:
            session.close()


def asked(place, path, sql):
    """The answer of a twin to a query, over a connection of its own."""
    connections = Connections(KeyFile(place.key), place.target.cipher)
    connection, _ = connections.open(path)
    try:
        return connection.execute(sql).get
    finally:
        connections.close(connection)


def scratch_rows(place, path):
    """Rows in the scratch table of a twin."""
    return asked(place, path, "SELECT count(*) FROM scratch")


def killed_while_writing(place, folder):
    """The files of a process that was killed after a commit: the encrypted twin has 500 rows in its log only."""
    session = place.built()
    connections = Connections(KeyFile(place.key), place.target.cipher)
    reader, _ = connections.open(place.encrypted)
    reader.execute("BEGIN; SELECT count(*) FROM phonebook")  # keeps the log from being cut
    session.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)
    killed = Place(folder)
    shutil.copytree(place.directory, killed.directory, ignore=shutil.ignore_patterns("*-shm"))
    connections.close_all()
    assert killed.encrypted.with_name(killed.encrypted.name + "-wal").stat().st_size > 0
    return killed


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """Twins of the size of the default; shared, so nothing may change them."""
    place = Place(tmp_path_factory.mktemp("large"), rows=200_000)
    place.built().close()
    yield place
    place.close()
