"""T6: what is not known any more is not exported any more; what was counted stays; recovery needs nobody.

query-exporter#115 #26, elasticsearch_exporter#98, free/sql_exporter#19, mongodb-query-exporter#2, burningalchemist/sql_exporter#366
"""

from tests.watched import BOTH, settings

RUNS = "tde_canary_runs_total"
UP = "tde_target_up"
LAST = "tde_canary_last_success_timestamp_seconds"
STILL_TRUE = {
    "tde_target_up",
    "tde_canary_last_success_timestamp_seconds",
    "tde_exporter_collector_last_success_timestamp_seconds",
    "tde_exporter_collector_success",
    "tde_exporter_collector_duration_seconds",
    "tde_canary_tier",
    "tde_canary_boosted",
    "tde_canary_load_ratio",
    "tde_canary_load_limit_ratio",
    "tde_canary_budget_used_ratio",
    "tde_overhead_breach",
    "tde_overhead_state",
}
"""Gauges that say what is known without the server: that it is down, since when, what was tried, what was spent on it
lately, what the configuration allows, what was decided about it, and that there is no deciding now."""
ADVICE = ("drop", "recreate", "corrupt")


def of(page, target, *names):
    return {key: value for key, value in page.items() if ("target", target) in key[1] and key[0] in names}


def refused(page, target):
    return page.total("tde_target_connection_errors_total", target=target, reason="connect")


def gauges(page, target):
    """Names of the gauges that the page has for a target."""
    return {
        sample.name
        for family in page.families
        for sample in family.samples
        if family.type == "gauge" and sample.labels.get("target") == target
    }


def test_a_killed_server_leaves_counters_and_times_and_nothing_else(everywhere, daemon, scraped):
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total("tde_canary_latency_seconds", target=name), "latencies")
    exporter.until_all(BOTH, lambda page, name: len(gauges(page, name) - STILL_TRUE) > 15, "what else there is to know")
    with scraped(exporter) as scraper:
        before = exporter.samples()
        for watched in everywhere:
            watched.server.kill()
        try:
            exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 0, "both to be down")
            exporter.until_all(BOTH, lambda page, name: gauges(page, name) <= STILL_TRUE, "all other gauges to be gone")
            exporter.until_all(BOTH, refused, "another attempt to connect")
            after = exporter.page()
            tried = {name: refused(after, name) for name in BOTH}
            exporter.until_all(BOTH, lambda page, name: refused(page, name) > tried[name], "one more")
            later = exporter.page()
            for name in BOTH:
                assert [gauges(page, name) - STILL_TRUE for page in (after, later)] == [set(), set()]
                frozen = of(after.samples, name, LAST)
                assert len(frozen) == 2
                assert all(value >= before[key] for key, value in frozen.items())
                assert frozen == of(later.samples, name, LAST)
                counted = of(before, name, RUNS, "tde_canary_decrypts_total", "tde_target_connects_total")
                assert counted
                assert all(after.samples[key] >= value for key, value in counted.items())
        finally:
            for watched in everywhere:
                watched.server.restart()
        exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up again")
        more = {name: exporter.total(RUNS, target=name) for name in BOTH}
        exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name) > more[name], "runs as before")
        exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs")

    assert scraper.problems == []


def test_a_missing_key_is_said_in_plain_words_and_the_daemon_recovers_when_it_is_back(everywhere, daemon):
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name), "runs")
    try:
        for watched in everywhere:
            watched.server.remove_key()
            watched.server.restart()
        exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up, without keys")

        def failed(page, name):
            return page.total("tde_canary_run_failures_total", target=name, variant="encrypted", reason="keystore")

        exporter.until_all(BOTH, failed, "the encrypted twins to fail for their keys")
        exporter.until_all(BOTH, lambda page, name: state(page, name) in ("missing", "no_key"), "the keystores' state")
        # Not for want of a key of its own: the plain twin is the control that shows that the server works.
        page = exporter.page()
        before = {name: page.value(LAST, target=name, variant="plain") for name in BOTH}
        exporter.until_all(
            BOTH,
            lambda page, name: page.value(LAST, target=name, variant="plain") > before[name],
            "plain",
        )
        exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 0, "invalid pairs")
        exporter.until_all(BOTH, lambda page, name: page.value("tde_keys_missing", target=name) == 1, "a missing key")
        exporter.until_said("cannot be decrypted", times=2)
        page = exporter.page()
        for name in BOTH:
            assert page.total("tde_canary_run_failures_total", target=name, variant="plain", reason="keystore") == 0
        said = "".join((exporter.get("/").text, exporter.get("/metrics").text, exporter.log.read_text())).lower()
        said = said.replace("dropped as contended", "").replace("tde_exporter_messages_dropped", "")
        assert [word for word in ADVICE if word in said] == []
    finally:
        for watched in everywhere:
            watched.server.restore_key()
            watched.server.restart()
    exporter.until_all(BOTH, lambda page, name: state(page, name) == "open", "open keystores")
    exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs")
    decrypts = {name: decrypted(exporter, name) for name in BOTH}
    exporter.until_all(BOTH, lambda page, name: decrypted(page, name) > decrypts[name], "decrypts as before")


def state(page, target):
    """The one state that the target's keystore is said to be in."""
    found = [
        dict(labels)["state"]
        for (name, labels), value in page.samples.items()
        if name == "tde_keystore_state" and ("target", target) in labels and value == 1
    ]
    return found[0] if len(found) == 1 else found


def decrypted(page, target):
    return page.total("tde_canary_decrypts_total", target=target, variant="encrypted")
