"""Pages that a MySQL server has decrypted and encrypted: what it read of encrypted files, and wrote to them.

It does not count them itself. The sums go on when files vanish (a table dropped or rebuilt) and when the server is
restarted; they begin with what the files say at the first reading.
"""

from __future__ import annotations

import time

from exporter.domain.errors import PermissionMissing, QueryFailed
from exporter.engines._mysql_protocol.activity import Decrypts
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.counters import FILES
from exporter.engines._mysql_protocol.deadlines import Deadline

FRESH_SECONDS = 60.0
"""How old the list of encrypted files may be."""
_ENCRYPTED = (
    "SELECT f.FILE_NAME FROM information_schema.INNODB_TABLESPACES t JOIN information_schema.FILES f"
    " ON f.FILE_ID = t.SPACE WHERE t.ENCRYPTION = 'Y'"
)
_IO = (
    f"SELECT FILE_NAME, SUM_NUMBER_OF_BYTES_READ, SUM_NUMBER_OF_BYTES_WRITE FROM {FILES}"
    " WHERE EVENT_NAME = 'wait/io/file/innodb/innodb_data_file'"
)
_SYSTEM = "/mysql.ibd"
"""A file that is in every data directory: by it we know that directory as the server's other view calls it."""
_NEEDS = f"GRANT PROCESS ON *.* and GRANT SELECT ON {FILES} make them known"


class FileProxy:
    """Satisfies `_mysql_protocol.activity.DecryptsReader`."""

    def __init__(self) -> None:
        self._encrypted: frozenset[tuple[str, bool]] = frozenset()
        self._listed = float("-inf")
        self._seen: dict[str, tuple[int, int]] = {}
        self._total = [0, 0]

    def read(self, control: Connection, status: dict[str, int], page_bytes: int, deadline: Deadline) -> Decrypts:
        try:
            self._list_files(control, deadline)
            rows = control.rows(_IO, timeout=deadline.step())
        except (PermissionMissing, QueryFailed) as error:
            return Decrypts(problem=f"decrypted pages of the server are unknown ({error}); {_NEEDS}")
        if not rows:
            return Decrypts(problem="decrypted pages of the server are unknown; performance_schema=ON makes them known")
        now = {name: (int(read), int(written)) for name, read, written in rows}
        self._add(now)
        return Decrypts(self._total[0] // page_bytes, self._total[1] // page_bytes, "proxy")

    def _list_files(self, control: Connection, deadline: Deadline) -> None:
        if time.monotonic() - self._listed < FRESH_SECONDS:
            return
        rows = control.rows(_ENCRYPTED, timeout=deadline.step())
        # `./schema/table.ibd` is relative to the data directory; others are told as they are.
        names = [str(row[0]) for row in rows]
        self._encrypted = frozenset((name.removeprefix("."), name.startswith("./")) for name in names)
        self._listed = time.monotonic()

    def _add(self, now: dict[str, tuple[int, int]]) -> None:
        homes = [name.removesuffix(_SYSTEM) for name in now if name.endswith(_SYSTEM)]
        home = min(homes, key=len, default="")
        encrypted = {home + name if relative else name for name, relative in self._encrypted}
        for name, values in now.items():
            if name not in encrypted:
                continue
            before = self._seen.get(name, (0, 0))
            for place, (new, old) in enumerate(zip(values, before, strict=True)):
                # Less than before: another file of that name, or the server was restarted.
                self._total[place] += new - old if new >= old else new
        self._seen = now
