"""Which server it is: flavour, version, role, and what of encryption hits both twins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.domain.errors import PermissionMissing, QueryFailed, Unsupported
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines._mysql_protocol.replica_status import StatusReader

_VARIABLES = (
    "version",
    "version_comment",
    "innodb_page_size",
    "read_only",
    "super_read_only",
    "innodb_read_only",
    "log_bin",
    "innodb_encrypt_log",
    "innodb_redo_log_encrypt",
    "encrypt_binlog",
    "binlog_encryption",
    "innodb_encrypt_tables",
    "innodb_undo_log_encrypt",
    "performance_schema",
)
_NAMES = {"mariadb": "MariaDB", "mysql": "MySQL", "percona": "Percona Server", "oceanbase": "OceanBase", "tidb": "TiDB"}
_ENGINES = {"mariadb": "mariadb", "mysql": "mysql", "percona": "mysql", "oceanbase": "oceanbase"}
_PAGE_SIZES = frozenset({"4096", "8192", "16384", "32768", "65536"})
_SHARED = (
    ("redo", ("innodb_encrypt_log", "innodb_redo_log_encrypt")),
    ("binlog", ("encrypt_binlog", "binlog_encryption")),
    # MariaDB keeps undo in the system tablespace, which is encrypted along with tables by default.
    ("undo", ("innodb_undo_log_encrypt", "innodb_encrypt_tables")),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Fields as in `TargetFacts`; `shared_costs` names the logs that are encrypted whichever twin is written to,
    `performance_schema` says whether the server has it switched on, which only a restart changes. `needed` is the grant
    without which the role is unknown, empty where it is known or none would help."""

    flavor: str
    version: str
    role: str
    open_mode: str
    edition: str
    page_bytes: int
    shared_costs: str
    performance_schema: bool
    needed: str = ""


def identify(control: Connection, engine: str, deadline: Deadline) -> Identity:
    """Look at a server. Raises `Unsupported` with the right engine in words when `engine` is for another kind of server."""
    names = ", ".join(["%s"] * len(_VARIABLES))
    rows = control.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})", _VARIABLES, timeout=deadline.step())
    values = {str(name).lower(): str(value) for name, value in rows}
    flavor = _flavor(values, control)
    if _ENGINES.get(flavor) != engine:
        raise Unsupported(_other_engine(flavor, values.get("version", ""), engine))
    read_only = any(_on(values, name) for name in ("read_only", "super_read_only", "innodb_read_only"))
    comment = values.get("version_comment", "").lower()
    role, needed = _role(control, values, read_only, deadline)
    return Identity(
        flavor=flavor,
        version=values.get("version", control.server_version),
        role=role,
        open_mode="read_only" if read_only else "read_write",
        edition=next((word for word in ("enterprise", "community") if word in comment), ""),
        page_bytes=_page_bytes(values.get("innodb_page_size", "")),
        shared_costs=",".join(what for what, switches in _SHARED if any(_on(values, name) for name in switches)),
        performance_schema=_on(values, "performance_schema"),
        needed=needed,
    )


def _page_bytes(said: str) -> int:
    return int(said) if said in _PAGE_SIZES else 16384


def _on(values: Mapping[str, str], name: str) -> bool:
    return values.get(name, "OFF").upper() not in ("OFF", "0", "")


def _flavor(values: Mapping[str, str], control: Connection) -> str:
    words = f"{values.get('version', control.server_version)} {values.get('version_comment', '')}".lower()
    for flavor in ("oceanbase", "tidb", "mariadb", "percona"):
        if flavor in words:
            return flavor
    return "mariadb" if control.is_mariadb else "mysql"


def _other_engine(flavor: str, version: str, engine: str) -> str:
    right = _ENGINES.get(flavor)
    remedy = f"write `engine: {right}` for this target" if right else "no engine of this exporter is for it"
    return f"this server is {_NAMES[flavor]} ({version}), and the engine {engine} is not for it; {remedy}"


def _role(control: Connection, values: Mapping[str, str], read_only: bool, deadline: Deadline) -> tuple[str, str]:
    """primary, replica or standalone; empty where it does not show, then with the grant that is missing."""
    try:
        channels = StatusReader().read(lambda sql: control.named(sql, timeout=deadline.step()))
    except PermissionMissing:
        monitor = "SLAVE MONITOR ON *.*" if control.is_mariadb else "REPLICATION CLIENT ON *.*"
        return ("replica", "") if read_only else ("", monitor)
    except QueryFailed:
        return "", ""
    if channels:
        return "replica", ""
    if not _on(values, "log_bin"):
        return "standalone", ""
    try:
        # Without the privilege PROCESS the list holds our own sessions only, and this is refused.
        control.row("SELECT COUNT(*) FROM information_schema.INNODB_METRICS", timeout=deadline.step())
        dumps = control.row(
            "SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%%' LIMIT %s",
            (1,),
            timeout=deadline.step(),
        )
    except PermissionMissing:
        return "", "PROCESS ON *.*"
    except QueryFailed:
        return "", ""
    return "primary" if dumps else "standalone", ""
