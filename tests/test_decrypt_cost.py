"""The cost of a decrypted page that the twins tell is the one that a direct measurement finds."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import apsw
import pytest

from exporter.config.loader import load
from exporter.config.schema import Settings
from exporter.domain.clock import SystemClock
from exporter.engines import registry
from exporter.engines.sqlite.files import Connections
from exporter.engines.sqlite.key import KeyFile
from exporter.engines.sqlite.settings import Target
from exporter.overhead.cost import DecryptCost
from exporter.overhead.snapshot import summarise
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile

OPENINGS, ROUNDS = 12, 8
"""Memory lies elsewhere at each opening, which moves the cost of a scan by a percent or two."""


class ColdScan:
    """Reads every page of a file through a page cache that was emptied; CPU time of this thread."""

    def __init__(self, connections: Connections, path: Path) -> None:
        self._connection, _ = connections.open(path)
        self._connection.pragma("cache_size", -2048)

    def run(self) -> tuple[float, int]:
        """CPU seconds, and pages that were not in the cache."""
        self._connection.pragma("shrink_memory")
        missed = self._connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
        begun = time.thread_time()
        self._connection.execute("SELECT sum(length(name)) FROM phonebook").fetchall()
        taken = time.thread_time() - begun
        return taken, self._connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - missed


def directly(target: Target) -> float:
    """CPU seconds per page: median over interleaved pairs of scans of the two files."""
    assert target.directory is not None
    assert target.key_file is not None
    differences = []
    for _ in range(OPENINGS):
        connections = Connections(KeyFile(target.key_file), target.cipher)
        try:
            encrypted, plain = (
                ColdScan(connections, target.directory / f"phonebook.{side}.db") for side in ("encrypted", "plain")
            )
            for number in range(ROUNDS):
                measured = {scan: scan.run() for scan in ((encrypted, plain) if number % 2 else (plain, encrypted))}
                (mine, pages), (theirs, _) = measured[encrypted], measured[plain]
                assert pages > 100
                differences.append((mine - theirs) / pages)
        finally:
            connections.close_all()
    return median(differences)


def told(settings: Settings, target: Target) -> DecryptCost:
    """What snapshots tell, each with connections of its own; the ticks of all together."""
    ticks = []
    for opening in range(OPENINGS):
        rounds = Rounds(settings, target, Turnstile(), lambda _message: None, SystemClock(), random.Random(opening))
        try:
            rounds.connect()
            snapshot = rounds.snapshot(ROUNDS, seconds=20.0)
        finally:
            rounds.close()
        ticks += [replace(tick, unit=tick.unit + opening * ROUNDS) for tick in snapshot.ticks]
    (row,) = summarise(replace(snapshot, ticks=tuple(ticks)))
    assert row.decrypt_cost is not None
    assert row.decrypt_cost.units == OPENINGS * ROUNDS
    return row.decrypt_cost


@pytest.mark.parametrize("cipher", ["aes256cbc", "sqlcipher"])
def test_the_cost_of_a_decrypt_agrees_with_a_direct_measurement(tmp_path: Path, cipher: str) -> None:
    """CPU times, interleaved and summarised by medians on both sides, so that other load on the machine cancels out."""
    path = tmp_path / "config.yaml"
    path.write_text(
        f"targets: [{{name: embedded, engine: sqlite, cipher: {cipher}, operations: [full_scan_cold],"
        " pairs: [{name: phonebook, rows: 50000}]}]\n"
    )
    settings = load(
        path, target_types=registry.target_types(), environ={"TDE_EXPORTER_STATE_DIRECTORY": str(tmp_path / "state")}
    )
    (target,) = settings.targets
    assert isinstance(target, Target)

    found, direct = told(settings, target), directly(target)

    assert abs(found.seconds / direct - 1) < 0.25, (found, direct)
    assert found.lower > 0
