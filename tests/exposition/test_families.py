from __future__ import annotations

import math

import pytest

from exporter.exposition.sheet import Sheet, samples_of
from exporter.exposition.view import HistogramView


def test_a_name_that_is_not_in_the_catalogue_raises() -> None:
    with pytest.raises(KeyError):
        Sheet().put("tde_invented", 1)


def test_a_label_that_is_not_in_the_catalogue_raises() -> None:
    with pytest.raises(KeyError):
        Sheet().put("tde_exporter_build_info", 1, version="1", python="3", colour="blue")


def test_a_missing_label_raises() -> None:
    with pytest.raises(KeyError):
        Sheet().put("tde_exporter_build_info", 1, version="1")


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_unknown_or_not_finite_gives_no_sample(value: float | None) -> None:
    sheet = Sheet()

    sheet.put("tde_exporter_series", value)

    assert sheet.families() == []


def test_a_second_sample_with_the_same_labels_is_left_out() -> None:
    sheet = Sheet()

    sheet.put("tde_exporter_runs_skipped_total", 1, reason="busy")
    sheet.put("tde_exporter_runs_skipped_total", 2, reason="busy")
    sheet.put("tde_exporter_runs_skipped_total", 3, reason="missed")

    assert [sample.value for family in sheet.families() for sample in family.samples] == [1, 3]


def test_bound_sheets_write_into_the_same_families() -> None:
    sheet = Sheet()
    target = sheet.bound(target="t", engine="fake")

    target.put("tde_target_up", True)
    target.bound(pair="p").put("tde_pair_valid", False)

    assert [(family.name, family.samples[0].value) for family in sheet.families()] == [
        ("tde_target_up", 1.0),
        ("tde_pair_valid", 0.0),
    ]


def test_a_histogram_has_cumulative_buckets_and_ends_with_infinity() -> None:
    sheet = Sheet()

    sheet.put_histogram("tde_exporter_schedule_lateness_seconds", HistogramView(tuple(range(14)), 2.5))

    family = sheet.families()[0]
    assert samples_of([family]) == 16
    assert family.samples[13].labels == {"le": "+Inf"}
    assert [sample.value for sample in family.samples[13:]] == [13, 13, 2.5]
