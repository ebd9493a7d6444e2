"""Days of simulated measurements go through the exporter's statistics and the alert rules: who is called, and when?

The worlds are those of the benchmarks: drifts, neighbours, evictions and restarts that make naive rules fire every day.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks import worlds
from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Operation, Sample, Tick, Variant, Work
from exporter.overhead.evidence import Name, for_bursts
from exporter.overhead.series import Judgement, Series
from tests.alerts.promtool import RULES, promtool

HOUR, DAY = 3600.0, 86400.0
START = 1_800_057_600.0
STEP = 300
"""Seconds from judgement to judgement, as from sample to sample in the replay; the exporter judges more often."""

LABELS = 'job="tde-exporter",instance="a:10161",target="shop",engine="oracle",pair="main",operation="point_select"'
STATED_MINUTES = 120
"""The benchmark finds half of the steps to +50 % in 81 minutes, nine of ten in 91."""

Ratio = Callable[[float], float]


def _burst(durations: list[float], decrypts: int) -> Burst:
    work = Work(decrypts=decrypts)
    return Burst(
        tuple(
            Sample(place, lasted, work=work, failure=None if math.isfinite(lasted) else Reason.TIMEOUT)
            for place, lasted in enumerate(durations)
        )
    )


def judgements(world: worlds.World, ratio: Ratio, days: float, seed: int) -> Iterator[Judgement]:
    """What a series says every five minutes; `ratio` is the true one, by the seconds since the start."""
    random = np.random.default_rng(seed)
    path = worlds.path(world, round(days * DAY / worlds.TICK), random)
    series = Series(START, worlds.SIZE)
    per_step = round(STEP / worlds.TICK)
    for begin in range(0, path.ticks, per_step):
        now = begin * worlds.TICK
        logs = worlds.samples(path, begin, begin + per_step, worlds.SIZE, ratio(now), random)
        seconds = np.exp(logs)
        for place in range(per_step):
            at = START + now + place * worlds.TICK
            first = (Variant.ENCRYPTED, Variant.PLAIN)[(begin + place) % 2]
            encrypted, plain = _burst(seconds[0, place].tolist(), 1), _burst(seconds[1, place].tolist(), 0)
            series.add(Tick("shop", "main", Operation.POINT_SELECT, "one", at, first, encrypted, plain), at)
        yield series.judge(START + now + STEP, worlds.TICK)


def _values(numbers: list[float | None]) -> str:
    """As promtool reads them; what is unknown is missing."""
    written = ("_" if number is None or not math.isfinite(number) else f"{number:.6g}" for number in numbers)
    runs = [(value, sum(1 for _ in run)) for value, run in groupby(written)]
    return " ".join(f"{value}x{times - (value != '_')}" if times > 1 else value for value, times in runs)


def page(said: list[Judgement]) -> list[dict[str, str]]:
    """What the exporter would have shown of them, as input series."""
    found: dict[str, list[float | None]] = {}

    def show(name: str, labels: str, value: float | None) -> None:
        found.setdefault(f"{name}{{{LABELS},{labels}}}", []).append(value)

    names: list[Name] = [detector.name for detector in for_bursts((50, 99))]
    for judged in said:
        latched = {breach.name for breach in judged.breaches}
        for name in names:
            labels = f'percentile="{name.percentile}",reference="{name.reference}",threshold="{name.threshold}"'
            show("tde_overhead_breach", labels, float(name in latched))
        show("tde_overhead_state", 'state="undecided"', float(judged.hour.word == "undecided"))
        for percent in (50, 99):
            window = f'percentile="{percent}",window="1h"'
            ratio = judged.hour.latency_ratio.get(percent)
            for suffix in ("estimate", "lower", "upper"):
                metric = "tde_overhead_ratio" + ("" if suffix == "estimate" else f"_{suffix}")
                show(metric, window, getattr(ratio, suffix, None))
            for variant in Variant:
                level = judged.hour.percentiles.get(variant, {}).get(percent)
                show("tde_canary_latency_seconds", f'variant="{variant}",{window}', level)
    return [{"series": name, "values": _values(numbers)} for name, numbers in found.items()]


def replayed(folder: Path, said: list[Judgement], asked: list[tuple[str, float | None]]) -> str:
    """What promtool says about the questions, each with the number that it must be answered by; empty if nothing."""
    last = (len(said) - 1) * STEP
    tests = [
        {
            "expr": expr,
            "eval_time": f"{last}s",
            "exp_samples": [] if number is None else [{"labels": "{}", "value": number}],
        }
        for expr, number in asked
    ]
    document = {
        "rule_files": [str(RULES / "tde-alerts.yml")],
        "evaluation_interval": f"{STEP}s",
        "tests": [{"interval": f"{STEP}s", "input_series": page(said), "promql_expr_test": tests}],
    }
    (folder / "replay.yml").write_text(yaml.safe_dump(document))
    ran = promtool("newest", "test", "rules", str(folder / "replay.yml"))
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def _calls(days: float) -> str:
    """How many alerts about overhead have asked for anybody, ever."""
    return f'count(max_over_time(ALERTS{{component="overhead",alertstate="firing",severity=~"critical|warning"}}[{days + 1:.0f}d]))'


def _holes(alert: str, days: float) -> str:
    """Evaluations between the first and the last one at which an alert fired, but it did not; 0 is one episode."""
    fired = f'timestamp(ALERTS{{alertname="{alert}",alertstate="firing"}})[{days + 1:.0f}d:{STEP}s]'
    return f"(max(max_over_time({fired})) - min(min_over_time({fired}))) / {STEP} + 1 - max(count_over_time({fired}))"


def _first(alert: str, days: float) -> str:
    fired = f'timestamp(ALERTS{{alertname="{alert}",alertstate="firing"}})[{days + 1:.0f}d:{STEP}s]'
    return f"min(min_over_time({fired}))"


def _in_budget(folder: Path, days: float, seed: int) -> None:
    said = list(judgements(worlds.MONTH, lambda _: 1.1, days, seed))
    assert replayed(folder, said, [(_calls(days), None)]) == ""


def _step(folder: Path, begins: float, ends: float, days: float, seed: int) -> None:
    """+50 % from `begins` to `ends`, seconds: one episode, in the stated time, that is over at the end."""
    said = list(judgements(worlds.MONTH, lambda now: 1.5 if begins <= now < ends else 1.05, days, seed))
    asked = [
        (f"{_first('TDEOverheadHighP50', days)} > bool {begins:.0f}", 1.0),
        (f"{_first('TDEOverheadHighP50', days)} < bool {begins + 60 * STATED_MINUTES:.0f}", 1.0),
        (_holes("TDEOverheadHighP50", days), 0.0),
        ('count(ALERTS{component="overhead",alertstate="firing",severity=~"critical|warning"})', None),
        (f'count(max_over_time(ALERTS{{alertname="TDEOverheadCritical",alertstate="firing"}}[{days + 1:.0f}d]))', None),
    ]
    assert replayed(folder, said, asked) == ""


def test_a_day_within_the_budget_calls_nobody(tmp_path: Path) -> None:
    _in_budget(tmp_path, 1, 1)


def test_a_step_of_half_is_one_episode(tmp_path: Path) -> None:
    _step(tmp_path, 6 * HOUR, 12 * HOUR, 1, 2)


def test_the_replay_would_have_shown_an_alert(tmp_path: Path) -> None:
    said = list(judgements(worlds.World("calm"), lambda _: 1.5, 0.125, 1))
    assert replayed(tmp_path, said, [(_calls(0.125), None)]) != ""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10, 14))
def test_seven_days_within_the_budget_call_nobody(seed: int, tmp_path: Path) -> None:
    _in_budget(tmp_path, 7, seed)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(20, 24))
def test_a_step_of_half_within_seven_days_is_one_episode(seed: int, tmp_path: Path) -> None:
    _step(tmp_path, 3 * DAY, 3.5 * DAY, 7, seed)
