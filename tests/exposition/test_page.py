from __future__ import annotations

import gzip
import logging
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.domain.clock import FakeClock, SystemClock
from exporter.domain.model import Operation
from exporter.exposition.catalogue import CATALOGUE
from exporter.exposition.page import Renderer
from exporter.exposition.view import View, WebView
from tests.exposition.stages import Stage

DEADLINE = 30.0


@pytest.fixture
def full(stage: Stage) -> Stage:
    """The embedded default after more than an hour: everything that can be known is known."""
    stage.begin()
    stage.hours()
    return stage


@pytest.fixture
def full_server(server: Stage) -> Stage:
    """A server after more than an hour, all that a server can tell."""
    server.begin()
    server.hours()
    return server


@pytest.fixture
def old(stage: Stage) -> Stage:
    """The embedded default after so long that the windows of a day are full as well."""
    stage.begin()
    stage.whole_day()
    stage.boost()
    return stage


@pytest.fixture
def old_server(server: Stage) -> Stage:
    """The same of a server."""
    server.begin()
    server.whole_day()
    server.boost()
    return server


@pytest.fixture
def both(full: Stage, full_server: Stage) -> list[Stage]:
    """With a baseline and as many events as are shown."""
    full.remember()
    full_server.remember()
    return [full, full_server]


def test_a_full_page_passes_promtool(both: list[Stage], promtool: Path) -> None:
    for stage in both:
        page = stage.renderer.render_once()

        result = subprocess.run([promtool, "check", "metrics"], input=page.text, capture_output=True, timeout=100)

        assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_promtool_would_have_found_something(promtool: Path) -> None:
    result = subprocess.run([promtool, "check", "metrics"], input=b"bad_total{} x\n", capture_output=True, timeout=100)

    assert result.returncode != 0


def test_both_formats_say_the_same(full: Stage) -> None:
    page = full.renderer.render_once()

    text = [sample for family in parse_text(page.text.decode()) for sample in family.samples]
    modern = [sample for family in parse_openmetrics(page.openmetrics.decode()) for sample in family.samples]

    assert {(s.name, frozenset(s.labels.items()), s.value) for s in text} == {
        (s.name, frozenset(s.labels.items()), s.value) for s in modern
    }
    assert page.series == len(text) == len(modern)
    assert gzip.decompress(page.text_gzip) == page.text
    assert gzip.decompress(page.openmetrics_gzip) == page.openmetrics
    assert page.text_type == "text/plain; version=0.0.4; charset=utf-8"
    assert page.openmetrics_type.startswith("application/openmetrics-text; version=1.0.0")


