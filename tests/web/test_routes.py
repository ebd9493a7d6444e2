"""Paths, methods and formats, asked over a real socket."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from exporter.web.pages.landing import Landing

PATHS = ("/metrics", "/-/healthy", "/-/ready", "/", "/favicon.ico")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_scrape_gets_the_bytes_of_the_form_it_asked_for(serve: Any, accept: str, encoding: str) -> None:
    served = serve()
    page = served.page
    status, headers, body = served.ask("GET", "/metrics", {"Accept": accept, "Accept-Encoding": encoding})

    expected = {
        ("", "identity"): page.text,
        ("", "gzip"): page.text_gzip,
        (OPENMETRICS, "identity"): page.openmetrics,
        (OPENMETRICS, "gzip"): page.openmetrics_gzip,
    }[accept, encoding]
    assert (status, body) == (200, expected)
    assert headers["content-type"] == (page.openmetrics_type if accept else page.text_type)
    assert headers.get("content-encoding") == ("gzip" if encoding == "gzip" else None)
    assert headers["content-length"] == str(len(expected))
    assert headers["vary"] == "Accept, Accept-Encoding"
    plain = gzip.decompress(body) if encoding == "gzip" else body
    assert plain == (page.openmetrics if accept else page.text)


def test_several_accept_headers_count_as_one_list(serve: Any) -> None:
    served = serve()
    with served.dial() as client:
        client.sendall(
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Accept: text/plain;q=0.5\r\nAccept: application/openmetrics-text\r\n\r\n"
        )
        answer = client.makefile("rb").read()
    assert answer.endswith(b"# EOF\n")


def test_no_page_yet_and_a_stale_page_are_refused_in_one_line(serve: Any) -> None:
    served = serve()
    page, served.page = served.page, None
    status, _, body = served.ask("GET", "/metrics")
    assert (status, body.count(b"\n")) == (503, 1)
    assert b"first page" in body

    served.page, served.is_fresh = page, False
    status, _, body = served.ask("GET", "/metrics")
    assert (status, body.count(b"\n")) == (503, 1)
    assert b"too old" in body
    assert b"tde_target_up" not in body

    served.is_fresh = True
    assert served.ask("GET", "/metrics")[0] == 200


def test_health_and_readiness_say_what_they_were_told(serve: Any) -> None:
    served = serve()
    assert served.ask("GET", "/-/healthy")[::2] == (200, b"all loops turn\n")
    assert served.ask("GET", "/-/ready")[::2] == (200, b"first pass done\n")

    served.health, served.readiness = (False, "the scheduler stands still"), (False, "building twins: 40 %")
    assert served.ask("GET", "/-/healthy")[::2] == (503, b"the scheduler stands still\n")
    assert served.ask("GET", "/-/ready")[::2] == (503, b"building twins: 40 %\n")


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(serve: Any, path: str) -> None:
    served = serve()
    status, headers, body = served.ask("GET", path)
    head_status, head_headers, head_body = served.ask("HEAD", path)
    for either in (headers, head_headers):
        assert either.pop("date")

    assert (head_status, head_headers, head_body) == (status, headers, b"")
    assert status == 200
    assert len(body) == int(headers["content-length"]) > 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"])
def test_other_methods_are_refused(serve: Any, method: str, path: str) -> None:
    status, headers, body = serve().ask(method, path, body=b"a=1" if method == "POST" else None)
    assert status == 405
    assert {name.strip() for name in headers["allow"].split(",")} == {"GET", "HEAD"}
    assert body.count(b"\n") == 1


@pytest.mark.parametrize(
    "path", ["/metrics/", "/metric", "//metrics", "/-/", "/-/healthy/x", "/..%2fetc", "/%00", "/%ff", "/docs", "*"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_unknown_paths_are_unknown(serve: Any, method: str, path: str) -> None:
    status, headers, _ = serve().ask(method, path)
    assert status == 404
    assert "location" not in headers


def test_queries_are_ignored(serve: Any) -> None:
    assert serve().ask("GET", "/metrics?name[]=x&%zz")[0] == 200


def test_a_page_for_people_is_locked_down(serve: Any) -> None:
    _, headers, body = serve().ask("GET", "/")
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert body.startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
def test_nothing_tells_the_software_behind_it(serve: Any, path: str) -> None:
    _, headers, _ = serve().ask("GET", path)
    assert "server" not in headers
    assert not any("uvicorn" in value or "starlette" in value for value in headers.values())


def test_a_fault_of_ours_is_logged_and_not_shown(
    serve: Any, caplog: pytest.LogCaptureFixture, eventually: Callable[..., None]
) -> None:
    served = serve()

    def broken() -> Landing:
        raise ZeroDivisionError("secret detail")

    served.landing = broken
    with caplog.at_level(logging.ERROR):
        status, headers, body = served.ask("GET", "/")
    assert (status, body) == (500, b"internal error; the log says more\n")
    assert headers["content-type"].startswith("text/plain")
    eventually(lambda: "secret detail" in caplog.text)
    assert [record.name for record in caplog.records] == ["exporter.web.routes"]
    assert served.ask("GET", "/metrics")[0] == 200


def test_many_visitors_cost_one_rendering(serve: Any, eventually: Callable[..., None]) -> None:
    served = serve()
    asked: list[int] = []

    def landing() -> Landing:
        asked.append(1)
        return Landing("0.0.0", 0.0, float(len(asked)))

    served.landing = landing
    assert {served.ask("GET", "/")[0] for _ in range(30)} == {200}
    assert len(asked) < 30
    before = len(asked)
    eventually(lambda: served.ask("GET", "/")[0] == 200 and len(asked) > before)


# -- parts and discovery -------------------------------------------------------------------------------------


def test_one_target_is_served_alone(serve: Any) -> None:
    served = serve()
    status, headers, body = served.ask("GET", "/probe?target=orders")
    assert (status, body) == (200, b"# of orders\n")
    assert headers["content-type"] == served.page.text_type
    assert served.ask("GET", "/metrics?only=exporter")[2] == b"# of the exporter\n"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?target=",
        "?target=nobody",
        "?target=orders&target=billing",
        "?target=mysql://user:S3CR3T@host/",
        "?Target=orders",
    ],
)
def test_what_is_not_the_name_of_one_target_is_refused_and_not_repeated(serve: Any, query: str) -> None:
    status, _, body = serve().ask("GET", f"/probe{query}")
    assert status == 400
    assert b"/sd" in body
    assert b"S3CR3T" not in body
    assert serve().ask("GET", "/metrics?only=orders")[0] == 400


def test_parts_of_a_stale_page_are_not_served(serve: Any) -> None:
    served = serve()
    served.is_fresh = False
    assert served.ask("GET", "/probe?target=orders")[0] == 503
    served.page = None
    assert served.ask("GET", "/probe?target=orders")[0] == 503


def test_targets_are_discovered_at_the_address_that_was_asked(serve: Any) -> None:
    served = serve()
    status, headers, body = served.ask("GET", "/sd", {"Host": "monitor.example:10161"})
    assert (status, headers["content-type"]) == (200, "application/json")
    groups = json.loads(body)
    assert [group["targets"] for group in groups] == [["monitor.example:10161"]] * 3
    assert [group["labels"].get("__param_target") for group in groups] == [None, "orders", "billing"]
    assert [group["labels"]["__metrics_path__"] for group in groups] == ["/metrics", "/probe", "/probe"]
    for host in ("a b", "evil.example/x", "", "x" * 300):
        assert json.loads(served.ask("GET", "/sd", {"Host": host})[2]) == []
