"""Configuration of an Oracle target. Loads no driver, for it is read wherever a configuration is checked."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from exporter.config.schema import Location, PairSettings, Size, StandbySettings, Strict, TargetSettings
from exporter.config.secrets import SecretSource
from exporter.config.shape import NEEDED
from exporter.domain.model import Operation

ROW_BYTES = 270
"""Bytes that a row of a twin takes on disk, its share of the primary key included."""
LOB_BYTES = 2**20
"""Bytes of the large object in each of the first rows: 128 blocks of 8 KiB."""
LOB_ROWS = 16
DEFAULT_BYTES = 256 * 2**20
LONGEST_PAIR_NAME = 18
"""Characters: with what is added to it, a name of a table or constraint must have 30 at most before release 12.2."""

Host = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.:-]+$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Service = Annotated[str, Field(min_length=1, max_length=250, pattern=r"^[A-Za-z0-9_$#.-]+$")]
User = Annotated[str, Field(min_length=1, max_length=128)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_$#]{0,29}$")]
Descriptor = Annotated[str, Field(min_length=1, max_length=4000)]
Privilege = Literal["normal", "sysdba", "sysdg", "syskm"]


class TlsSettings(Strict):
    """How the connection to the database is encrypted (TCPS). Oracle's wallets in other forms than PEM (cwallet.sso, ewallet.p12) are read by its client libraries only; `orapki` converts them."""

    wallet: Location | None = Field(None, examples=["/etc/tde-exporter/wallet"])
    """Folder that holds `ewallet.pem`: the authorities to trust, and our own certificate and key where the database asks for one."""
    wallet_password: SecretSource | None = None
    """Password of the key in the wallet. Default: none."""
    ca: Location | None = Field(None, examples=["/etc/tde-exporter/ca.pem"])
    """Certificates of the authorities to trust, in PEM, in place of a wallet. Default: those of the system."""
    verify_name: bool = True
    """Whether the certificate must name the host, or be `server_dn`. Without it whoever has any certificate of a trusted authority can read everything."""
    server_dn: str | None = Field(None, min_length=1, max_length=1000, examples=["CN=db1.example.org,O=Example"])
    """Distinguished name that the certificate must have, in place of the name of the host."""

    @model_validator(mode="after")
    def _one_source_of_trust(self) -> Self:
        if self.wallet is not None and self.ca is not None:
            raise ValueError("'wallet' and 'ca' both say whom to trust; remove one of them")
        if self.wallet_password is not None and self.wallet is None:
            raise ValueError("there is a password for a wallet, but no wallet; add 'wallet', or remove the password")
        if self.server_dn is not None and not self.verify_name:
            raise ValueError("'verify_name: false' does not look at the name, so 'server_dn' would check nothing")
        return self


class ServerSettings(Strict):
    """Where a database is and how to log in."""

    host: Host = "127.0.0.1"
    """Host name or address of the listener."""
    port: Port = 1521
    """TCP port of the listener."""
    service: Service | None = Field(None, examples=["pdb1.example.org"], json_schema_extra=NEEDED)
    """Service to connect to: that of the pluggable database that holds the twins, or of a database that is none."""
    dsn: Descriptor | None = Field(
        None,
        examples=["(DESCRIPTION=(ADDRESS=(PROTOCOL=tcps)(HOST=scan)(PORT=2484))(CONNECT_DATA=(SERVICE_NAME=pdb1)))"],
    )
    """Whole connect descriptor, in place of host, port and service. Secrets do not belong there."""
    user: User = "tde_exporter"
    """Account that the exporter logs in with. In the root of a container database its name begins with C##."""
    password: SecretSource | None = None
    """Password of the account."""
    privilege: Privilege = "normal"
    """Administrative privilege to log in with. A database that is only mounted admits nobody without one; `sysdg` is meant for it."""
    tls: TlsSettings | None = None
    """TCPS, with these settings. Default: no encryption of the connection, unless `dsn` says otherwise."""

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if self.dsn is not None and {"host", "port", "service"} & self.model_fields_set:
            raise ValueError("'dsn' says where the database is; remove 'host', 'port' and 'service', or 'dsn'")
        if self.dsn is None and self.service is None:
            raise ValueError("it is not said which database to connect to; add 'service', or 'dsn'")
        if self.dsn is not None and re.search(r"^[^()]*/[^()]*@|password\s*=", self.dsn, re.IGNORECASE):
            raise ValueError("'dsn' looks as if it held a password; write it as 'password', from a file or a variable")
        return self

    @property
    def address(self) -> str:
        """The database in words."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.service}" if self.dsn is None else "the database of the dsn"


class TwinPair(PairSettings):
    """Two tables with the same rows, one encrypted and one plain. Give `rows`, or `bytes`, or neither."""

    encryption: Literal["tablespace", "column"] = "tablespace"
    """What is encrypted: the whole tablespace of one twin, or a column of it. Tablespace encryption costs when a block is read from disk, column encryption whenever a value is read."""
    encrypted_tablespace: Identifier = "TDE_CANARY_ENCRYPTED"
    """Tablespace of the encrypted twin of a pair for tablespace encryption. A DBA makes it; this exporter makes none."""
    plain_tablespace: Identifier = "TDE_CANARY_PLAIN"
    """Tablespace of the plain twin, and of both twins of a pair for column encryption."""
    algorithm: Literal["AES128", "AES192", "AES256", "3DES168"] = "AES256"
    """Algorithm of an encrypted column. That of a tablespace is as its DBA chose."""
    rows: int | None = Field(None, ge=1_000, le=3_500_000_000, examples=[1_000_000])
    """Rows of each twin."""
    bytes: Size | None = Field(None, ge=2**20, le=2**40, examples=[DEFAULT_BYTES])
    """About how large each twin is on disk, its large objects not counted (16 MiB). Default: 256 MiB."""

    @field_validator("name")
    @classmethod
    def _fit_for_a_table(cls, name: str) -> str:
        if not re.fullmatch(rf"[a-z][a-z0-9_]{{0,{LONGEST_PAIR_NAME - 1}}}", name):
            raise ValueError(
                f"the name of this pair becomes part of the names of its tables; begin with a letter, and use only lower-case letters, digits and _ (at most {LONGEST_PAIR_NAME} characters)"
            )
        return name

    @field_validator("encrypted_tablespace", "plain_tablespace")
    @classmethod
    def _as_the_dictionary_has_it(cls, name: str) -> str:
        return name.upper()

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.rows is not None and self.bytes is not None:
            raise ValueError("'rows' and 'bytes' both say how large the twins are; remove one of them")
        return self

    @property
    def row_count(self) -> int:
        """Rows of each twin, however its size was given."""
        return self.rows if self.rows is not None else (self.bytes or DEFAULT_BYTES) // ROW_BYTES


class Standby(StandbySettings):
    """A standby database of the target."""

    host: Host = Field("127.0.0.1", examples=["standby.example.org"])
    """Host name or address of its listener."""
    port: Port = 1521
    """TCP port of its listener."""
    service: Service | None = Field(None, examples=["orcl_stby"])
    """Service of its root, or a static one for a standby that is only mounted. Default: the target's."""
    dsn: Descriptor | None = Field(None, examples=["standby.example.org:1521/orcl_stby"])
    """Whole connect descriptor, in place of host, port and service."""
    user: User | None = Field(None, examples=["c##tde_exporter"])
    """Account on the standby. Default: the target's."""
    password: SecretSource | None = None
    """Password of the account. Default: the target's."""
    privilege: Privilege = "normal"
    """Administrative privilege to log in with; a standby that is only mounted needs `sysdg`."""
    tls: TlsSettings | None = None
    """TCPS, with these settings. Default: as for the target."""

    def server(self, primary: ServerSettings) -> ServerSettings:
        """Where the standby is and how to log in, what it leaves open taken from its primary.

        Raises ValueError where that is no address.
        """
        place = (
            {"dsn": self.dsn}
            if self.dsn is not None
            else {"host": self.host, "port": self.port, "service": self.service or primary.service}
        )
        return ServerSettings.model_validate(
            {
                **place,
                "user": self.user or primary.user,
                "password": self.password or primary.password,
                "privilege": self.privilege,
                "tls": self.tls or primary.tls,
            }
        )


