"""Configuration of the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from exporter.config.schema import Location, PairSettings, StandbySettings, TargetSettings
from exporter.domain.model import Operation, Slot


def twin_name(pair: str, slot: Slot) -> str:
    """The file of the twin in a slot. It says what was built there, not what is there now."""
    return f"{pair}.{'encrypted' if slot is Slot.A else 'plain'}.db"


def standby_name(standby: str) -> str:
    """The file of a standby."""
    return f"standby.{standby}.db"


class Pair(PairSettings):
    """Two SQLite files with the same phonebook table, one encrypted and one plain."""

    rows: int = Field(200_000, ge=1_000, le=50_000_000)
    """Rows of the phonebook table in each twin."""


class Target(TargetSettings):
    """An embedded SQLite database with page encryption; needs no server."""

    default_operations: ClassVar[tuple[Operation, ...]] = (
        Operation.POINT_SELECT,
        Operation.FULL_SCAN,
        Operation.FULL_SCAN_COLD,
        Operation.INSERT_BATCH,
    )

    engine: Literal["sqlite"] = "sqlite"
    """An embedded SQLite with page encryption."""
    pairs: tuple[Pair, ...] = (Pair(name="phonebook"),)
    """The twins to build and compare."""
    standbys: tuple[StandbySettings, ...] = (StandbySettings(name="local"),)
    """The standbys to run and to measure. Each is a small process of its own, which applies the heartbeats to its own encrypted file; an empty list runs none."""
    directory: Location | None = Field(None, examples=["/var/lib/tde-exporter/targets/embedded"])
    """Where the twin files live. Default: a folder named after the target in the state directory."""
    cipher: Literal["aes256cbc", "aes128cbc", "chacha20", "sqlcipher", "ascon128", "aegis"] = "aes256cbc"
    """Page cipher of the encrypted twin. `sqlcipher` authenticates every page and costs more, `chacha20` suits processors without AES instructions."""
    key_file: Location | None = Field(None, examples=["/var/lib/tde-exporter/targets/embedded/key"])
    """File of the 32-byte raw key, in 64 hexadecimal digits; made with mode 0600 if it does not exist and nothing is encrypted yet. Default: `key` beside the twin files."""

    @model_validator(mode="after")
    def _files_are_distinct(self) -> Self:
        twins = {twin_name(pair.name, slot) for pair in self.pairs for slot in Slot}
        for standby in self.standbys:
            if standby_name(standby.name) in twins:
                raise ValueError(
                    f"the standby '{standby.name}' and a twin would be the same file; give one of them another name"
                )
        return self

    def resolved(self, state_directory: Path) -> Self:
        directory = self.directory or state_directory / "targets" / self.name
        return self.model_copy(update={"directory": directory, "key_file": self.key_file or directory / "key"})

    @property
    def claims(self) -> tuple[Path, ...]:
        return (self.directory,) if self.directory else ()
