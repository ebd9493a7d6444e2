"""The command `selftest`: how each statement of an engine fares on a database. Its output is made to be pasted into a bug
report: it holds no secret, and no name or address of a host."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from exporter import __version__, choice, logs
from exporter.console import Progress, table
from exporter.conversation import converse
from exporter.domain.errors import TargetError, TdeExporterError
from exporter.domain.model import TargetFacts
from exporter.engines.base import Session, StatementOutcome, Verdict
from exporter.overhead import formats

TIMEOUT = 900.0
DRIVERS = ("oracledb", "pymysql", "apsw")
"""Packages whose version is told where they are loaded."""
_BAD = (Verdict.ERROR, Verdict.MISSING_GRANT)


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What was found. `drivers` are names and versions."""

    engine: str
    facts: TargetFacts
    drivers: tuple[tuple[str, str], ...]
    outcomes: tuple[StatementOutcome, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed, and no grant is missing."""
        return not any(outcome.verdict in _BAD for outcome in self.outcomes)


def add_to(add: Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]) -> None:
    """Add the command to a command line; `add` makes a parser from name, function and help."""
    words = "run every statement of an engine once and say how each fared; exit code 0 when none failed, else 1"
    sub = add("selftest", selftest, words)
    sub.add_argument("target", nargs="?", metavar="TARGET", help="name of the target (default: the only one)")
    sub.add_argument("--json", action="store_true", help="print JSON instead of a table")


def selftest(arguments: argparse.Namespace) -> int:
    """Run it and print it. Nothing is changed in the database."""
    settings = choice.settings(arguments)
    logs.configure(settings.log.level, settings.log.format)
    target = choice.target(settings, arguments.target)
    progress = Progress()

    def work(session: Session) -> SelfTest:
        outcomes = session.selftest(progress, TIMEOUT)
        return SelfTest(target.engine, session.facts(), _drivers(), outcomes)

    try:
        found = converse(target, work)
    except TargetError as error:
        raise TdeExporterError(f"target {target.name}: {error} ({error.reason})") from error
    finally:
        progress.done()
    print(json.dumps(selftest_dict(found), indent=2) if arguments.json else selftest_text(found))
    return 0 if found.passed else 1


def selftest_text(found: SelfTest) -> str:
    """Versions, a table of all statements, and what each that did not work says."""
    facts = found.facts
    place = " ".join(word for word in (facts.role, facts.open_mode, facts.edition) if word)
    head = [
        f"tde-exporter {__version__}, Python {platform.python_version()}"
        + "".join(f", {name} {version}" for name, version in found.drivers),
        f"{facts.flavor} {facts.version}"
        + (f" (engine {found.engine})" if found.engine != facts.flavor else "")
        + (f", {place}" if place else ""),
    ]
    header = ("statement", "collector", "outcome", "code", "time", "rows", "needs the grant of")
    rows = [
        (
            outcome.statement,
            outcome.collector,
            outcome.verdict.value,
            outcome.code,
            formats.duration(outcome.seconds),
            formats.count(outcome.rows),
            ", ".join(outcome.grants),
        )
        for outcome in found.outcomes
        if outcome.verdict is not Verdict.NOT_TRIED
    ]
    counted = Counter(outcome.verdict for outcome in found.outcomes)
    summary = ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in Verdict if counted[verdict])
    parts = ["\n".join(head), table(header, rows, left=len(header)), "\n".join(_words(found.outcomes)), summary]
    return "\n\n".join(part for part in parts if part)


def _words(outcomes: Iterable[StatementOutcome]) -> Iterator[str]:
    """What statements say that failed, and why others were not tried."""
    untried: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.verdict is Verdict.NOT_TRIED:
            untried.setdefault(outcome.words, []).append(outcome.statement)
        elif outcome.words:
            yield f"{outcome.statement}: {outcome.words}"
    for why, statements in untried.items():
        yield f"Not tried, for {why}: {', '.join(statements)}"


def selftest_dict(found: SelfTest) -> dict[str, Any]:
    """The same for `--json`."""
    facts = found.facts
    return {
        "version": __version__,
        "kind": "selftest",
        "python": platform.python_version(),
        "drivers": dict(found.drivers),
        "engine": found.engine,
        "flavor": facts.flavor,
        "server_version": facts.version,
        "role": facts.role,
        "open_mode": facts.open_mode,
        "edition": facts.edition,
        "passed": found.passed,
        "statements": [
            {
                "statement": outcome.statement,
                "collector": outcome.collector,
                "grants": list(outcome.grants),
                "outcome": outcome.verdict.value,
                "code": outcome.code,
                "seconds": outcome.seconds,
                "rows": outcome.rows,
                "words": outcome.words,
            }
            for outcome in found.outcomes
        ],
    }


def _drivers() -> tuple[tuple[str, str], ...]:
    """Those that this process has loaded."""
    return tuple((name, importlib.metadata.version(name)) for name in DRIVERS if name in sys.modules)
