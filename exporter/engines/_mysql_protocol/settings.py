"""Configuration that the engines of the MySQL family share."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from exporter.config.schema import Location, PairSettings, Size, StandbySettings, Strict, TargetSettings
from exporter.config.secrets import SecretSource
from exporter.domain.model import Operation

ROW_BYTES = 304
"""Bytes that a row of a twin takes on disk, its share of the indexes and of half-empty pages included."""
DEFAULT_BYTES = 256 * 2**20
SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
LONGEST_PAIR_NAME = 40
"""Characters; table names of the servers have at most 64, and some of them are added to the name of the pair."""

Host = Annotated[str, Field(min_length=1, max_length=255)]
Port = Annotated[int, Field(ge=1, le=65535)]
User = Annotated[str, Field(min_length=1, max_length=128)]
TlsMode = Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"]


class TlsSettings(Strict):
    """How the connection to the server is encrypted. At least TLS 1.2; the modes are those of MySQL's own clients."""

    mode: TlsMode = Field("preferred", examples=["verify_ca"])
    """`disabled`: never. `preferred`: where the server offers it. `required`: or not at all. Up to here nobody looks at the server's certificate, so whoever sits between can read everything, the password included. `verify_ca` checks who issued the certificate, `verify_identity` also that it names the host. Over a socket there is TLS only with `required` and `verify_ca`."""
    ca: Location | None = Field(None, examples=["/etc/tde-exporter/ca.pem"])
    """Certificates of the authorities to trust, in PEM. Default: those of the system."""
    certificate: Location | None = Field(None, examples=["/etc/tde-exporter/client.pem"])
    """Our own certificate, in PEM, for accounts that ask for one."""
    key: Location | None = Field(None, examples=["/etc/tde-exporter/client.key"])
    """Private key of our own certificate, in PEM, without a passphrase."""

    @model_validator(mode="after")
    def _parts_belong_together(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise ValueError(f"a certificate and its key belong together; add '{missing}', or remove the other one")
        if self.mode == "disabled" and (self.ca or self.certificate):
            raise ValueError("TLS is disabled, so no certificate is used; choose another mode, or remove them")
        if self.ca and not self.verifies:
            raise ValueError(
                f"the mode '{self.mode}' does not look at the server's certificate, so 'ca' would check nothing; use 'verify_ca' or 'verify_identity', or remove 'ca'"
            )
        return self

    @property
    def verifies(self) -> bool:
        """Whether a server that cannot prove itself is refused."""
        return self.mode in ("verify_ca", "verify_identity")


class ServerSettings(Strict):
    """Where a server is and how to log in."""

    host: Host = "127.0.0.1"
    """Host name or address of the server."""
    port: Port = 3306
    """TCP port of the server."""
    socket: Location | None = Field(None, examples=["/run/mysqld/mysqld.sock"])
    """Unix socket of the server, used in place of host and port."""
    user: User = "tde_exporter"
    """Account that the exporter logs in with."""
    password: SecretSource | None = None
    """Password of the account. Default: none is sent, which is right for accounts that the socket authenticates."""
    tls: TlsSettings = TlsSettings()
    """How the connection is encrypted."""

    @model_validator(mode="after")
    def _a_socket_has_no_host_name(self) -> Self:
        if self.socket and self.tls.mode == "verify_identity":
            raise ValueError("a socket has no host name that a certificate could prove; use 'verify_ca' or 'preferred'")
        return self

    @property
    def address(self) -> str:
        """The server in words, as the operator wrote it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return str(self.socket) if self.socket else f"{host}:{self.port}"


class TwinPair(PairSettings):
    """Two tables with the same rows, one encrypted and one plain. Give `rows`, or `bytes`, or neither."""

    rows: int | None = Field(None, ge=1_000, le=3_500_000_000, examples=[1_000_000])
    """Rows of each twin."""
    bytes: Size | None = Field(None, ge=2**20, le=2**40, examples=[DEFAULT_BYTES])
    """About how large each twin is on disk. A twin that fits into the server's buffer pool stays there, and then nothing is decrypted: larger than the pool is best. Default: 256 MiB."""

    @field_validator("name")
    @classmethod
    def _fit_for_a_table(cls, name: str) -> str:
        # No mapping of `-` and `.`: the DBA shall find the pair's name in the names of tables and of their files.
        if not re.fullmatch(rf"[a-z0-9_]{{1,{LONGEST_PAIR_NAME}}}", name):
            raise ValueError(
                f"the name of this pair becomes part of the names of its tables; use only lower-case letters, digits and _ (at most {LONGEST_PAIR_NAME} characters)"
            )
        return name

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
    """A replica of the target."""

    host: Host = Field("127.0.0.1", examples=["replica.example.org"])
    """Host name or address of the replica."""
    port: Port = 3306
    """TCP port of the replica."""
    socket: Location | None = Field(None, examples=["/run/mysqld/replica.sock"])
    """Unix socket of the replica, used in place of host and port."""
    user: User | None = Field(None, examples=["tde_exporter"])
    """Account on the replica. Default: the target's."""
    password: SecretSource | None = None
    """Password of the account. Default: the target's."""
    tls: TlsSettings | None = None
    """How the connection is encrypted. Default: as for the target."""

    def server(self, primary: ServerSettings) -> ServerSettings:
        """Where the replica is and how to log in, what it leaves open taken from its primary."""
        return ServerSettings(
            host=self.host,
            port=self.port,
            socket=self.socket,
            user=self.user or primary.user,
            password=self.password or primary.password,
            tls=self.tls or primary.tls,
        )


class MySqlProtocolTarget(ServerSettings, TargetSettings):
    """A server of the MySQL family."""

    default_operations: ClassVar[tuple[Operation, ...]] = (
        Operation.POINT_SELECT,
        Operation.RANGE_SELECT,
        Operation.FULL_SCAN,
    )

    schema_name: str = Field("tde_canary", alias="schema")
    """Schema (database) of the exporter's own tables, the only place where it writes."""
    standbys: tuple[Standby, ...] = ()
    """The replicas whose lag is measured."""

    @field_validator("schema_name")
    @classmethod
    def _one_of_our_own(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", name):
            raise ValueError(
                "the name of the schema has other characters than letters, digits and _, or more than 64; choose such a name"
            )
        if name.lower() in SYSTEM_SCHEMAS:
            raise ValueError("this schema belongs to the server; choose one for the exporter alone")
        return name

    @model_validator(mode="after")
    def _standbys_are_other_servers(self) -> Self:
        for standby in self.standbys:
            if standby.socket and (standby.tls or self.tls).mode == "verify_identity":
                raise ValueError(
                    f"the standby '{standby.name}' is at a socket, which has no host name that a certificate could prove; give it a 'tls' of its own"
                )
            if (found := standby.server(self)).address == self.address:
                raise ValueError(
                    f"the standby '{standby.name}' is at {found.address}, as the target itself; give it the host of the replica"
                )
        return self
