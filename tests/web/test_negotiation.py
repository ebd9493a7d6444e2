"""Accept and Accept-Encoding, with what real scrapers send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.web.negotiation import accepts_gzip, wants_openmetrics

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
PROMETHEUS_PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," + PROMETHEUS_3
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        (PROMETHEUS_PROTOBUF, True),
        (BROWSER, False),
        ("", False),
        ("*/*", False),
        ("application/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0", True),
        ("application/openmetrics-text; version=0.0.1", True),
        ('application/openmetrics-text; version="1.0.0"', True),
        ("APPLICATION/OpenMetrics-Text; Version=1.0.0; charset=utf-8", True),
        ("application/openmetrics-text; version=2.0.0", False),
        ("application/openmetrics-text; version=2.0.0, application/openmetrics-text; version=1.0.0; q=0.2", True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0, */*", False),
        ("application/openmetrics-text;q=0.4, text/plain;q=0.5", False),
        ("text/plain, application/openmetrics-text", True),
        ("text/plain;q=0.5, application/openmetrics-text;q=0.5", True),
        ("application/openmetrics-text;q=0.5, */*;q=0.6", False),
        ("application/openmetrics-text;q=0.5, */*;q=0.9, text/plain;q=0.1", True),
        ("application/openmetrics-text;q=0.5, text/*;q=0.9, text/plain;q=0.1", True),
        ("application/openmetrics-text;q=nan", False),
        ("application/openmetrics-text;q=7", False),
        ("application/openmetrics-text;q=", False),
        (",;,;;q=1,", False),
    ],
)
def test_openmetrics_is_given_to_who_asks_for_it(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [
        ("", False),
        ("gzip", True),
        ("x-gzip", True),
        ("gzip, deflate, br", True),
        ("deflate, br", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("GZIP;Q=0.3", True),
        ("gzip;q=0.3, identity", False),
        ("gzip;q=0.3, identity;q=0.3", True),
        ("identity", False),
        ("gzip;q=much", False),
    ],
)
def test_gzip_is_given_to_who_can_read_it(accept_encoding: str, gzip: bool) -> None:
    assert accepts_gzip(accept_encoding) is gzip


@given(st.text(alphabet=st.sampled_from('gziptexplan/*;,q=01. "\t')))
def test_any_header_has_an_answer(header: str) -> None:
    assert wants_openmetrics(header) in (True, False)
    assert accepts_gzip(header) in (True, False)


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF)))
def test_what_does_not_name_openmetrics_never_gets_it(header: str) -> None:
    assert "openmetrics" in header.lower() or not wants_openmetrics(header)
