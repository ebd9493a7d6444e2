"""The database that the stand-in shows: one object that tests read and change while clients are connected.

Everything that views show is derived from it at each query; `Database.lock` makes a change of several things one.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import threading
from dataclasses import dataclass, field

from tests.oracle_standin.counters import Counters, Work
from tests.oracle_standin.data_guard import DataGuard
from tests.oracle_standin.datatypes import Value
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.keys import Keystore, MasterKey
from tests.oracle_standin.profiles import PROFILES, Profile
from tests.oracle_standin.storage import DependentObject, EncryptedColumn, Table, Tablespace

ROOT, SEED, PDB = 1, 2, 3
"""CON_ID of the root, of the seed, and of the pluggable database that the stand-in begins with."""

SYSTEM_PRIVILEGES = {
    0x20: "SYSDBA",
    0x40: "SYSOPER",
    0x1000000: "SYSBACKUP",
    0x2000000: "SYSDG",
    0x4000000: "SYSKM",
}


@dataclass
class Container:
    """The root, the seed or a pluggable database."""

    con_id: int
    name: str
    open_mode: str = "READ WRITE"
    restricted: bool = False
    guid: bytes = b""


@dataclass
class User:
    """An account.

    Attributes:
        grants: Objects that may be read, as in a GRANT ("V_$DATABASE", "DBA_TABLESPACES", "TDE.CANARY_PLAIN");
            None is all of them.
        system: Administrative privileges, for example {"SYSDG"}; with none, no login AS anything.
        container_data_all: Whether a common user sees the rows of all containers in the root.
        locked, expired: A login then fails with 28000 or 28001.
        grace: A login then succeeds with the warning 28002.
        failed_logins: Attempts with a wrong password since the last right one.
        attempts: How many of them lock the account.
    """

    password: str
    grants: set[str] | None = None
    system: set[str] = field(default_factory=set)
    container_data_all: bool = True
    locked: bool = False
    expired: bool = False
    grace: bool = False
    failed_logins: int = 0
    attempts: int = 10


@dataclass
class Seat:
    """What the database knows about one of its sessions; V$SESSION shows it."""

    sid: int
    serial: int
    user: str
    account: User
    con_id: int
    privilege: str = ""
    program: str = ""
    machine: str = ""
    osuser: str = ""
    module: str = ""
    action: str = ""
    client_identifier: str = ""
    client_info: str = ""
    service: str = ""
    in_call: bool = False
    in_transaction: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)


Row = dict[str, Value]


class Database:
    """The state of one instance of one database.

    A new one is a primary that is open: a container database with the root and PDB1, an open keystore of its own with
    a master key for both, an encrypted and a plain tablespace, the users MON and SYS (password "secret") with all
    grants, and twins TDE.CANARY_ENCRYPTED and TDE.CANARY_PLAIN. `services` says which container each service of the
    listener leads to.
    """

    def __init__(self, version: str = "19", *, seed: int = 1) -> None:
        self.lock = threading.RLock()
        self.profile: Profile = PROFILES[version]
        self.random = random.Random(seed)
        self.name, self.unique_name, self.dbid = "ORCL", "ORCL_A", 1575462417
        self.instance, self.host, self.instance_number = "orcl1", "db1.example", 1
        self.role, self.open_mode = "PRIMARY", "READ WRITE"
        self.protection_mode = "MAXIMUM PERFORMANCE"
        self.cdb = True
        self.clock_skew = datetime.timedelta(0)
        self.started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)
        self.parameters = {
            "db_block_size": "8192",
            "cpu_count": "4",
            "tde_configuration": "KEYSTORE_CONFIGURATION=FILE",
        }
        self.users = {
            "MON": User("secret"),
            "SYS": User("secret", system=set(SYSTEM_PRIVILEGES.values())),
        }
        self.containers = [
            Container(ROOT, "CDB$ROOT"),
            Container(SEED, "PDB$SEED", "READ ONLY"),
            Container(PDB, "PDB1"),
        ]
        self.services = {"orcl": ROOT, "pdb1": PDB}
        self.keystores = [Keystore(ROOT), Keystore(SEED, status="OPEN_NO_MASTER_KEY"), Keystore(PDB, mode="UNITED")]
        self.keys = [MasterKey(ROOT, number=1), MasterKey(PDB, number=2)]
        self.tablespaces = [
            Tablespace("SYSTEM", 0, PDB, size=65536),
            Tablespace("CANARY_ENCRYPTED", 6, PDB, algorithm=self.profile.algorithm, master_key=self.keys[1].key_id),
            Tablespace("CANARY_PLAIN", 7, PDB),
        ]
        self.tables = [
            Table("TDE", "CANARY_ENCRYPTED", "CANARY_ENCRYPTED"),
            Table("TDE", "CANARY_PLAIN", "CANARY_PLAIN"),
        ]
        self.encrypted_columns: list[EncryptedColumn] = []
        self.dependents: list[DependentObject] = []
        self.data_guard = DataGuard()
        self.host_busy_seconds, self.host_idle_seconds, self.host_cpus = 1000.0, 9000.0, 4
        self.system = Counters()
        self.by_container: dict[int, Counters] = {}
        self.seats: dict[int, Seat] = {}
        self.statements: dict[str, list[float]] = {}
        """For each text that was executed: executions, CPU and elapsed seconds."""
        self.overrides: dict[str, list[Row]] = {}
        """Rows that a view shows instead of its own, by its name."""
        self.refusals: dict[str, int] = {}
        """Errors that reading a view ends in, by its name."""
        self.missing_statistics: set[str] = set()
        """Names of statistics that this database does not have."""

    # -- what it is -----------------------------------------------------------------------------

    @property
    def mounted(self) -> bool:
        return self.open_mode == "MOUNTED"

    def now(self) -> datetime.datetime:
        """The time of its host, with its zone."""
        return datetime.datetime.now().astimezone() + self.clock_skew

    def container(self, con_id: int) -> Container:
        return next(each for each in self.containers if each.con_id == con_id)

    def tablespace(self, name: str, con_id: int) -> Tablespace:
        """Raises ORA-00959 for one that there is not."""
        for each in self.tablespaces:
            if (each.name, each.con_id) == (name.upper(), con_id):
                return each
        raise OraError(959, f"tablespace '{name.upper()}'")

    def table(self, owner: str, name: str, con_id: int) -> Table | None:
        wanted = (owner.upper(), name.upper(), con_id)
        return next((each for each in self.tables if (each.owner, each.name, each.con_id) == wanted), None)

    def keystore_of(self, con_id: int) -> Keystore | None:
        """The keystore that decrypts for a container: the one that is open, when it has several."""
        own = [each for each in self.keystores if each.con_id == con_id]
        return next((each for each in own if each.is_open), own[0] if own else None)

    # -- what happens to it ---------------------------------------------------------------------

    def become(self, role: str, open_mode: str) -> None:
        """Change role and open mode, as a switchover does; it also ends all sessions, which the server's
        `end_sessions` does."""
        with self.lock:
            self.role, self.open_mode = role, open_mode

    def restart(self) -> None:
        """All counters begin anew, as those of an instance that was started."""
        with self.lock:
            self.system.reset()
            self.by_container.clear()
            self.statements.clear()
            self.started = datetime.datetime.now(datetime.UTC)
            for tablespace in self.tablespaces:
                tablespace.blocks_decrypted = tablespace.blocks_encrypted = 0

    def count(self, seat: Seat, sql: str, work: Work, tablespace: Tablespace | None = None) -> None:
        """Let everything grow that one statement makes grow."""
        with self.lock:
            # Writing processes encrypt, so a session's own counter does not move by it.
            seat.counters.add(dataclasses.replace(work, encrypted=0))
            self.system.add(work)
            self.by_container.setdefault(seat.con_id, Counters()).add(work)
            if tablespace is not None:
                tablespace.blocks_decrypted += work.decrypted
                tablespace.blocks_encrypted += work.encrypted
            totals = self.statements.setdefault(sql, [0, 0.0, 0.0])
            totals[0] += 1
            totals[1] += work.cpu
            totals[2] += work.elapsed
