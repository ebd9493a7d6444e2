"""T9: a reload takes what is new, keeps what is kept, forgets what is gone, and leaves nothing behind.

burningalchemist/sql_exporter#970 #972 (crash when a scrape meets a reload), #927 #928 (memory grows with reloads),
#297 (no effect, an empty reply)
"""

import contextlib
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import yaml

from tests.watched import PATIENT, QUICK, Count

SUCCESSFUL = "tde_exporter_config_last_reload_successful"
AT = "last_reload_success_timestamp_seconds"
RUNS = "tde_canary_runs_total"
UP = "tde_target_up"
MARKER = "S3CR3T-5f0e9d"
BAD = ("Traceback", "level=error", "level=critical")
KEPT = ("embedded", "mariadb", "steady")
BUDGETS = {"time_share_ratio": 1.0}


def scripted(name, **more):
    return {
        "name": name,
        "engine": "fake",
        "real_time": False,
        "intervals": QUICK,
        "budgets": BUDGETS,
        "operations": ["point_select"],
        **more,
    }


def embedded(name):
    return {
        "name": name,
        "engine": "sqlite",
        "pairs": [{"name": "main", "rows": 5000}],
        "operations": ["point_select"],
        "intervals": QUICK,
        "budgets": BUDGETS,
    }


class Reloading:
    """A daemon whose configuration is written anew again and again."""

    def __init__(self, daemon, *targets, processes=2):
        self._common = {
            "operations": PATIENT,
            "probes": {"processes": processes},
            "log": {"level": "info"},
        }
        self.exporter = daemon({"targets": list(targets), **self._common})
        self._file = self.exporter.directory / "config.yaml"
        self._client = httpx.Client(timeout=60.0, limits=httpx.Limits(max_keepalive_connections=0))

    def write(self, *targets, **more):
        self.written({"targets": list(targets), **self._common, **more})

    def written(self, content):
        # As editors and orchestrators do it: nobody reads half a file.
        new = self._file.with_suffix(".new")
        new.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        new.rename(self._file)

    def ask(self):
        return self._client.post(f"{self.exporter.url}/-/reload")

    def take_up(self, *targets, **more):
        self.write(*targets, **more)
        answer = self.ask()
        assert answer.status_code == 200, answer.text

    def signal(self, *targets):
        self.write(*targets)
        self.exporter.process.send_signal(signal.SIGHUP)

    def shows(self, *names):
        """Wait for a page with these targets and no others."""
        self.exporter.until(lambda: targets_of(self.exporter.page()) == set(names), f"the targets {names}")

    def measured(self, *names):
        self.exporter.until_all(names, lambda page, name: page.value(UP, target=name) == 1, f"{names} to be up")


def targets_of(page):
    return {value for _, labels in page.samples for label, value in labels if label == "target"}


def counters(page, *names):
    """The counters of some targets."""
    return {
        sample: value
        for sample, value in page.samples.items()
        if sample[0].endswith("_total") and any((("target", name) in sample[1]) for name in names)
    }


class Held:
    """What a daemon and its probe processes hold of the system."""

    def __init__(self, exporter):
        pids = [exporter.process.pid, *exporter.children()]
        self.processes = len(pids)
        self.threads = sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids)
        self.files = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        self.megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def held_while_all_are_measured(exporter):
    """What is held at many moments, for a query or a scrape has a thread and a file only while it lasts."""
    seen, page = [], exporter.page()

    def again(page_now, name):
        seen.append(Held(exporter))
        return page_now.total(RUNS, target=name) >= page.total(RUNS, target=name) + 30

    exporter.until_all(KEPT, again, "three rounds")
    return seen


def others(number):
    """Now one more target, now another, now none; one of them changes each time, and one is a database."""
    found = [scripted("changing", seed=number + 1)] if number % 5 else []
    found += [scripted(f"guest-{number % 3}")] if number % 2 else []
    return found + ([embedded("visitor")] if number % 10 >= 5 else [])


