"""The little pictures keep their numbers in order and inside."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead.ratio import Ratio
from exporter.web.pages.chart import WIDTH, Scale, picture

BOUND = st.none() | st.floats(min_value=1e-3, max_value=1e3)
RATIO = st.builds(Ratio, BOUND, BOUND, BOUND, st.just(10))


@given(st.lists(RATIO), st.floats(min_value=1.01, max_value=1.9))
def test_every_interval_is_drawn_inside(ratios: list[Ratio], threshold: float) -> None:
    scale = Scale.around(ratios, threshold)
    for ratio in [*ratios, None]:
        for part in ElementTree.fromstring(picture(ratio, scale, threshold)).iter():
            for name in ("x", "cx", "x1", "x2"):
                assert 0 <= float(part.get(name, "0")) <= WIDTH
            if part.tag == "rect":
                assert float(part.get("x", "")) + float(part.get("width", "")) <= WIDTH


@given(st.floats(min_value=0.51, max_value=1.98), st.floats(min_value=0.001, max_value=0.1))
def test_slower_is_further_right(ratio: float, more: float) -> None:
    scale = Scale.around([Ratio(1.0, 0.5, 2.0, 10)], 1.2)
    assert scale.x(ratio) < scale.x(ratio + more)


def test_no_interval_draws_only_the_two_lines() -> None:
    assert [part.tag for part in ElementTree.fromstring(picture(None, Scale(0.9, 1.4), 1.2))] == ["line", "line"]


def test_beyond_the_scale_is_an_arrow_and_not_a_dot() -> None:
    far = Ratio(9.0, 8.0, 10.0, 5)
    tags = [part.tag for part in ElementTree.fromstring(picture(far, Scale.around([far], 1.2), 1.2))]
    assert "path" in tags
    assert "circle" not in tags
