"""Two builds of one commit."""

from __future__ import annotations

from pathlib import Path

from tests.image.engine import Engine


def test_two_builds_hold_the_same(engine: Engine, image: str, sources: Path) -> None:
    engine.build("tde-exporter:again", "--no-cache", context=sources)
    look = "cd /opt/tde-exporter; find . -type f | sort | xargs sha256sum; find . -type l -exec readlink {} +"
    first, second = (
        engine.docker("run", "--rm", "--network=host", "--entrypoint=sh", name, "-c", look)
        for name in (image, "tde-exporter:again")
    )
    assert len(first.splitlines()) > 1000
    assert first == second