def test_two_hundred_reloads_under_load(everywhere, daemon, scraped):
    """Targets come, change and go while somebody scrapes all the while; the sessions of who stays are never closed, its
    counters never fall, and in the end the daemon holds what it held before."""
    mariadb = everywhere[0]
    kept = (embedded("embedded"), mariadb.target(budgets=BUDGETS), scripted("steady"))
    reloading = Reloading(daemon, *kept)
    exporter = reloading.exporter.start().serving()
    reloading.measured(*KEPT)
    reloading.exporter.until(lambda: exporter.total(RUNS, target="mariadb"), "the first canaries")
    sessions, before = set(mariadb.session_ids()), counters(exporter.page(), *KEPT)
    with scraped(exporter) as scraper:
        for number in range(200):
            if number % 4 == 3:
                reloading.signal(*kept, *others(number))
            else:
                reloading.take_up(*kept, *others(number))
            if number == 20:
                reloading.take_up(*kept)
                reloading.shows(*KEPT)
                exporter.until(lambda: Held(exporter).processes == 3, "the end of what is not needed")
                at_first = held_while_all_are_measured(exporter)
            if number % 20 == 19:
                now = counters(exporter.page(), *KEPT)
                assert [sample for sample, value in before.items() if not now[sample] >= value] == []
                before = now
        reloading.take_up(*kept)
        reloading.shows(*KEPT)
    assert scraper.problems == []
    assert scraper.pages > 50
    assert set(mariadb.session_ids()) == sessions
    # Lanes close their sessions, and connections of the last scrapes their sockets, a moment later.
    exporter.until(lambda: Held(exporter).threads <= max(one.threads for one in at_first), "threads to end")
    exporter.until(lambda: Held(exporter).files <= max(one.files for one in at_first), "files to be closed")
    assert Held(exporter).megabytes - max(one.megabytes for one in at_first) < 25
    before = counters(exporter.page(), *KEPT)
    reloading.measured(*KEPT)
    exporter.until_all(
        KEPT, lambda page, name: page.total(RUNS, target=name) > total(before, RUNS, name), "all to be measured"
    )
    assert exporter.value("tde_exporter_lanes_abandoned_total") == 0
    assert exporter.total("tde_exporter_probe_process_starts_total") == 2
    assert not any(word in exporter.log.read_text() for word in BAD)


def total(found, name, target):
    return sum(value for sample, value in found.items() if sample[0] == name and ("target", target) in sample[1])


def test_a_configuration_that_cannot_be_used_changes_nothing_and_shows_no_secret(daemon):
    reloading = Reloading(daemon, scripted("a"), scripted("b"))
    exporter = reloading.exporter.start().serving()
    reloading.measured("a", "b")
    config_hash, at = (exporter.value(f"tde_exporter_config_{name}") for name in ("hash", AT))
    bad = {"name": "c", "engine": "mariadb", "host": "db", "user": "u", "password": MARKER}
    for content, reason in (
        (f"targets: [{MARKER}", "config.yaml"),
        ("targets: []\n", "targets"),
        ({"targets": [bad]}, "password"),
        ({"targets": [scripted("a", password=MARKER)]}, "unknown key"),
        ({"targets": [scripted("a", operations=["lob_read", "no_such"])]}, "operations"),
        ({"targets": [scripted("a")], "probes": {"processes": 5}}, "probes.processes"),
        (
            {"targets": [scripted("a")], "web": {"header_timeout": "9s", "listen_address": "127.0.0.2"}},
            "header_timeout",
        ),
    ):
        before = counters(exporter.page(), "a", "b")
        reloading.written(content)
        answer = reloading.ask()
        assert answer.status_code == 500
        assert reason in answer.text
        assert MARKER not in answer.text
        exporter.until(lambda: exporter.value(SUCCESSFUL) == 0, "the refusal on the page")
        exporter.until_all(
            "ab", lambda page, name, old=before: page.total(RUNS, target=name) > total(old, RUNS, name), "measurements"
        )
    assert exporter.value("tde_exporter_config_hash") == config_hash
    assert exporter.value(f"tde_exporter_config_{AT}") == at
    assert MARKER not in exporter.log.read_text() + exporter.page().text + exporter.get("/").text
    exporter.until(lambda: exporter.log.read_text().count("the configuration stays as it was") >= 7, "its words")
    assert exporter.log.read_text().count("the configuration stays as it was") == 7

    reloading.take_up(scripted("a"))
    reloading.shows("a")
    exporter.until(lambda: exporter.value(SUCCESSFUL) == 1, "the success on the page")
    assert exporter.value("tde_exporter_config_hash") != config_hash
    assert exporter.value(f"tde_exporter_config_{AT}") > at


