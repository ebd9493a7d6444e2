"""Figures that suites find out about themselves, kept one run a line, and told as tables.

A suite calls `note`, which appends to the file that TDE_TEST_FIGURES names, and does nothing without it. The table of all
runs in such files, and how they get into the documentation (runs of a suite replace the older ones of the same suite):

    python -m benchmarks.figures FILE...
    python -m benchmarks.figures --write FILE...
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.console import table

VARIABLE = "TDE_TEST_FIGURES"
KEPT = Path(__file__).with_name("reliability.jsonl")
"""The runs that the documentation tells of."""
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: python -m benchmarks.figures --write FILE -->", "<!-- end of figures -->"

Run = dict[str, Any]


def note(suite: str, load_before: float, **figures: Any) -> None:
    """Append what a run found, with the load of the machine before and after it (`os.getloadavg`)."""
    print(f"{suite}: {figures}", flush=True)
    if not (path := os.environ.get(VARIABLE)):
        return
    run = {
        "suite": suite,
        "at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}",
        "load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "figures": figures,
    }
    with Path(path).open("a") as file:
        file.write(json.dumps(run, ensure_ascii=False) + "\n")


# -- what is promised ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Promise:
    """What operators can rely on, the figures it is about, and their limit.

    `kept` says of the largest of these figures whether the promise is kept; `told` writes it; `beside` is a figure whose
    sum says from how much that was found.
    """

    words: str
    figures: tuple[str, ...]
    kept: Callable[[float], bool]
    told: Callable[[float], str] = "{:g}".format
    beside: str = ""
    of: str = ""

    def found(self, runs: Iterable[Run]) -> list[tuple[str, float, int]]:
        """Of each run that knows: its suite, the largest figure, and what it was found in."""
        return [
            (run["suite"], max(known), run["figures"].get(self.beside, 0))
            for run in runs
            if (known := [float(run["figures"][name]) for name in self.figures if name in run["figures"]])
        ]

    def row(self, runs: Iterable[Run]) -> tuple[str, str, str]:
        """What is promised, what was found, by which suites; raises ValueError where no run knows."""
        found = self.found(runs)
        if not found:
            raise ValueError(f"no suite has found out about this: {self.words}")
        worst = max(value for _, value, _ in found)
        words = self.told(worst) if self.kept(worst) else f"**{self.told(worst)}**, which is too much"
        if self.of:
            words += f" {self.of.format(sum(number for _, _, number in found))}"
        return self.words, words, "; ".join(dict.fromkeys(suite for suite, _, _ in found))


def _below(limit: float) -> Callable[[float], bool]:
    return lambda value: value < limit


def _seconds(value: float) -> str:
    return f"{value:.2g} s"


def _megabytes(kib: float) -> str:
    return f"{kib / 1024:.2f} MB"


SURVIVED = "faults injected and survived"
PROMISES = (
    # A suite that meets a fault that is not survived fails, and notes nothing.
    Promise(
        "every fault that is injected is survived", (SURVIVED,), lambda _: True, lambda _: "all", SURVIVED, "of {}"
    ),
    Promise("the page never lies", ("lies",), _below(1), beside="pages checked", of="on {} pages"),
    Promise("a scrape takes less than 0.5 s", ("longest scrape (s)",), _below(0.5), _seconds),
    Promise("a stop takes less than 5 s", ("longest stop (s)", "stop (s)"), _below(5.0), _seconds),
    Promise(
        "a kill loses less than the last 10 s of the history",
        ("history lost, at most (s)",),
        _below(10.0),
        _seconds,
        "ends of daemons that this is from",
        "at {} ends",
    ),
    Promise(
        "memory grows by less than 1 MB in 10 000 runs",
        (
            "memory growth in 10 000 runs (KiB)",
            "memory growth in 10 000 runs, probing (KiB)",
            "memory growth in 10 000 runs, serving (KiB)",
        ),
        _below(1024.0),
        _megabytes,
    ),
    Promise("no session beyond `budgets.sessions`", ("sessions above the cap",), _below(1)),
    Promise("one login with each wrong password", ("logins with a wrong password, per secret",), _below(1.01)),
    Promise(
        "a secret appears nowhere",
        ("appearances of the marker secret",),
        _below(1),
        beside="texts searched",
        of="in {} texts",
    ),
)


def known(runs: list[Run]) -> list[Promise]:
    """The promises of which these runs know something."""
    return [promise for promise in PROMISES if promise.found(runs)]


def block(runs: list[Run]) -> str:
    """What the documentation says: each promise, and the suites that looked."""
    lines = [BEGIN, "| promised | found | by |", "|---|---|---|"]
    lines += [f"| {' | '.join(promise.row(runs))} |" for promise in known(runs)]
    lines += ["", "| suite | when | where | load average |", "|---|---|---|---|"]
    for suite in dict.fromkeys(run["suite"] for run in runs):
        mine = [run for run in runs if run["suite"] == suite]
        loads = [load for run in mine for load in run["load"]]
        times = "" if len(mine) == 1 else f" ({len(mine)} times)"
        where = f"{mine[-1]['cores']} cores, {mine[-1]['system']}"
        lines.append(f"| {suite}{times} | {mine[-1]['at']} | {where} | {min(loads)} to {max(loads)} |")
    return "\n".join([*lines, END])


def written(page: str, runs: list[Run]) -> str:
    """A page with the newest block in the place of the old one; raises ValueError where there is none."""
    before, rest = page.split(BEGIN)
    return f"{before}{block(runs)}{rest.split(END)[1]}"


# -- files --------------------------------------------------------------------------------------------------


def read(*paths: Path) -> list[Run]:
    """All runs in these files."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def taken_up(kept: list[Run], fresh: list[Run]) -> list[Run]:
    """The runs that are kept after newer ones of some suites."""
    suites = {run["suite"] for run in fresh}
    return [*(run for run in kept if run["suite"] not in suites), *fresh]


def tables(runs: list[Run]) -> str:
    """One table for each run."""
    parts = []
    for run in runs:
        before, after = run["load"]
        title = f"{run['suite']}, {run['at']}, {run['cores']} cores, load average {before} to {after}"
        parts.append(f"{title}\n\n{table(('figure', 'value'), list(_rows(run['figures'])), left=2)}")
    return "\n\n".join(parts)


def _rows(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield name, ""
            yield from ((f"  {part}", count) for part, count in _rows(value))
        else:
            yield name, f"{value:.3g}" if isinstance(value, float) else str(value)


def main(arguments: list[str]) -> None:
    """The command."""
    fresh = read(*(Path(name) for name in arguments if name != "--write"))
    if "--write" in arguments:
        runs = taken_up(read(KEPT) if KEPT.exists() else [], fresh)
        KEPT.write_text("".join(json.dumps(run, ensure_ascii=False) + "\n" for run in runs))
        PAGE.write_text(written(PAGE.read_text(), runs))
    else:
        print(tables(fresh))


if __name__ == "__main__":
    main(sys.argv[1:])
