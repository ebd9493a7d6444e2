"""T10 and T11 on the page: no lag is invented, and no two samples are one, with several channels and targets on one server.

dd-agent#425, orchestrator#1072, mysqld_exporter#471 #600 #143 #604, proxysql#3579, telegraf#6395, oracledb_exporter#211,
postgres_exporter#327 #706 #998, oracle-db-appdev-monitoring#415
"""

import contextlib
from collections import Counter

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from tests.servers.mariadb import MariaDbServer
from tests.watched import QUICK, Watched, settings

KINDS = ("transport", "apply", "heartbeat")
OFTEN = {**QUICK, "heartbeat": "200ms", "standby": "500ms"}
PAIRS = [{"name": "main", "rows": 1000}]


class Replicated(Watched):
    """A primary, as the exporter sees it, with its replica."""

    def __init__(self, primary, replica, folder):
        self.replica = replica
        super().__init__(primary, folder, user="replicated")


@pytest.fixture
def watched(request, kind, tmp_path):
    """Twins that are replicated."""
    primary, replica = request.getfixturevalue(f"{kind}_pair")
    made = Replicated(primary, replica, tmp_path)
    try:
        done = made.provision(pairs=PAIRS)
        assert done.returncode == 0, done.stderr
        replica.wait_for(primary)
        yield made
        done = made.drop(pairs=PAIRS)
        assert done.returncode == 0, done.stderr
    finally:
        made.remove()
        replica.wait_for(primary)


def target(watched, **more):
    standby = {"name": "east", "host": watched.replica.host, "port": watched.replica.port}
    return watched.target(**{"pairs": PAIRS, "standbys": [standby], "intervals": OFTEN, **more})


@contextlib.contextmanager
def second_channel(watched, proxy):
    """The replica has another channel, whose source cannot be reached."""
    replica = watched.replica
    replica.replica_of(watched.server, channel="west", via=proxy)
    try:
        yield
    finally:
        if isinstance(replica, MariaDbServer):
            replica.query("STOP SLAVE 'west'")
            replica.query("RESET SLAVE 'west' ALL")
        else:
            replica.query("STOP REPLICA FOR CHANNEL 'west'")
            replica.query("RESET REPLICA ALL FOR CHANNEL 'west'")


def lags(exporter, target=None, channel=""):
    """Known lags of a channel by kind; those that are said to be known and those that have a value are the same."""
    page = exporter.samples()

    def by_kind(name):
        return {
            labels["kind"]: value
            for labels, value in ((dict(have), value) for (found, have), value in page.items() if found == name)
            if labels.get("channel", "") == channel and target in (None, labels["target"])
        }

    known, values = by_kind("tde_standby_lag_known"), by_kind("tde_standby_lag_seconds")
    assert {kind for kind, value in known.items() if value == 1} == set(values)
    assert all(value >= 0 for value in values.values())
    return values


def assert_sound(exporter):
    """Every sample is there once, and every family, in both formats."""
    for accept, parse in (("text/plain", plain_text), ("application/openmetrics-text; version=1.0.0", openmetrics)):
        text = exporter.get("/metrics", headers={"Accept": accept}).text
        families = list(parse(text))
        assert len(families) > 50
        keys = Counter(
            (sample.name, frozenset(sample.labels.items())) for family in families for sample in family.samples
        )
        assert [key for key, times in keys.items() if times > 1] == []
        types = Counter(line.split()[2] for line in text.splitlines() if line.startswith("# TYPE "))
        assert [name for name, times in types.items() if times > 1] == []


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_two_channels_and_two_targets_on_one_server(watched, make_proxy, daemon):
    proxy = make_proxy(watched.server.address)
    proxy.refuse()
    with second_channel(watched, proxy):
        # Both targets have a standby of the same name, which is the same replica.
        exporter = daemon(settings(target(watched, name="one"), target(watched, name="two"))).start().serving()
        # One of them writes the heartbeat; to the other one it is another exporter's.
        exporter.until(lambda: max(len(lags(exporter, name)) for name in ("one", "two")) == 3, "all lags")
        exporter.until(lambda: all("heartbeat" in lags(exporter, name) for name in ("one", "two")), "heartbeat lags")
        for name in ("one", "two"):
            of_west = {"target": name, "channel": "west"}
            exporter.until(
                lambda of_west=of_west: exporter.value("tde_standby_transport_running", **of_west) == 0,
                "west of " + name,
            )
            page = exporter.page()
            assert [page.value("tde_standby_lag_known", kind=kind, **of_west) for kind in KINDS] == [0.0] * 3
            assert lags(exporter, name, "west") == {}
            exporter.until(
                lambda name=name: exporter.total("tde_canary_runs_total", target=name), f"{name} to be measured"
            )
        assert_sound(exporter)