def test_every_sample_is_unique_and_every_family_has_one_type_and_a_help(full: Stage) -> None:
    text = full.renderer.render_once().text.decode()

    lines = Counter(line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#"))
    types = Counter(line.split()[2] for line in text.splitlines() if line.startswith("# TYPE"))
    helps = {line.split()[2]: line.split(maxsplit=3)[3:] for line in text.splitlines() if line.startswith("# HELP")}

    assert [line for line, times in lines.items() if times > 1] == []
    assert [name for name, times in types.items() if times > 1] == []
    assert types.keys() == helps.keys()
    assert all(helps.values())


def series_of_targets(stage: Stage) -> int:
    """Series that a further target of the same kind would add; the exporter's own come once."""
    lines = stage.renderer.render_once().text.decode().splitlines()
    return sum('target="' in line for line in lines if not line.startswith("#"))


def test_a_default_target_exports_at_most_300_series(old: Stage) -> None:
    hour, day = {"window": "1h"}, {"window": "24h"}
    for window in (hour, day):
        assert old.value("tde_overhead_ratio_lower", operation="point_select", percentile="99", **window) is not None
        assert old.value("tde_overhead_cpu_ratio_upper", operation="full_scan_cold", **window) is not None
    assert old.value("tde_overhead_order_bias_ratio", operation="insert_batch") is not None
    assert len(old.samples()["tde_overhead_state"]) == 4 * 8
    assert old.value("tde_standby_lag_seconds", standby="local", kind="heartbeat") == 0
    assert old.value("tde_exporter_collector_success", collector="standby") == 1
    assert series_of_targets(old) <= 300
    assert old.known("tde_exporter_series") - series_of_targets(old) <= 90


def test_the_95th_percentile_is_shown_where_it_is_asked_for(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage("a", operations={Operation.POINT_SELECT: {"percentile_95": True}})
    stage.begin()
    stage.whole_day()
    for window in ("1h", "24h"):
        for name in ("tde_overhead_ratio", "tde_canary_latency_seconds"):
            found = [dict(labels) for labels in stage.samples()[name]]
            shown = {(one["operation"], one["percentile"]) for one in found if one["window"] == window}
            assert shown == {
                ("point_select", "50"),
                ("point_select", "95"),
                ("point_select", "99"),
                ("full_scan", "50"),
            }


def test_a_baseline_and_events_add_at_most_90_series(old: Stage) -> None:
    before = old.known("tde_exporter_series")
    old.remember()
    assert len(old.samples()["tde_event_timestamp_seconds"]) == 20
    assert old.value("tde_baseline_overhead_ratio_upper", operation="point_select", percentile="99") is not None
    assert old.value("tde_baseline_control_ratio", operation="point_select", percentile="99") is not None
    for name in ("tde_overhead_breach", "tde_overhead_evidence"):
        assert old.value(name, operation="point_select", percentile="99", reference="baseline") is not None
    assert old.known("tde_exporter_series") <= before + 90


def test_a_default_server_exports_at_most_300_series(old_server: Stage) -> None:
    """Three operations, a keystore, ten kinds of objects, the instance, and a replica."""
    labels = {"operation": "point_select", "percentile": "99", "window": "24h"}
    assert old_server.value("tde_overhead_ratio_lower", **labels) is not None
    assert old_server.value("tde_standby_lag_seconds", standby="replica", kind="heartbeat") == 0
    assert old_server.value("tde_instance_decrypts_total", unit="block", source="counter") == 100_000
    assert len(old_server.samples()["tde_objects"]) == 10
    assert series_of_targets(old_server) <= 300


def test_full_pages_show_the_whole_catalogue(both: list[Stage]) -> None:
    for stage in both:
        stage.boost()
        stage.exceeded()
        stage.ledger.web = WebView({"tls": 1}, {200: 3}, 2e9)
    embedded, server = (
        {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in stage.names()}
        for stage in both
    )

    # The embedded engine has no instance and no clock of its own beside the client's; it converts nothing, and its
    # standbys run beside it, with no delay.
    only_of_servers = {name for name in CATALOGUE if name.startswith(("tde_instance_", "tde_host_", "tde_encryption_"))}
    assert set(CATALOGUE) - embedded == only_of_servers | {
        "tde_canary_server_seconds_total",
        "tde_standby_configured_delay_seconds",
        "tde_standby_clock_skew_seconds",
        "tde_standby_gap_sequences",
        "tde_standby_destination_up",
        "tde_master_key_backed_up",
        "tde_keys_in_use",
        "tde_keys_missing",
        "tde_object_bytes",
        "tde_algorithm_objects",
        "tde_unprotected_dependents",
        "tde_conversion_progress_ratio",
        "tde_conversion_stalled",
    }
    # Its default operations read only.
    assert set(CATALOGUE) - server == {"tde_canary_encrypts_total"}
    assert embedded | server == set(CATALOGUE)


def test_no_created_series(full: Stage) -> None:
    page = full.renderer.render_once()

    assert b"_created" not in page.text + page.openmetrics


def test_the_number_of_series_on_the_page_is_the_number_it_tells(full: Stage) -> None:
    page = full.renderer.render_once()

    lines = [line for line in page.text.decode().splitlines() if not line.startswith("#")]
    assert f"tde_exporter_series {float(len(lines))}" in lines


def test_two_targets_never_collide(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage("one", "two")
    for target in stage.settings.targets:
        stage.target = target
        stage.begin()
        stage.round()

    assert set(stage.samples()["tde_target_up"].values()) == {1.0}
    assert len(stage.samples()["tde_target_up"]) == 2


def test_what_is_beyond_the_cap_is_left_out_from_the_end_and_counted(make_stage: Callable[..., Stage]) -> None:
    names = [f"t{number}" for number in range(20)]
    stage = make_stage(*names, web={"max_series": 200})
    for target in stage.settings.targets:
        stage.target = target
        stage.begin()
        stage.round()

    page = stage.renderer.render_once()
    samples = stage.samples()

    assert page.series <= 200
    assert len(samples["tde_target_up"]) == 20
    assert "tde_canary_phase_seconds_total" not in samples
    assert stage.known("tde_exporter_series_refused_total") > 0
    assert list(parse_openmetrics(page.openmetrics.decode()))


def test_a_cap_below_everything_still_gives_a_page_that_parses(stage: Stage) -> None:
    stage.begin()
    renderer = Renderer(stage.ledger.view, stage.clock, 1, 30.0)

    page = renderer.render_once()

    assert b"tde_exporter_series " in page.text
    assert b"tde_target_up" not in page.text
    assert list(parse_openmetrics(page.openmetrics.decode()))


def test_at_no_cap_is_a_histogram_cut_in_half(stage: Stage) -> None:
    stage.begin()
    most = stage.renderer.render_once().series

    for cap in range(20, most):
        page = Renderer(stage.ledger.view, stage.clock, cap, 30.0).render_once()
        histograms = [family for family in parse_openmetrics(page.openmetrics.decode()) if family.type == "histogram"]
        for family in histograms:
            assert len(family.samples) == len(CATALOGUE[family.name].buckets) + 3


def test_a_page_is_fresh_until_it_is_too_old(stage: Stage) -> None:
    assert not stage.renderer.fresh()
    assert stage.renderer.current() is None

    page = stage.renderer.render_once()
    assert stage.renderer.current() is page
    stage.clock.advance(30.0)
    assert stage.renderer.fresh()
    stage.clock.advance(0.1)
    assert not stage.renderer.fresh()


def test_the_thread_renders_when_something_changed(stage: Stage) -> None:
    viewed = threading.Semaphore(0)

    def view() -> View:
        viewed.release()
        return stage.ledger.view()

    renderer = Renderer(view, SystemClock(), 1000, 30.0)
    renderer.start()
    try:
        assert viewed.acquire(timeout=DEADLINE)
        renderer.changed()
        assert viewed.acquire(timeout=DEADLINE)
    finally:
        renderer.stop()
    assert renderer.fresh()


def test_the_thread_renders_anew_when_nothing_changes(stage: Stage) -> None:
    views = threading.Semaphore(0)

    def view() -> View:
        views.release()
        return stage.ledger.view()

    renderer = Renderer(view, SystemClock(), 1000, 0.3)
    renderer.start()
    try:
        assert all(views.acquire(timeout=DEADLINE) for _ in range(2))
    finally:
        renderer.stop()


def test_a_rendering_that_takes_long_is_not_followed_by_a_pause_in_which_the_page_grows_stale(stage: Stage) -> None:
    clock, views = FakeClock(), threading.Semaphore(0)

    def slowly() -> View:
        clock.advance(60.0)
        views.release()
        return stage.ledger.view()

    renderer = Renderer(slowly, clock, 10_000, stale_after=1.5)
    renderer.start()
    try:
        # A fifth of the time would be four minutes of rest.
        assert all(views.acquire(timeout=DEADLINE) for _ in range(2))
    finally:
        renderer.stop()


def test_the_thread_survives_a_view_that_explodes(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Callable[[], View]] = [stage.ledger.view, _explode, _explode]
    done = threading.Event()

    def view() -> View:
        if answers:
            return answers.pop(0)()
        done.set()
        return stage.ledger.view()

    clock = FakeClock()
    renderer = Renderer(view, clock, 1000, 30.0)
    with caplog.at_level(logging.CRITICAL):
        renderer.start()
        try:
            while not done.wait(0.05):
                renderer.changed()
        finally:
            renderer.stop(DEADLINE)
    page = renderer.current()

    assert renderer.errors == 2
    assert page is not None
    assert b"tde_exporter_page_errors_total 2.0" in page.text


def test_while_rendering_fails_the_last_page_stays_and_grows_old(stage: Stage) -> None:
    views: list[Callable[[], View]] = [stage.ledger.view, _explode]
    renderer = Renderer(lambda: views.pop(0)(), stage.clock, 1000, 30.0)
    page = renderer.render_once()

    stage.clock.advance(31.0)
    with pytest.raises(ZeroDivisionError):
        renderer.render_once()

    assert renderer.current() is page
    assert not renderer.fresh()


def _explode() -> View:
    raise ZeroDivisionError("boom")