def test_a_probe_process_that_is_killed_in_the_middle(daemon):
    """Whatever it had read of the reload, its successor has the targets of the newest configuration."""
    reloading = Reloading(daemon, *(scripted(name) for name in "abcd"))
    exporter = reloading.exporter.start().serving()
    reloading.measured(*"abcd")
    for number in range(12):
        names = ["a", *(name for position, name in enumerate("bcdef") if (number + position) % 3)]
        reloading.write(*(scripted(name, seed=number // 2 + 1) for name in names))
        exporter.process.send_signal(signal.SIGHUP)
        if number % 3 == 0:
            for child in exporter.children()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        assert reloading.ask().status_code == 200
    reloading.shows(*names)
    reloading.measured(*names)
    assert "Traceback" not in exporter.log.read_text()


def test_databases_that_change_are_never_probed_twice_at_once(everywhere, daemon):
    """Each change is another session; the one before is closed first, and a lock on the twins is free by then."""
    mariadb, cap = everywhere[0], 3
    budgets = {"sessions": cap, **BUDGETS}

    def targets(number):
        quick = {**QUICK, "encryption_state": f"{number + 1}s"}
        return mariadb.target(budgets=budgets, intervals=quick), embedded("embedded") | {"intervals": quick}

    reloading = Reloading(daemon, *targets(0), processes=1)
    exporter = reloading.exporter.start().serving()
    reloading.measured("mariadb", "embedded")
    with Count({"mariadb": mariadb.server.port}) as count:
        for number in range(1, 6):
            sessions, before = set(mariadb.session_ids()), counters(exporter.page(), "mariadb", "embedded")
            reloading.take_up(*targets(number))
            exporter.until(lambda old=sessions: not old & set(mariadb.session_ids()), "the end of the old sessions")
            exporter.until_all(
                ("mariadb", "embedded"),
                lambda page, name, old=before: page.total(RUNS, target=name) > total(old, RUNS, name),
                "both to be measured",
            )
        assert exporter.total("tde_target_connection_errors_total") == 0
        reloading.take_up(scripted("steady"))
        exporter.until(lambda: not mariadb.session_ids(), "the end of all sessions")
    assert 0 < count.most["mariadb"] <= cap
    reloading.shows("steady")
    assert exporter.value("tde_exporter_lanes_abandoned_total") == 0
    assert not any(word in exporter.log.read_text() for word in (*BAD, "blocked", "in use", "lock"))


def test_a_storm_of_signals_is_a_few_reloads(daemon):
    reloading = Reloading(daemon, scripted("a"))
    exporter = reloading.exporter.start().serving()
    reloading.write(scripted("a"), scripted("b"))
    for _ in range(3000):
        exporter.process.send_signal(signal.SIGHUP)
    reloading.write(scripted("a"), scripted("c"))
    exporter.process.send_signal(signal.SIGHUP)
    reloading.shows("a", "c")
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: reloading.ask(), range(60)))
    assert {answer.status_code for answer in answers} == {200}
    assert exporter.log.read_text().count("the configuration was taken up") < 1000
    exporter.stop()


def test_what_was_measured_of_a_changed_target_goes_on_and_a_removed_one_comes_back_with_its_history(daemon):
    reloading = Reloading(daemon, scripted("a"), scripted("b"))
    exporter = reloading.exporter.start().serving()
    samples = "tde_overhead_samples"

    def measured(name, runs):
        exporter.until(
            lambda: exporter.total(RUNS, target=name) > runs and (exporter.total(samples, target=name, window="1h")),
            "measurements",
        )

    measured("a", 60)
    measured("b", 60)
    runs, window = (exporter.total(name, target="a") for name in (RUNS, samples))
    reloading.take_up(scripted("a", budgets={"sessions": 8, **BUDGETS}))
    reloading.shows("a")
    measured("a", runs)
    exporter.until(lambda: exporter.total(samples, target="a") >= window, "the window, with what was in it")

    # Other data in its twins: a new epoch, which is never mixed with the one before; the counters go on.
    reloading.take_up(scripted("a", seed=7), scripted("b"))
    exporter.until(lambda: exporter.total(samples, target="a") < window, "the new epoch")
    assert exporter.total(RUNS, target="a") >= runs

    def known_before(page):
        return 0 < page.total(RUNS, target="b") < page.total(samples, target="b", window="1h")

    exporter.until(lambda: known_before(exporter.page()), "b to be measured again, with what was known of it")


def test_without_a_file_the_signal_ends_it_as_a_terminal_does_that_is_closed(daemon):
    exporter = daemon().start().serving()
    exporter.process.send_signal(signal.SIGHUP)
    assert exporter.process.wait(100) == 0
    assert "Traceback" not in exporter.log.read_text()
