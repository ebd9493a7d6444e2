"""The commands about what is written down: mark, events, history. They speak with the daemon through the history."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from exporter import choice, moments, transfer_commands
from exporter.config.schema import Settings
from exporter.console import table
from exporter.domain.clock import SystemClock
from exporter.domain.errors import ConfigError
from exporter.domain.events import Event, EventKind, Origin
from exporter.exposition.screening import LONGEST_WORDS, words
from exporter.history import export
from exporter.history.store import History
from exporter.overhead import formats

FUTURE_SECONDS = 60.0
"""What lies further ahead is a slip of the pen."""

Command = Callable[[argparse.Namespace], int]


def add_to(add: Callable[[str, Command, str], argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add these commands to a command line; `add` makes a parser from name, function and help."""
    sub = add("mark", mark, "write down that something happened to a target; the running exporter sees it at once")
    sub.add_argument("target", metavar="TARGET", help="name of the target")
    sub.add_argument("text", metavar="TEXT", help="what happened, for people")
    sub.add_argument(
        "--kind",
        choices=[kind.value for kind in EventKind],
        default=EventKind.OTHER.value,
        help="what it was (default: other); all but restart and other begin the statistics anew",
    )
    sub.add_argument("--at", metavar="TIME", help=f"when: {moments.FORMS} (default: now)")
    actions = group(add, "events", "what happened to the targets")
    sub = action(actions, common, "list", list_events, "list what was marked and detected, newest first")
    sub.add_argument("target", nargs="?", metavar="TARGET", help="only of this target (default: of all)")
    sub.add_argument("--json", action="store_true", help="print JSON instead of a table")
    actions = group(add, "history", "the file that keeps what was measured")
    sub = action(actions, common, "export", export_history, "write the observations to standard output")
    sub.add_argument(
        "--format",
        choices=("csv", "jsonl", "transfer"),
        default="csv",
        help="csv, jsonl with sketches and events, or transfer: all there is, for `history import` (default: csv)",
    )
    sub.add_argument("--target", metavar="NAME", help="only of this target (default: of all)")
    sub.add_argument("--since", metavar="TIME", help=f"from then on: {moments.FORMS} (default: everything)")
    transfer_commands.add_to_export(sub)
    sub = action(
        actions,
        common,
        "import",
        transfer_commands.import_history,
        "take in what another exporter wrote with `history export --format transfer`; this one must not run meanwhile, "
        "but for --at-restart",
    )
    transfer_commands.add_to_import(sub)
    action(actions, common, "info", history_info, "say what is in the history, and how large it is")


def group(add: Callable[[str, Command, str], argparse.ArgumentParser], name: str, says: str) -> argparse.Action:
    """A command that consists of others."""
    return add(name, lambda _: 2, says).add_subparsers(title="commands", metavar="COMMAND", required=True)


def action(
    actions: argparse.Action, common: argparse.ArgumentParser, name: str, command: Command, says: str
) -> argparse.ArgumentParser:
    """One of them."""
    assert isinstance(actions, argparse._SubParsersAction)
    sub: argparse.ArgumentParser = actions.add_parser(name, parents=[common], help=says, description=says)
    sub.set_defaults(command=command)
    return sub


@contextmanager
def opened(settings: Settings) -> Iterator[History]:
    """The history, which a daemon may be using; raises HistoryError when there is none.

    It is not begun here: it would belong to whoever gives the command, and not to the daemon's user.
    """
    history = History.open(choice.history_path(settings), settings.history.retention, SystemClock(), set_aside=False)
    try:
        yield history
    finally:
        history.close()


def mark(arguments: argparse.Namespace) -> int:
    """Write an event."""
    settings = choice.settings(arguments)
    target = choice.target(settings, arguments.target)
    text = " ".join(words(arguments.text, LONGEST_WORDS).split())
    if not text:
        raise ConfigError("the text is empty", remedy="Say what happened")
    event = Event(target.name, _at(arguments.at), EventKind(arguments.kind), text, Origin.MARKED)
    with opened(settings) as history:
        history.records.record([event])
    print(f"{event.id}: {event.kind.value} of {target.name} at {formats.clock(event.at)}")
    return 0


def list_events(arguments: argparse.Namespace) -> int:
    """Print the events."""
    settings = choice.settings(arguments)
    target = None if arguments.target is None else choice.target(settings, arguments.target).name
    with opened(settings) as history:
        found = history.records.events(target)
    if arguments.json:
        print(json.dumps([export.event_dict(event) for event in found], indent=2, ensure_ascii=False))
    elif not found:
        print("no events")
    else:
        rows = [
            (event.id, formats.clock(event.at), event.target, event.kind.value, event.origin.value, event.text)
            for event in found
        ]
        print(table(("event", "at", "target", "kind", "origin", "what"), rows, left=6))
    return 0


def export_history(arguments: argparse.Namespace) -> int:
    """Write the observations, line by line."""
    settings = choice.settings(arguments)
    if arguments.format == "transfer":
        return transfer_commands.export_transfer(settings, arguments)
    transfer_commands.refuse_for_people(arguments)
    target = None if arguments.target is None else choice.target(settings, arguments.target).name
    since = 0.0 if arguments.since is None else _moment(arguments.since, "--since")
    lines = export.csv_lines if arguments.format == "csv" else export.json_lines
    with opened(settings) as history:
        for line in lines(history, since, math.inf, target):
            sys.stdout.write(line)
    return 0


def history_info(arguments: argparse.Namespace) -> int:
    """Print what there is of each kind."""
    settings = choice.settings(arguments)
    with opened(settings) as history:
        found = history.info()
        size = history.size_bytes()
    print(f"{settings.history_path}: {size / 2**20:.1f} MiB, schema {found.version}")
    for name, rows in (("blocks of five minutes", found.blocks), ("hours", found.hours)):
        span = "" if rows.oldest is None else f", {formats.clock(rows.oldest)} to {formats.clock(rows.newest)}"
        print(f"{formats.count(rows.number)} {name}{span}")
    print(f"{found.series} series, {found.events} events, {found.baselines} baselines")
    return 0


def _at(text: str | None) -> float:
    now = SystemClock().wall()
    if text is None:
        return now
    at = _moment(text, "--at")
    if not 0 < at <= now + FUTURE_SECONDS:
        raise ConfigError(f"--at: {formats.clock(at)} lies in the future", remedy="Mark what has happened")
    return at


def _moment(text: str, option: str) -> float:
    try:
        return moments.moment(text, SystemClock().wall())
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None
