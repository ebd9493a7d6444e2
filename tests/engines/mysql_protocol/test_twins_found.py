"""What is found of a table that others make meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporter.domain.model import Slot
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.tables import find_table
from exporter.engines._mysql_protocol.time_left import TimeLeft
from tests.engines.mysql_protocol.connectors import PATIENCE
from tests.engines.mysql_protocol.twins_at_hand import SCHEMA, make, session, twins_on
from tests.servers.server import Server


class Watched:
    """A session between whose first and second statement something happens."""

    def __init__(self, connection: Connection, happens: Callable[[], object]) -> None:
        self._connection, self._happens, self.asked = connection, happens, 0

    def row(self, *statement: Any, **options: Any) -> tuple[Any, ...] | None:
        self.asked += 1
        if self.asked == 2:
            self._happens()
        return self._connection.row(*statement, **options)


def test_a_table_that_somebody_makes_between_two_looks_is_found_whole(database: Server, control: Connection) -> None:
    twins = twins_on(database)
    other = session(database)
    watched: Any = Watched(control, lambda: make(other, twins))
    found = find_table(watched, SCHEMA, twins.name(Slot.A), TimeLeft(PATIENCE, "looking"))
    other.close()
    assert found is not None
    assert found.readable
    assert found.marker is not None
    assert found.marker.complete
