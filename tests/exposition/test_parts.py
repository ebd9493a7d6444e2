"""A page in parts: together they say what the whole says, each strictly well-formed."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families

from exporter.exposition.page import Renderer
from exporter.exposition.parts import EXPORTER
from tests.exposition.stages import Stage

Samples = set[tuple[str, frozenset[tuple[str, str]]]]


def samples(text: bytes) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_the_parts_together_are_the_page(stage: Stage) -> None:
    stage.begin()
    renderer = Renderer(stage.ledger.view, stage.clock, 50_000, 60.0)
    assert renderer.part(EXPORTER) is None
    page = renderer.render_once()
    names = [target.name for target in stage.settings.targets]
    parts = [renderer.part(name) for name in (*names, EXPORTER)]
    found: Samples = set()
    for part, name in zip(parts, (*names, EXPORTER), strict=True):
        assert part is not None
        list(strict(part.openmetrics.decode()))
        mine = samples(part.text)
        assert len(mine) == part.series > 10
        assert not found & mine
        assert all(dict(labels).get("target", EXPORTER) == name for _, labels in mine)
        found |= mine
    assert found == samples(page.text)


def test_a_target_of_which_nothing_is_said_has_an_empty_part(stage: Stage) -> None:
    renderer = Renderer(stage.ledger.view, stage.clock, 50_000, 60.0)
    renderer.render_once()
    part = renderer.part("nobody")
    assert part is not None
    assert (part.series, part.text) == (0, b"")


def test_parts_are_kept_until_the_next_page(stage: Stage) -> None:
    renderer = Renderer(stage.ledger.view, stage.clock, 50_000, 60.0)
    renderer.render_once()
    first = renderer.part(EXPORTER)
    assert renderer.part(EXPORTER) is first
    renderer.render_once()
    assert renderer.part(EXPORTER) is not first
