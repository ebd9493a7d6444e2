"""Everything that can go wrong, at random moments: no lie on the page, nothing lost but seconds, all well without hands."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from benchmarks.figures import note
from tests.chaos.faults import Faults
from tests.chaos.watching import Page, Watcher
from tests.chaos.world import LIVING, World
from tests.watched import Watched

LONGEST_SCRAPE, LONGEST_STOP, LONGEST_LOSS = 0.5, 5.0, 10.0
"""Seconds that are promised; what is a matter of speed is asserted with fivefold room, and the figures are noted."""
RECOVERED_WITHIN = 180.0


@pytest.fixture
def world(make_mariadb, make_proxy, libfaketime, tmp_path) -> Iterator[World]:
    """Four targets, one of them over budget since long ago."""
    server = make_mariadb("11.8", buffer_pool_mb=6)
    watched = Watched(server, tmp_path)
    made = watched.provision()
    assert made.returncode == 0, made.stderr
    world = World(tmp_path, watched, make_proxy(server.address), libfaketime)
    try:
        yield world
    finally:
        world.close()


@pytest.mark.timeout(600)
def test_a_minute_of_chaos(world):
    """Each fault once, in any order."""
    survive(world, at_least=0.0, suite="chaos, each fault once")


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_ten_minutes_of_chaos(world):
    survive(world, at_least=600.0, suite="chaos, ten minutes")


def survive(world: World, at_least: float, suite: str) -> None:
    """Faults for so many seconds, each kind at least once, then calm; TDE_TEST_SEED repeats the choices of a run."""
    seed = int(os.environ.get("TDE_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"TDE_TEST_SEED={seed}")
    load, rng = os.getloadavg()[0], random.Random(seed)
    with Watcher(world) as watcher:
        world.start()
        world.await_page()
        recovered(world, watcher, "the start")
        faults = Faults(world, rng, watcher.cut_unseen)
        hit(faults, rng, time.monotonic() + at_least)
        world.step_clock("+0")
        begun = time.monotonic()
        recovered(world, watcher, "the last fault")
        recovery = time.monotonic() - begun
        world.terminate()
    words = "\n".join((f"TDE_TEST_SEED={seed}, done: {faults.done}", *watcher.problems, world.daemon.words()))
    assert watcher.problems == [], words
    assert watcher.pages > 20, words
    assert watcher.usual_scrape < LONGEST_SCRAPE * 5, words
    assert world.longest_stop < LONGEST_STOP * 5, words
    assert watcher.longest_loss < LONGEST_LOSS * 5, words
    note(
        suite,
        load,
        seed=seed,
        **{"faults injected and survived": sum(faults.done.values()), "of which": faults.done},
        **{"pages checked": watcher.pages, "lies": len(watcher.problems)},
        **{"longest scrape (s)": max(watcher.scrapes), "oldest page (s)": watcher.oldest_page},
        **{"longest stop (s)": world.longest_stop, "history lost, at most (s)": watcher.longest_loss},
        **{"ends of daemons that this is from": watcher.losses},
        **{"all well again after (s)": recovery},
    )


def hit(faults: Faults, rng: random.Random, until: float) -> None:
    kinds = [*faults.short, *faults.lasting]
    # The last one first: what cannot be saved for a while says nothing about what a kill loses.
    deck = ["disk full", *(name for name in rng.sample(kinds, len(kinds)) if name != "disk full")]
    while deck or time.monotonic() < until:
        # Now and then long enough for something to be saved in between.
        time.sleep(rng.uniform(0.0, 1.5) if deck or rng.random() < 0.7 else rng.uniform(5.0, 15.0))
        name = deck.pop() if deck else rng.choice(kinds)
        inner = ""
        if name in faults.lasting and rng.random() < 0.4:
            inner = rng.choice(list(faults.short))
        faults.strike(name, inner)


def recovered(world: World, watcher: Watcher, what: str) -> None:
    """Wait until all targets are up, and measured again, with no hand but that of a service manager."""
    begun, first = time.monotonic(), None
    while True:
        page = watcher.page
        if page is not None and not watcher.down(page):
            runs = {target: measured(page, target) for target in LIVING}
            first = first or runs
            if all(runs[target] > first[target] for target in LIVING):
                return
        waited = time.monotonic() - begun
        state = None if page is None else {target: page.up(target) for target in LIVING}
        assert waited < RECOVERED_WITHIN, (
            f"{waited:.0f} s after {what} not all is well: {state}\n{world.daemon.words()}"
        )
        time.sleep(0.1)


def measured(page: Page, target: str) -> float:
    runs, failures = (sum(page.all(f"tde_canary_{name}_total", target=target)) for name in ("runs", "run_failures"))
    return float(runs - failures)
