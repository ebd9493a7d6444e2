"""Pages that a MariaDB server has decrypted and encrypted: it counts them itself."""

from __future__ import annotations

from exporter.engines._mysql_protocol.activity import Decrypts
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.deadlines import Deadline


class CountedDecrypts:
    """Satisfies `_mysql_protocol.activity.DecryptsReader`."""

    def read(self, control: Connection, status: dict[str, int], page_bytes: int, deadline: Deadline) -> Decrypts:
        decrypts, encrypts = status.get("Innodb_num_pages_decrypted"), status.get("Innodb_num_pages_encrypted")
        if decrypts is None:
            return Decrypts(problem="this server does not count the pages that it decrypts")
        return Decrypts(decrypts, encrypts, "counter")
