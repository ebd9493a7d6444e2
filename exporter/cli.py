"""The front door: run, check, once, targets, and the commands about twins, records and baselines. Every problem of the operator's is one line and exit code 1."""

from __future__ import annotations

import _thread
import argparse
import gc
import json
import logging
import random
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from exporter import (
    __version__,
    baseline_commands,
    bundle_commands,
    choice,
    logs,
    record_commands,
    selftest,
    twin_commands,
)
from exporter.config.changes import own
from exporter.config.schema import Settings
from exporter.config.secrets import redact
from exporter.console import Progress, forget, table, use_plain_letters
from exporter.domain.clock import SystemClock
from exporter.domain.errors import TargetError, TdeExporterError
from exporter.domain.model import PairFacts
from exporter.domain.sharding import MOST_SHARDS, WHOLE, Shard, shard_of
from exporter.domain.time_scale import REAL, time_scale
from exporter.overhead.snapshot import summarise
from exporter.overhead.tiers import tier
from exporter.probing.messages import PairChecked, ToParent
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile
from exporter.snapshot_table import snapshot_dict, snapshot_text

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
ONCE_UNITS = 20
ONCE_SECONDS = 4.0

EPILOG = """\
With no command, `run` is meant. With no configuration file, an embedded encrypted SQLite database is
built and measured, so that nothing else is needed. Settings can be overridden by environment variables
such as TDE_EXPORTER_WEB__PORT=10162; see docs/configuration.md.
"""


