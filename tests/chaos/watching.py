"""Looks at everything that the daemon says and keeps, all the while, and notes each thing that cannot be true."""

from __future__ import annotations

import threading
import time

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

from tests.chaos.scraper import Scraper
from tests.chaos.world import DEAD, EMBEDDED, LIVING, SCRIPTED, SHOP, World

PERIOD = 0.2
SLOW = 0.1
"""Seconds; what took longer is told among the faults."""
EXPIRED_AFTER, PAUSE = 3.0 + 1.0, 5.0
"""Seconds after which a target that is down has no gauges: two intervals, 3 s at least, and one in which it was not known yet;
and the longest pause between two pages, on a machine that is not as busy as to make it longer."""
CALM = 90.0
"""Seconds after the last harm until everything is as before, with room for a busy machine."""
OLDEST_PAGE = 60.0
STILL_TRUE = {
    "tde_target_up",
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
"""Gauges that say what is known without the server. Times stay too."""
LATCHED = {"tde_overhead_breach"}
"""What is said of a target while its probe process is down, beside counters and times."""
SHARES = {"0": (EMBEDDED, SCRIPTED), "1": (SHOP, DEAD)}
"""Which probe process has which targets."""

Key = tuple[str, frozenset[tuple[str, str]]]


class Page:
    """One scrape, taken apart; raises ValueError where it is not OpenMetrics."""

    def __init__(self, text: str) -> None:
        self.families: list[Metric] = list(parsed(text))
        self.values: dict[Key, float] = {}
        self.counters: dict[Key, float] = {}
        self.gauges: dict[str, set[str]] = {}
        for family in self.families:
            counts = family.type in ("counter", "histogram")
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                self.values[key] = sample.value
                if counts and not sample.name.endswith("_created"):
                    self.counters[key] = sample.value
                if family.type == "gauge" and "target" in sample.labels:
                    self.gauges.setdefault(sample.labels["target"], set()).add(sample.name)

    def all(self, name: str, **labels: str) -> list[float]:
        wanted = set(labels.items())
        return [value for (sample, have), value in self.values.items() if sample == name and wanted <= have]

    def one(self, name: str, **labels: str) -> float | None:
        found = self.all(name, **labels)
        return found[0] if found else None

    def up(self, target: str) -> float | None:
        return self.one("tde_target_up", target=target)

    def perishable(self, target: str) -> set[str]:
        """Its gauges that must not outlive what they are about."""
        return {name for name in self.gauges.get(target, ()) if not name.endswith("_timestamp_seconds")}


class Watcher:
    """Scrapes five times a second, and reads the history."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scraper = Scraper()
        self._problems: dict[str, tuple[str, int]] = {}
        self.pages = self.losses = 0
        self.longest_loss = self.oldest_page = 0.0
        self.scrapes: list[float] = []
        """Seconds that each took."""
        self.page: Page | None = None
        self._generation = 0
        self._before: Page | None = None
        self._changed = 0.0
        self._down_since: dict[str, float] = {}
        self._samples: dict[int, list[tuple[float, float]]] = {}
        self._kept: dict[str, int] = {}
        self._kept_first: dict[int, int] = {}
        self._judged: set[int] = set()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._scrape, self._read)]

    def __enter__(self) -> Watcher:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._scraper.close()

    @property
    def problems(self) -> list[str]:
        """Each once, with the time when it was seen first, and how often."""
        return [f"{first}: {words} ({times} ×)" for words, (first, times) in self._problems.items()]

    @property
    def usual_scrape(self) -> float:
        """The seconds within which nineteen of twenty scrapes were answered."""
        return sorted(self.scrapes)[len(self.scrapes) * 19 // 20]

    def note(self, words: str) -> None:
        now = f"{time.strftime('%H:%M:%S')}, daemon {self._world.generation}"
        first, times = self._problems.get(words, (now, 0))
        self._problems[words] = first, times + 1

    def cut_unseen(self) -> str:
        """What the newest page says of a server that is cut off and should not; empty when all is well."""
        page = self.page
        if page is None or page.up(SHOP) == 1.0:
            return "it is said to be up"
        left = page.perishable(SHOP) - STILL_TRUE
        return f"it has {sorted(left)}" if left else ""

    # -- the page -------------------------------------------------------------------------------

    def _scrape(self) -> None:
        while not self._stop.wait(PERIOD):
            world = self._world
            touched, generation, serving, cut = world.touched, world.generation, world.serving, world.seen_cut
            took, words, text = self._scraper.scrape(world.daemon.port)
            ended = time.monotonic()
            with world.lock:
                if world.touched != touched or world.generation != generation or world.frozen:
                    self._changed = time.monotonic()
                    continue
            if words:
                if serving:
                    self.note(f"a scrape failed though nothing was done to the daemon: {words}")
                continue
            self.scrapes.append(took)
            if took > SLOW:
                since = ended - world.last_harm
                print(f"{time.strftime('%H:%M:%S')} a scrape took {took:.3f} s, {since:.1f} s after the last harm")
            self._judge(text, generation, ended, cut and world.seen_cut)

    def _judge(self, text: str, generation: int, now: float, cut: bool) -> None:
        try:
            page = Page(text)
        except ValueError as error:
            self.note(f"the page is no OpenMetrics: {error}")
            return
        self.pages += 1
        before = self._before if generation == self._generation else None
        if before is None:
            self._down_since.clear()
        self._judge_age(page, before, now)
        if before is not None:
            self._judge_counters(before, page)
        self._judge_targets(page, now, cut)
        if page.one("tde_overhead_breach", target=SCRIPTED, percentile="50", threshold="1.2", reference="plain") != 1.0:
            self.note("the latched breach is gone")
        if any(page.all("tde_canary_decrypts_total", variant="plain")):
            self.note("a plain twin was decrypted")
        samples = page.one("tde_overhead_samples", target=SCRIPTED, variant="plain", window="1h")
        if samples is not None:
            self._samples.setdefault(generation, []).append((now, samples))
        self._generation, self._before, self.page = generation, page, page

    def _judge_age(self, page: Page, before: Page | None, now: float) -> None:
        took = "tde_exporter_page_render_seconds"
        if before is None or page.one(took) != before.one(took):
            self._changed = now
        self.oldest_page = max(self.oldest_page, now - self._changed)
        if now - self._changed > OLDEST_PAGE:
            self.note(f"the page is more than {OLDEST_PAGE:g} s old")

    def _judge_counters(self, before: Page, page: Page) -> None:
        for key, value in before.counters.items():
            if key[0].startswith("tde_instance_"):
                continue  # as the server tells it
            now = page.counters.get(key)
            if now is None:
                self.note(f"the counter {key[0]}{dict(key[1])} is gone")
            elif now < value:
                self.note(f"the counter {key[0]}{dict(key[1])} fell from {value:g} to {now:g}")

    def _judge_targets(self, page: Page, now: float, cut: bool) -> None:
        for process, targets in SHARES.items():
            alive = page.one("tde_exporter_probe_process_up", process=process)
            for target in targets:
                up = page.up(target)
                if up is not None and alive != 1.0:
                    self.note(f"{target} is up: {up}, while its probe process is {alive}")
                if alive != 1.0 and (left := page.perishable(target) - LATCHED):
                    self.note(f"its probe process is down, but {target} has {sorted(left)}")
                self._judge_gone(page, target, up, now)
        if page.up(DEAD) == 1.0:
            self.note("the dead target is up")
        if cut and page.up(SHOP) == 1.0:
            self.note("the server that is cut off is up")
        calm = now - self._world.last_harm > CALM and not (self._world.full or self._world.seen_cut)
        if calm and (down := self.down(page)):
            self.note(f"{CALM:g} s after the last harm these are not up: {down}")

    def _judge_gone(self, page: Page, target: str, up: float | None, now: float) -> None:
        if up != 0.0:
            self._down_since.pop(target, None)
            return
        since = self._down_since.setdefault(target, now)
        # The oldest page tells how long the machine kept it from making another one.
        limit = EXPIRED_AFTER + max(PAUSE, self.oldest_page)
        if now - since > limit and (left := page.perishable(target) - STILL_TRUE):
            self.note(f"{target} is down for more than {limit:.0f} s, but has {sorted(left)}")

    @staticmethod
    def down(page: Page) -> list[str]:
        return [target for target in LIVING if page.up(target) != 1.0]

    # -- the history ----------------------------------------------------------------------------

    def _read(self) -> None:
        while not self._stop.wait(0.5):
            # Only beside a daemon that has it open: whoever opens it last cleans up, and that is not ours to do.
            generation = self._world.generation
            if self._world.serving and (kept := self._world.history.samples()):
                self._judge_history(generation, kept)

    def _judge_history(self, generation: int, kept: dict[str, int]) -> None:
        for target, samples in self._kept.items():
            if kept.get(target, 0) < samples:
                self.note(f"the history had {samples} samples of {target}, and has {kept.get(target, 0)}")
        self._kept = kept
        if generation not in self._kept_first:
            self._kept_first[generation] = kept.get(SCRIPTED, 0)
            self._judge_losses(generation)

    def _judge_losses(self, generation: int) -> None:
        """Of each daemon that ended before: how old the last sample is that is still there."""
        for ended, at in list(self._world.killed):
            pages = self._samples.get(ended, [])
            if ended in self._judged or ended >= generation or ended not in self._kept_first or len(pages) < 2:
                continue
            self._judged.add(ended)
            self.losses += 1
            saved = self._kept_first[generation] - self._kept_first[ended]
            # Its first page came before its first tick, and told what it took over.
            kept = max(moment for moment, samples in pages if samples - pages[0][1] <= saved)
            self.longest_loss = max(self.longest_loss, at - kept)
