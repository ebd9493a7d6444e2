"""What the pages say can be followed: links lead somewhere, configurations are sound, metrics exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config.loader import load
from exporter.engines.registry import target_types
from exporter.exposition import catalogue

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def configurations() -> Iterator[tuple[str, str]]:
    """Those that name targets of this exporter; others are Prometheus's."""
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)):
            if re.search(r"^targets:", block, re.MULTILINE):
                yield f"{name(page)}-{number}", block


CONFIGURATIONS = dict(configurations())


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_pages_and_headings_that_are_there(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name(page)}: {target}"
        assert not anchor or anchor in anchors(file), f"{name(page)}: {target}"


@pytest.mark.parametrize("block", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_configurations_are_sound(block, tmp_path):
    text = re.sub(r"file: [^,}\s]+", f"file: {tmp_path}/secret", block)
    (tmp_path / "secret").write_text("for-the-test")
    file = tmp_path / "shown.yaml"
    file.write_text(text)
    settings = load(file, target_types=target_types(), environ={"HOME": str(tmp_path)})
    assert settings.targets


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_metrics_that_a_page_names_exist(page):
    named = set(re.findall(r"(?<![\w:./])`?(tde_[a-z0-9_]+)(?=[`{) ])", page.read_text()))
    beside = {"tde_canary", "tde_exporter"}  # a schema, an account
    for each in sorted(named - beside):
        assert each in catalogue.CATALOGUE, f"{name(page)}: {each}"