log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    use_plain_letters()
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = getattr(arguments, "command", run)
    try:
        # Whatever the command is: nobody shall find out by wrong numbers that a test left its environment behind.
        time_scale()
        code = command(arguments)
        if sys.stdout is not None:
            # What cannot be written is said here, and not by the interpreter at its end.
            sys.stdout.flush()
        return code
    except TdeExporterError as error:
        for line in redact(str(error)).splitlines():
            print(f"tde-exporter: {line}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output went away (`tde-exporter targets | head -1`); nothing is wrong.
        forget(sys.stdout)
        return 0
    except OSError as error:
        # The disk under our output is full, the system has no descriptors left, or the like.
        print(f"tde-exporter: {error}", file=sys.stderr)
        log.debug("an error of the system", exc_info=True)
        forget(sys.stdout)
        return 1
    except KeyboardInterrupt:
        return 130


def end_on_signals(stop: threading.Event) -> None:
    """From now on, SIGTERM and SIGINT set `stop`."""

    def heard(_number: int, _frame: object) -> None:
        # Not here: a handler runs in the midst of whatever the main thread does. When that is waiting for this event, or
        # setting it for an earlier signal, it holds the event's lock already and would wait for itself for good.
        _thread.start_new_thread(stop.set, ())

    for number in END_SIGNALS:
        signal.signal(number, heard)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    # First of all: a signal that comes while things are being set up ends them in order as well.
    from exporter.reloading import Requests

    stop, clock = threading.Event(), SystemClock()
    reloads = Requests(clock)
    end_on_signals(stop)
    named = choice.config_path(arguments) is not None
    if named:
        signal.signal(signal.SIGHUP, lambda _number, _frame: reloads.signalled())
    elif signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        # Without a file there is nothing to read anew, and whoever closes his terminal has seen enough.
        signal.signal(signal.SIGHUP, lambda _number, _frame: _thread.start_new_thread(stop.set, ()))
    # The other commands need no web server; they start in half the time without it.
    from exporter.app import App

    def load() -> Settings:
        settings = choice.settings(arguments)
        choice.check_operations(settings)
        return settings

    settings = load()
    logs.configure(settings.log.level, settings.log.format)
    if (scale := time_scale()) != REAL:
        log.warning(f"this is a test: time runs {scale.factor:g} times as fast, and the numbers are worthless")
    talkative = not named or (sys.stdout is not None and sys.stdout.isatty())
    try:
        return App(settings, clock, talkative, stop, load, reloads).run()
    finally:
        # The interpreter takes its handlers down before it ends: another signal must not spoil the end.
        for number in (*END_SIGNALS, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)


def check(arguments: argparse.Namespace) -> int:
    """Say whether the configuration is sound; connects to nothing."""
    if arguments.file is not None:
        arguments.config = arguments.file
    settings = choice.settings(arguments)
    choice.check_operations(settings)
    if settings.web.config_file is not None:
        from exporter.web.security.live import Security

        Security(settings.web.config_file)
    pairs = sum(len(target.pairs) for target in settings.targets)
    name = choice.config_path(arguments) or "embedded default"
    counts = f"{_count(len(settings.targets), 'target')}, {_count(pairs, 'pair')}"
    if settings.own_shard != WHOLE:
        counts += f"; shard {settings.own_shard} watches {_count(len(own(settings).targets), 'target')}"
    print(f"{name}: ok ({counts})")
    return 0


def targets(arguments: argparse.Namespace) -> int:
    """List what is configured, and what each operation can say at its rate."""
    settings = choice.settings(arguments)
    rows = [
        (
            target.name,
            target.engine,
            " ".join(pair.name for pair in target.pairs),
            operation.value,
            tier(settings.operation(operation).samples, settings.intervals_of(target).canary).words,
            f"{settings.operation(operation).samples}",
            f"{settings.intervals_of(target).canary:g} s",
        )
        for target in settings.targets
        for operation in target.canary_operations
    ]
    if arguments.shards is not None or settings.own_shard != WHOLE:
        print(_shards(settings, arguments.shards or settings.own_shard.count), end="\n\n")
    header = ("target", "engine", "pairs", "operation", "says, as far as the budgets allow", "samples", "canary every")
    print(table(header, rows, left=5))
    return 0


def _shards(settings: Settings, count: int) -> str:
    """Which shard has which target, now and with so many of them."""
    now = settings.own_shard.count
    rows = []
    for target in settings.targets:
        before, after = (Shard(shard_of(target.name, number), number) for number in (now, count))
        moves = f"moves to {after}" if before.index != after.index else "stays"
        rows.append((target.name, str(before), *((str(after), moves) if count != now else ())))
    header = ("target", "shard", *((f"with {_count(count, 'shard')}", "") if count != now else ()))
    return table(header, rows, left=len(header))


def once(arguments: argparse.Namespace) -> int:
    """Measure one target now, densely, and print the snapshot."""
    settings = choice.settings(arguments)
    logs.configure(settings.log.level, settings.log.format)
    target = choice.target(settings, arguments.target)
    choice.check_operations(settings)
    progress, checked = Progress(), dict[str, PairFacts]()

    def hear(message: ToParent) -> None:
        if isinstance(message, PairChecked):
            checked[message.facts.pair] = message.facts

    rounds = Rounds(settings, target, Turnstile(), hear, SystemClock(), random.Random())
    # As in a probe process: no collection by chance inside a timed section. What a snapshot leaves behind is small.
    gc.disable()
    try:
        rounds.connect(progress)
        snapshot = rounds.snapshot(arguments.units, ONCE_SECONDS, progress)
        facts = rounds.facts
    except TargetError as error:
        raise TdeExporterError(f"target {target.name}: {error} ({error.reason})") from error
    finally:
        progress.done()
        rounds.close()
    # What was found decides: a pair that was to be certified may be encrypted by now.
    encrypted = {name for name, found in checked.items() if not found.certifying}
    rows = summarise(snapshot, target.certifying - encrypted)
    if arguments.json:
        print(json.dumps(snapshot_dict(snapshot, rows), indent=2))
    else:
        print(snapshot_text(snapshot, rows, facts))
    if words := twin_commands.hint(target, checked.values()):
        print(f"tde-exporter: {words}", file=sys.stderr)
    return 0 if rows and not snapshot.failures else 1


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _parser() -> argparse.ArgumentParser:
    # Suppressed defaults: what was given before the command is not overwritten by what was not given after it.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument(
        "-c", "--config", metavar="FILE", help=f"configuration file (default: ${choice.CONFIG_VARIABLE}, else embedded)"
    )
    parser = argparse.ArgumentParser(
        prog="tde-exporter",
        description="Measures what transparent data encryption costs, and exports it to Prometheus.",
        epilog=EPILOG,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tde-exporter {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], words: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, parents=[common], help=words, description=words)
        sub.set_defaults(command=command)
        return sub

    add("run", run, "probe all targets and serve metrics until a signal comes (the default)")
    sub = add("check", check, "check the configuration; exit code 0 when it is sound, 1 when not; connects to nothing")
    sub.add_argument("file", nargs="?", metavar="FILE", help="configuration file to check")
    sub = add("once", once, "measure one target now and print what encryption costs there")
    sub.add_argument("target", nargs="?", metavar="TARGET", help="name of the target (default: the only one)")
    sub.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sub.add_argument(
        "--units",
        type=_units,
        default=ONCE_UNITS,
        metavar="N",
        help=f"AB+BA units to measure of each operation, 6 to 500 (default {ONCE_UNITS})",
    )
    sub = add("targets", targets, "list the configured targets, their pairs and operations")
    sub.add_argument(
        "--shards",
        type=_shard_count,
        metavar="N",
        help="also say which of N exporters would watch each target, and which targets would move",
    )
    twin_commands.add_to(add)
    selftest.add_to(add)
    record_commands.add_to(add, common)
    baseline_commands.add_to(add, common)
    bundle_commands.add_to(add, common)
    return parser


def _shard_count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"give a whole number from 1 to {MOST_SHARDS}")
    return int(text)


def _units(text: str) -> int:
    if not text.isdigit() or not 6 <= int(text) <= 500:
        raise argparse.ArgumentTypeError("give a whole number from 6 to 500; fewer than 6 give no interval")
    return int(text)
