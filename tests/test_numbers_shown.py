"""The landing page and the table in the terminal say the same about the same snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.config.schema import Settings
from exporter.domain.model import Operation, Phase, Snapshot, Variant, Work
from exporter.engines.sqlite.settings import Pair, Target
from exporter.landing import landing
from exporter.probing.messages import SnapshotDone
from exporter.snapshot_table import snapshot_text
from exporter.web.pages.landing import Landing, render
from tests.exposition.stages import Stage, burst, pair_facts

UNITS = 8
WORKS = {
    Operation.POINT_SELECT: Work(0.001, None, 0, 0, 0),
    Operation.FULL_SCAN_COLD: Work(0.0012, None, 1306, 1306, 0),
    Operation.INSERT_BATCH: Work(0.001, None, 0, 0, 5),
}


class Shown:
    """A ledger that was given a snapshot, and what people see of it."""

    def __init__(self, phase: Phase, units: int = UNITS) -> None:
        pairs = (Pair(name="phonebook", phase=phase),)
        self.stage = stage = Stage(Settings(targets=(Target(name="embedded", pairs=pairs),)))
        stage.begin()
        stage.read_state(replace(pair_facts(encrypted=phase is Phase.ENABLED), phase=phase))
        ticks = [
            stage.made(
                operation,
                encrypted=burst(0.0012, 20, work if phase is Phase.ENABLED else replace(work, decrypts=0, encrypts=0)),
                plain=burst(0.001, 20, replace(work, cpu_seconds=0.001, decrypts=0, encrypts=0)),
                first=first,
                unit=unit,
            )
            for operation, work in WORKS.items()
            for unit in range(units)
            for first in Variant
        ]
        self.snapshot = Snapshot("embedded", stage.clock.wall(), 2.0, tuple(ticks))
        stage.say(SnapshotDone(self.snapshot))

    @property
    def page(self) -> Landing:
        return landing(self.stage.ledger.view(), 0.0, self.stage.clock.wall())

    @property
    def html(self) -> str:
        return render(self.page)

    @property
    def text(self) -> str:
        ledger = self.stage.ledger
        return snapshot_text(self.snapshot, ledger.snapshot_rows("embedded"), ledger.facts("embedded"))

    @property
    def table(self) -> dict[str, list[str]]:
        """Cells of each row, by operation."""
        lines = [[cell for cell in line.split("  ") if cell] for line in self.text.splitlines()]
        return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in lines if line}


@pytest.fixture
def shown() -> Shown:
    return Shown(Phase.ENABLED)


def test_the_numbers_of_both_are_the_same(shown: Shown) -> None:
    for operation, cipher in (("full_scan_cold", "1 306 decrypted"), ("insert_batch", "5 encrypted")):
        encrypted, plain, overhead, cpu, through, samples = shown.table[operation]
        row = shown.html.replace("\u00a0", " ").split(operation.replace("_", " "))[1].split("</tr>")[0]
        row = row.replace("\u202f", " ")
        assert through.replace("\u00a0", " ").replace("\u202f", " ") == cipher
        assert cipher in row
        assert samples == "2 × 320, 8 units"
        assert "2 × 320 samples" in row
        assert "n 8" in row
        for number in (encrypted, plain, overhead.split(" (")[0], cpu.split(" (")[0]):
            assert number.replace("\u00a0", " ") in row


def test_what_passed_no_cipher_is_blind_in_both(shown: Shown) -> None:
    assert shown.table["point_select"][-1] == "blind"
    words = {row.operation: row.word for row in shown.page.overhead}
    assert words == {
        "point_select": "blind",
        "full_scan": "no_data",
        "full_scan_cold": "undecided",
        "insert_batch": "undecided",
    }


def test_a_pair_under_certification_is_not_called_blind() -> None:
    shown = Shown(Phase.AA)

    assert {cells[-1] for name, cells in shown.table.items() if name in WORKS} == {"certifying"}
    assert {row.word for row in shown.page.overhead if row.source} == {"certifying"}
    assert "blind" not in snapshot_text(shown.snapshot, shown.stage.ledger.snapshot_rows("embedded"))


def test_a_ratio_without_interval_is_shown_by_neither() -> None:
    shown = Shown(Phase.ENABLED, units=3)

    assert shown.table["full_scan_cold"][2:4] == ["–", "–"]
    assert "+20" not in shown.html.split("<tbody>")[1]
    assert "? … ?" not in shown.html
    assert {row.word for row in shown.page.overhead if row.operation == "full_scan_cold"} == {"warming"}


def test_the_cost_of_a_decrypt_is_the_same_in_both(shown: Shown) -> None:
    # 1 306 pages for 200 µs of CPU in each sample; what encrypts as well, and what decrypts nothing, has no part in it.
    words = "page decrypted costs 153 ns (99.1 … 207) of CPU, 19.1 ns per KiB"

    assert f"A {words} (8 units)." in shown.text.replace("\u00a0", " ")
    assert f"a {words}" in shown.html.replace("\u00a0", " ")
    assert "decrypted costs" not in Shown(Phase.AA).text
    assert "decrypted costs" not in Shown(Phase.AA).html
    assert "decrypted costs" not in Shown(Phase.ENABLED, units=5).html


def test_the_noise_and_the_rates_are_on_the_page(shown: Shown) -> None:
    shown.stage.tick(dropped="contended")
    shown.stage.round()
    html = shown.html.replace("\u00a0", " ")

    assert (
        "own noise: 1.01 µs median, 2.01 µs P99 in the last hour; since the start 1 of 5 ticks were dropped as contended."
        in html
    )
    assert html.count("P99 in an hour") == 1
    assert html.count("P50 only: one sample per tick") == 3
    shown.stage.budgets(42.0)
    assert "P99 in an hour; every 42 s, to keep the budgets" in shown.html.replace("\u00a0", " ")
