"""T12: what a driver or a database says is not believed: absurd names, types, sizes and numbers cost a value, never the page.

client_python#907, query-exporter#126, postgres_exporter#1327 #1265 #1230, oracledb_exporter#188
"""

import itertools
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm, runs
from tests.daemons import ENDS_WITHIN
from tests.watched import BOTH, QUICK, SCHEMA, settings

UP = "tde_target_up"
ABSURD = (
    'a"b',
    "back\\slash",
    "line\nfeed",
    "'; DROP TABLE x; --",
    "<script>alert(1)</script>",
    "ü漢字",
    "}{,=#",
    "x" * 64,
)
"""Names that a database may have, as far as its server takes them."""


def strict(exporter):
    """Both formats of the page as their parsers read them; each series once."""
    exporter.page()
    answer = exporter.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.status_code == 200
    families = list(text_string_to_metric_families(answer.text))
    keys = [(sample.name, *sorted(sample.labels.items())) for family in families for sample in family.samples]
    assert len(keys) == len(set(keys))
    return families


def test_absurd_names_in_the_database(everywhere, daemon):
    made = []
    exporter = daemon(settings(*(watched.target() for watched in everywhere)))
    try:
        for watched in everywhere:
            encrypted = "ENCRYPTION='Y'" if watched.engine == "mysql" else "ENCRYPTED=YES"
            for name in ABSURD:
                quoted = "`" + name.replace("`", "``").replace("%", "%%") + "`"
                watched.server.query(f"CREATE DATABASE {quoted}")
                made.append((watched, quoted))
                watched.server.query(f"CREATE TABLE {quoted}.{quoted} (id INT PRIMARY KEY) {encrypted}")
        exporter.start().serving()
        exporter.until_all(
            BOTH, lambda page, name: page.total("tde_objects", target=name) > len(ABSURD), "the inventory"
        )
        exporter.until_all(BOTH, runs, "runs")
        strict(exporter)
        page = exporter.get("/").text
        assert "<script>alert" not in page
        # One target, one line of the log, whatever it is called.
        assert all(line.startswith("ts=") for line in exporter.log.read_text().splitlines())
    finally:
        for watched, quoted in made:
            watched.server.query(f"DROP DATABASE {quoted}")


ODD_COLUMNS = (
    "MODIFY name VARCHAR(200) NULL, MODIFY pad VARBINARY(4000) NULL",
    "MODIFY area DOUBLE NULL",
    "MODIFY area DECIMAL(65,30) NULL",
)


def test_rows_of_the_twins_that_are_null_or_of_another_type(everywhere, daemon):
    """Somebody changed a twin under our hands: its answers differ from its twin's, or are of a type that nobody expects."""
    exporter = daemon(settings(HEALTHY, *(watched.target() for watched in everywhere)))
    try:
        exporter.start().serving()
        exporter.until_all(BOTH, runs, "runs")
        for change in ODD_COLUMNS:
            for watched in everywhere:
                watched.server.query(f"ALTER TABLE {SCHEMA}.main_plain {change}")
        for watched in everywhere:
            watched.server.query(f"UPDATE {SCHEMA}.main_plain SET name = NULL, pad = NULL, area = NULL")
        exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 0, "invalid pairs")
        assert_rhythm(exporter, "healthy", rounds=2)
        strict(exporter)
        assert "unexpected error" not in exporter.log.read_text()
    finally:
        for watched in everywhere:
            assert watched.drop().returncode == 0
            made = watched.provision()
            assert made.returncode == 0, made.stderr
    exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs again")


@pytest.mark.long
@pytest.mark.timeout(400)
def test_bytes_that_change_on_their_way(everywhere, daemon, make_proxy, scraped):
    proxies = [make_proxy(watched.server.address) for watched in everywhere]
    targets = [watched.target(proxy.address) for watched, proxy in zip(everywhere, proxies, strict=True)]
    exporter = daemon(settings(HEALTHY, *targets)).start().serving()
    exporter.until_all(BOTH, runs, "runs")
    with scraped(exporter) as scraper:
        for seed in itertools.count():
            for proxy in proxies:
                proxy.garble(seed)
            if seed == 2:
                break
            assert_rhythm(exporter, "healthy", rounds=3)
            strict(exporter)
        exporter.until_all(BOTH, failed, "what is garbled to fail")
        for proxy in proxies:
            proxy.go_on()
        # A login that was garbled is a refused one, and its secret is not tried again until it changes.
        for watched in everywhere:
            watched.change_password("another-one")
            watched.secret.write_text("another-one")
        # Half a packet may be waited for until its deadline, and what looked like a refused server rests for a while.
        exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up", patience=170)
        before = {name: runs(exporter, name) for name in BOTH}
        exporter.until_all(BOTH, lambda page, name: runs(page, name) > before[name], "both to be measured")
    assert scraper.problems == []
    assert exporter.total("tde_exporter_probe_process_starts_total") == 1


def failed(page, name):
    return page.total("tde_canary_run_failures_total", target=name) + page.total(
        "tde_target_connection_errors_total", target=name
    )


def test_a_defect_in_an_engine_is_told_and_costs_what_it_concerns(daemon):
    """An error that nobody foresaw, at every call: it is a failure like any other, and not a line of the log each second."""
    calls = ("open", "verify", "run", "encryption_state", "activity")
    broken = [
        HEALTHY | {"name": call.replace("_", "-"), "faults": [{"kind": "defect", "call": call}]} for call in calls
    ]
    broken = [target | {"intervals": QUICK} for target in broken]
    names = [target["name"] for target in broken]
    begun = time.monotonic()
    exporter = daemon(settings(HEALTHY, *broken)).start().ready()
    exporter.until_all(names, lambda page, name: 0 in collectors(page, name).values(), "each to fail at something")
    exporter.until(
        lambda: collectors(exporter.page(), "activity") == {"canary": 1, "encryption_state": 1, "activity": 0},
        "what works beside what fails",
    )
    exporter.until_said("unexpected error (ZeroDivisionError)", times=len(names))
    assert_rhythm(exporter, "healthy", rounds=5)
    page = exporter.page()
    assert page.value(UP, target="open") == 0
    assert page.value(UP, target="activity") == 1
    strict(exporter)
    # Once a minute of each; there are runs each second.
    tracebacks, minutes = exporter.log.read_text().count("unexpected error in a lane"), (time.monotonic() - begun) / 60
    assert len(names) <= tracebacks <= 4 * len(names) * (1 + minutes)
    assert exporter.stop() < ENDS_WITHIN


def collectors(page, name):
    return {
        dict(labels)["collector"]: value
        for (metric, labels), value in page.samples.items()
        if metric == "tde_exporter_collector_success" and ("target", name) in labels
    }