@pytest.mark.parametrize("kind", ["mariadb", pytest.param("mysql", marks=pytest.mark.long)])
def test_a_stopped_applier_shows_as_lag_and_a_stopped_receiver_too(watched, daemon):
    exporter = daemon(settings(target(watched))).start().serving()
    noun = "SLAVE" if isinstance(watched.replica, MariaDbServer) else "REPLICA"

    def in_step():
        found = lags(exporter)
        return set(found) == set(KINDS) and max(found.values()) < 1.5

    exporter.until(in_step, "a replica in step")
    for thread, kind, running in (
        ("SQL_THREAD", "apply", "tde_standby_apply_running"),
        ("IO_THREAD", "transport", "tde_standby_transport_running"),
    ):
        watched.replica.query(f"STOP {noun} {thread}")
        try:
            exporter.until(lambda running=running: exporter.value(running) == 0, "the stop to be seen")
            exporter.until(lambda kind=kind: lags(exporter).get(kind, 0.0) > 2.0, f"the {kind} lag to grow")
            exporter.until(lambda: lags(exporter).get("heartbeat", 0.0) > 1.0, "that of the heartbeat as well")
            page = exporter.page()
            assert page.value(running) == 0
            assert page.value("tde_standby_configured") == 1
            assert page.value("tde_target_up") == 1
        finally:
            watched.replica.query(f"START {noun} {thread}")
        exporter.until(lambda running=running: exporter.value(running) == 1 and in_step(), "a replica in step again")


@pytest.mark.parametrize("kind", [pytest.param("mariadb", marks=pytest.mark.long), "mysql"])
def test_a_second_exporter_is_blocked_in_words_and_takes_over_when_the_first_ends(watched, daemon):
    def beaten():
        return watched.server.value("SELECT seq FROM tde_canary.heartbeat")

    first = daemon(settings(target(watched))).start().serving()
    first.until(lambda: set(lags(first)) == set(KINDS), "all lags")
    second = daemon(settings(target(watched))).start().serving()
    second.until_said("another exporter")
    # It measures all the same, and sees what the first one writes.
    second.until(lambda: second.total("tde_canary_runs_total") and "heartbeat" in lags(second), "the rest of it")
    second.until(lambda: second.value("tde_pair_valid") == 1, "valid twins")
    assert second.value("tde_exporter_collector_success", collector="heartbeat") == 0
    assert second.value("tde_target_up") == 1
    before = beaten()
    first.until(lambda: beaten() > before + 5, "further beats of the first one")
    first.until(lambda: first.value("tde_exporter_collector_success", collector="heartbeat") == 1, "it to go on")
    first.until(lambda: set(lags(first)) == set(KINDS) and max(lags(first).values()) < 5.0, "lags as before")

    first.stop()
    second.until(lambda: second.value("tde_exporter_collector_success", collector="heartbeat") == 1, "it to take over")
    second.until(lambda: set(lags(second)) == set(KINDS), "all lags")
    assert beaten() > before
