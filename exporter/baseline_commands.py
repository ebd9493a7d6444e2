"""The command `baseline`: freeze, list, show, drop."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from exporter import choice, moments
from exporter.console import table
from exporter.domain.clock import SystemClock
from exporter.domain.errors import ConfigError
from exporter.domain.model import Variant
from exporter.exposition.screening import words
from exporter.freezing import USUAL_SECONDS, freeze_pair
from exporter.overhead import formats
from exporter.overhead.baseline import PairBaseline, chosen
from exporter.overhead.certificate import certify
from exporter.record_commands import Command, action, group, opened

PHASES = {True: "both plain", False: "one encrypted"}


def add_to(add: Callable[[str, Command, str], argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the command to a command line."""
    actions = group(add, "baseline", "what was measured before something changes, kept to compare with")
    sub = action(actions, common, "freeze", freeze, "keep what was measured of a target until now")
    sub.add_argument("target", nargs="?", metavar="TARGET", help="name of the target (default: the only one)")
    sub.add_argument("--pair", metavar="NAME", help="only this pair (default: all pairs)")
    sub.add_argument(
        "--last",
        type=moments.span_argument,
        default=USUAL_SECONDS,
        metavar="SPAN",
        help="how far back, but never beyond the last change (default: 24h)",
    )
    sub.add_argument("--note", default="", metavar="TEXT", help="what it is for, for people")
    sub = action(actions, common, "list", list_baselines, "list the baselines, newest first")
    sub.add_argument("target", nargs="?", metavar="TARGET", help="only of this target (default: of all)")
    for name, command, says in (
        ("show", show, "print what is in a baseline, and whether plain twins are alike enough"),
        ("drop", drop, "remove a baseline"),
    ):
        sub = action(actions, common, name, command, says)
        sub.add_argument("number", type=int, metavar="NUMBER", help="its number, as `baseline list` says")


def freeze(arguments: argparse.Namespace) -> int:
    """Make a baseline of each pair."""
    settings = choice.settings(arguments)
    target = choice.target(settings, arguments.target)
    clock = SystemClock()
    now, until = clock.wall(), clock.steady()
    with opened(settings) as history:
        made = [
            freeze_pair(history, target.name, pair.name, until - arguments.last, until, now, note=words(arguments.note))
            for pair in choice.pairs(target, arguments.pair)
        ]
        for baseline in made:
            kept = history.baselines.save(baseline)
            print(f"baseline {kept.id}: {_what(kept)}")
            for line in _certificates(kept):
                print(f"  {line}")
    return 0


def list_baselines(arguments: argparse.Namespace) -> int:
    """Print one line for each."""
    settings = choice.settings(arguments)
    target = None if arguments.target is None else choice.target(settings, arguments.target).name
    with opened(settings) as history:
        found = history.baselines.all(target)
    if not found:
        print("no baseline")
        return 0
    by_pair: dict[tuple[str, str], list[PairBaseline]] = {}
    for baseline in found:
        by_pair.setdefault((baseline.target, baseline.pair), []).append(baseline)
    used = {best.id for held in by_pair.values() if (best := chosen(held)) is not None}
    rows = [
        (
            f"{baseline.id}{'*' if baseline.id in used else ''}",
            baseline.target,
            baseline.pair,
            formats.clock(baseline.frozen),
            formats.age(baseline.until - baseline.since),
            PHASES[baseline.plain],
            f"event {baseline.event}" if baseline.event else "by hand",
            baseline.note,
        )
        for baseline in found
    ]
    print(table(("number", "target", "pair", "frozen", "span", "twins", "why", "note"), rows, left=8))
    print("* compared with now")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print all that is in a baseline."""
    settings = choice.settings(arguments)
    with opened(settings) as history:
        baseline = next((held for held in history.baselines.all() if held.id == arguments.number), None)
    if baseline is None:
        raise _unknown(arguments.number)
    print(f"baseline {baseline.id}: {_what(baseline)}")
    print(f"frozen {formats.clock(baseline.frozen)}" + (f" for event {baseline.event}" if baseline.event else ""))
    if baseline.note:
        print(baseline.note)
    rows = []
    for operation, series in baseline.series.items():
        for percent in sorted(series.ratio.keys() | {p for side in series.sides.values() for p in side.levels}):
            encrypted, plain = (
                formats.duration(side.levels[percent].seconds) if percent in side.levels else formats.UNKNOWN
                for side in (series.sides[variant] for variant in (Variant.ENCRYPTED, Variant.PLAIN))
            )
            ratio = formats.with_interval(series.ratio.get(percent))
            samples = formats.count(series.sides[Variant.PLAIN].samples)
            rows.append((operation.value, f"P{percent}", encrypted, plain, ratio, samples))
    first, second = ("twin a", "twin b") if baseline.plain else ("encrypted", "plain")
    if baseline.plain and baseline.slot.value == "b":
        first, second = second, first
    print()
    print(table(("operation", "", first, second, f"{first} / {second}", "samples"), rows, left=2))
    for line in _certificates(baseline):
        print(line)
    return 0


def drop(arguments: argparse.Namespace) -> int:
    """Remove a baseline."""
    with opened(choice.settings(arguments)) as history:
        if not history.baselines.drop(arguments.number):
            raise _unknown(arguments.number)
    print(f"baseline {arguments.number} is removed")
    return 0


def _unknown(number: int) -> ConfigError:
    return ConfigError(f"there is no baseline {number}", remedy="`tde-exporter baseline list` names them")


def _what(baseline: PairBaseline) -> str:
    operations = ", ".join(operation.value for operation in baseline.series)
    span = f"{formats.clock(baseline.since)} to {formats.clock(baseline.until)}"
    return f"{baseline.target}, pair {baseline.pair} ({PHASES[baseline.plain]}), {span}: {operations}"


def _certificates(baseline: PairBaseline) -> list[str]:
    """What the twins differ by without encryption, in words; of a baseline of plain twins only."""
    if not baseline.plain:
        return []
    judged = [(operation, certify(series)) for operation, series in baseline.series.items()]
    return [f"{operation.value}: {found.word.words}: {found.reason}" for operation, found in judged]
