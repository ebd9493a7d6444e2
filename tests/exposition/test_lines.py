"""Our lines are the client library's."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client import exposition as text_format
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics_format

from exporter.exposition.lines import both_formats

values = st.floats() | st.integers(-(10**9), 10**9).map(float)
words = st.text(max_size=12)


class Collected:
    def __init__(self, families):
        self.families = families

    def collect(self):
        return iter(self.families)


def by_the_library(families):
    return text_format.generate_latest(Collected(families)), openmetrics_format.generate_latest(Collected(families))


@given(
    st.lists(st.tuples(words, words, values), max_size=6), st.lists(st.integers(0, 99), min_size=3, max_size=3), words
)
def test_every_kind_of_family_is_written_as_the_client_library_does(rows, counts, help_text):
    gauge = GaugeMetricFamily("tde_ratio", help_text, labels=("zone", "name"))
    counter = CounterMetricFamily("tde_runs_total", help_text, labels=("zone", "name"))
    for zone, name, value in rows:
        gauge.add_metric((zone, name), value)
        counter.add_metric((zone, name), value)
    bare = GaugeMetricFamily("tde_bytes", help_text, value=counts[0], unit="bytes")
    buckets = list(zip(("0.1", "1.0", "+Inf"), map(float, counts), strict=True))
    histogram = HistogramMetricFamily("tde_seconds", help_text, buckets=buckets, sum_value=0.25)
    families = [gauge, counter, bare, histogram]

    assert both_formats(families) == by_the_library(families)


def test_what_is_not_ours_is_left_to_the_client_library():
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    families = list(registry.collect())

    assert both_formats(families) == by_the_library(families)


def test_a_page_without_families_ends_as_it_should():
    assert both_formats([]) == (b"", b"# EOF\n")