class Target(ServerSettings, TargetSettings):
    """An Oracle database: one that is no container database, or one pluggable database of it."""

    default_operations: ClassVar[tuple[Operation, ...]] = (
        Operation.POINT_SELECT,
        Operation.RANGE_SELECT,
        Operation.FULL_SCAN,
        Operation.LOB_READ,
    )

    engine: Literal["oracle"] = "oracle"
    """Oracle Database 12.2 and later."""
    pairs: tuple[TwinPair, ...] = ()
    """The twin tables to compare."""
    schema_name: Identifier = Field("TDE_CANARY", alias="schema")
    """Schema (user) that owns the exporter's own tables, the only place where it writes. A DBA makes it; nobody logs in to it."""
    standbys: tuple[Standby, ...] = ()
    """The standby databases whose lag is measured."""
    reader: User | None = Field(None, examples=["TDE_EXPORTER"])
    """Account that measures the twins, when the command line names another one to make them: `provision` lets it read them. Default then: `user`. Twins are made in no other way."""
    driver: Literal["thin", "thick"] = "thin"
    """`thin` needs no client libraries. `thick` loads Oracle's, which speak native network encryption; such targets have a probe process of their own, for nothing of it bounds a connect that hangs."""
    client_directory: Location | None = Field(None, examples=["/opt/oracle/instantclient"])
    """Folder of Oracle's client libraries, for `driver: thick`. Default: where the system finds them."""
    clock: Literal["client", "server"] = "client"
    """Whose time of a query decides: ours, or the DB time that its session was charged with, which leaves out the network and has not been compared with real databases so far."""
    serial_direct_read: bool = False
    """Whether the sessions of canary queries set `_serial_direct_read`, so that every full scan reads, and decrypts, all its blocks. It is a hidden parameter: ask Oracle's support first."""
    smart_scan: bool = False
    """Whether full scans may be left to the storage cells of an Exadata, which then decrypt where the database cannot count it."""

    @field_validator("schema_name")
    @classmethod
    def _one_of_our_own(cls, name: str) -> str:
        if name.upper() in ("SYS", "SYSTEM", "PUBLIC"):
            raise ValueError("this schema belongs to the database; choose one for the exporter alone")
        return name.upper()

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.client_directory is not None and self.driver != "thick":
            raise ValueError("'client_directory' is for 'driver: thick'; add that, or remove it")
        for standby in self.standbys:
            if standby.server(self).address == self.address and standby.dsn is None:
                raise ValueError(
                    f"the standby '{standby.name}' is at {self.address}, as the target itself; give it the host of the standby"
                )
        return self

    @property
    def company(self) -> str:
        # The client libraries serve a process or they do not, and a call that hangs in them cannot be cut.
        return "oracle thick" if self.driver == "thick" else ""
