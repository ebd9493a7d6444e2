from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.exposition import reference
from exporter.exposition.catalogue import CATALOGUE, Kind, Metric

METRICS = pytest.mark.parametrize("metric", CATALOGUE.values(), ids=list(CATALOGUE))

RESERVED = {"quantile", "le", "job", "instance", "type_", "region", "env", "service", "cluster", "dc"}


@METRICS
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"tde_[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.name.endswith("_info") == (metric.kind is Kind.INFO)
    assert not re.search(r"_(bucket|sum|count|created|ms|percent|age)$", metric.name)
    assert metric.unit != "ratio" or "_ratio" in metric.name
    assert metric.unit != "seconds" or "_seconds" in metric.name
    assert metric.unit != "bytes" or "_bytes" in metric.name


@METRICS
def test_labels_are_legal_unique_and_not_reserved(metric: Metric) -> None:
    assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in metric.labels)
    assert len(set(metric.labels)) == len(metric.labels)
    assert not RESERVED & set(metric.labels)


@METRICS
def test_help_is_one_sentence_or_more_on_one_line(metric: Metric) -> None:
    assert len(metric.help) > 10
    assert metric.help.endswith(".")
    assert "\n" not in metric.help


@METRICS
def test_only_histograms_have_buckets_and_they_rise(metric: Metric) -> None:
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))


def test_metrics_about_a_database_name_target_and_engine() -> None:
    about_databases = [metric for name, metric in CATALOGUE.items() if not name.startswith("tde_exporter_")]
    # A constant of the method, the same for all of them.
    about_databases.remove(CATALOGUE["tde_overhead_evidence_threshold"])

    assert all(metric.labels[:2] == ("target", "engine") for metric in about_databases)


def test_the_reference_is_the_catalogue(root: Path) -> None:
    written = (root / "docs" / "metrics.md").read_text(encoding="utf-8")

    assert written == reference.markdown()
    assert re.findall(r"^\| `(tde_\w+)` \|", written, re.MULTILINE) != []
    assert set(re.findall(r"^\| `(tde_\w+)` \|", written, re.MULTILINE)) == set(CATALOGUE)
