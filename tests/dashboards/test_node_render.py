"""Grafana's own front-end code draws the dashboards without an error, with data in every panel, and nothing is cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.drawing import LOOKS, draw, make_history
from tests.dashboards.served import serving

# Packages, the page and a browser are fetched and built before the first picture.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

MAY_BE_EMPTY: dict[str, dict[str, str]] = {}
"""Panels without data in the made-up fleet, by dashboard and title, and why."""

Drawn = dict[str, Any]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, promtool: Path, prometheus: Path) -> Iterator[tuple[str, int]]:
    """A Prometheus with the made-up fleet, and the end of its history."""
    folder, end = tmp_path_factory.mktemp("history"), int(time.time())
    make_history(folder, promtool, end)
    with serving(prometheus, folder) as url:
        yield url, end


@pytest.fixture(scope="module")
def drawn(root: Path, history: tuple[str, int], tmp_path_factory: pytest.TempPathFactory) -> list[Drawn]:
    """The report of all dashboards in all looks."""
    url, end = history
    files = sorted((root / "dashboards").glob("tde-*.json"))
    report = draw(url, end, tmp_path_factory.mktemp("pictures"), LOOKS, files)
    assert len(report) == len(files) * len(LOOKS)
    assert len(files) >= 4
    return report


def test_no_page_has_an_error(drawn: list[Drawn]) -> None:
    assert {f"{one['dashboard']} {one['look']}": one["errors"] for one in drawn if one["errors"]} == {}


def test_every_panel_has_data_or_it_is_known_why_not(drawn: list[Drawn]) -> None:
    empty = {(one["dashboard"], title) for one in drawn for title in one["empty"]}
    assert {place for place in empty if place[1] not in MAY_BE_EMPTY.get(place[0], {})} == set()


def test_no_table_text_or_title_is_cut(drawn: list[Drawn]) -> None:
    assert {f"{one['dashboard']} {one['look']}": one["cut"] for one in drawn if one["cut"]} == {}


def test_events_are_marked(drawn: list[Drawn]) -> None:
    marked = {one["dashboard"]: max(panel["annotations"] for panel in one["panels"]) for one in drawn}
    assert marked["tde-target"] >= 2
    assert marked["tde-enablement"] >= 2


def test_pictures_are_there(drawn: list[Drawn]) -> None:
    # A page without panels is some 20 kB.
    assert {one["file"] for one in drawn if Path(one["file"]).stat().st_size < 60_000} == set()


def test_what_is_wrong_is_found(root: Path, history: tuple[str, int], tmp_path: Path) -> None:
    url, end = history
    text = (root / "dashboards" / "tde-exporter.json").read_text()
    assert "tde_exporter_probe_process_up" in text
    broken = tmp_path / "tde-broken.json"
    broken.write_text(
        text.replace("tde_exporter_probe_process_up", "tde_exporter_no_such_metric").replace(
            "process_open_fds", "process_open_fds["
        )
    )
    [one] = draw(url, end, tmp_path / "pictures", ["1280-dark"], [broken])
    assert [line for line in one["errors"] if "parse error" in line]
    assert one["empty"]
