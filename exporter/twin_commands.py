"""The commands about twin objects: provision, verify, drop. Nothing is made or removed without being named."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from exporter import choice, login, logs
from exporter.config.schema import PairSettings, TargetSettings
from exporter.config.secrets import redact
from exporter.console import Progress, table
from exporter.conversation import converse
from exporter.domain.errors import Cancelled, ConfigError, ConnectFailed, TargetError, TdeExporterError
from exporter.domain.model import PairFacts, Slot, TwinFacts
from exporter.engines import registry
from exporter.engines.base import Provisioned, Session
from exporter.overhead import formats
from exporter.probing.rounds import STATE_TIMEOUT, VERIFY_TIMEOUT
from exporter.verification_table import Verification, verification_dict, verification_text

PROVISION_TIMEOUT = 30 * 86400.0
"""Seconds. Whoever makes twins sees how it goes, and ends it with Ctrl-C; this is only a number that drivers can take."""
DROP_TIMEOUT = 600.0

Command = Callable[[argparse.Namespace], int]
T = TypeVar("T")


def add_to(add: Callable[[str, Command, str], argparse.ArgumentParser]) -> None:
    """Add these commands to a command line; `add` makes a parser from name, function and help."""
    sub = add("provision", provision, "make the twin objects of a target, or print the SQL with which a DBA makes them")
    _add_target(sub, pair=True)
    sub.add_argument(
        "--print",
        action="store_true",
        dest="script",
        help="print the statements (twins, grants, settings that make counters available); connects to nothing",
    )
    login.add_to(sub)
    sub = add("verify", verify, "say which twins are really encrypted; exit code 0 when all pairs are valid, else 1")
    _add_target(sub)
    sub.add_argument("--json", action="store_true", help="print JSON instead of tables")
    sub = add("drop", drop, "remove the twin objects of a target; nothing that this exporter did not make, and no key")
    _add_target(sub, pair=True)
    sub.add_argument("--yes", action="store_true", help="do not ask")
    login.add_to(sub)


def provision(arguments: argparse.Namespace) -> int:
    """Make what is missing of the twins, and say what was made and which rights that took."""
    target, pairs = _chosen(arguments)
    if arguments.script:
        if login.given(arguments):
            raise ConfigError("--print connects to nothing", remedy="Leave out --user and --password-*")
        for line in _script(target, pairs):
            print(line)
        return 0
    target = login.applied(target, arguments)
    progress = Progress()

    def work(session: Session) -> int:
        used: dict[str, None] = {}
        invalid = 0
        for pair in pairs:
            done = session.provision(pair, progress, PROVISION_TIMEOUT)
            used |= dict.fromkeys(done.grants)
            facts = session.verify(pair, VERIFY_TIMEOUT)
            progress.done()
            _tell_provisioned(target, pair, done, facts)
            invalid += not facts.valid
        for grant in used:
            print(f"used the right {grant}")
        return 1 if invalid else 0

    try:
        return _with_target(target, work)
    except KeyboardInterrupt:
        progress.done()
        _complain("stopped; the same command goes on from here")
        raise
    finally:
        progress.done()


def verify(arguments: argparse.Namespace) -> int:
    """Print what the twins really are, and the keystores and the inventory."""
    target, pairs = _chosen(arguments)

    def work(session: Session) -> Verification:
        checked = tuple(_verified(session, pair) for pair in pairs)
        try:
            return Verification(target.name, session.facts(), checked, session.encryption_state(STATE_TIMEOUT))
        except TargetError as error:
            # What is known of the twins is worth saying all the same.
            return Verification(target.name, session.facts(), checked, None, f"{error} ({error.reason})")

    found = _with_target(target, work)
    if arguments.json:
        print(json.dumps(verification_dict(found), indent=2))
    else:
        print(verification_text(found))
    return 0 if found.valid else 1


def drop(arguments: argparse.Namespace) -> int:
    """Remove twins after asking; say what was removed, and what was left and why."""
    target, pairs = _chosen(arguments)
    target = login.applied(target, arguments)
    if not arguments.yes:
        _refuse_without_terminal()
        checked = _with_target(target, lambda session: [_verified(session, pair) for pair in pairs])
        if not _agreed(target, checked):
            print("Nothing was removed.")
            return 1

    removed, left = 0, 0

    def work(session: Session) -> None:
        nonlocal removed, left
        for pair in pairs:
            try:
                names = session.drop(pair, DROP_TIMEOUT)
            except (Cancelled, ConnectFailed):
                raise
            except TargetError as error:
                _complain(f"target {target.name}: pair {pair.name}: {error} ({error.reason})")
                left += 1
                continue
            removed += len(names)
            _tell(pair, (f"removed {name}" for name in names), nothing="there was nothing to remove")

    _with_target(target, work)
    if removed and registry.engine_type(target.engine).self_provisioning:
        print(f"`run` and `once` make them again for as long as {target.name} is configured.")
    return 1 if left else 0


def hint(target: TargetSettings, checked: Iterable[PairFacts]) -> str:
    """The command that would help when twins are missing; empty where none is, or where they are made without it."""
    unseen = [
        pair.pair
        for pair in checked
        if any(twin.problem and twin.encrypted is None and twin.rows is None for twin in (pair.a, pair.b))
    ]
    if not unseen or registry.engine_type(target.engine).self_provisioning:
        return ""
    return f"twins that do not exist yet ({', '.join(unseen)}) are made by: tde-exporter provision {target.name}"


def _chosen(arguments: argparse.Namespace) -> tuple[TargetSettings, tuple[PairSettings, ...]]:
    settings = choice.settings(arguments)
    logs.configure(settings.log.level, settings.log.format)
    target = choice.target(settings, arguments.target)
    return target, choice.pairs(target, getattr(arguments, "pair", None))


def _with_target(target: TargetSettings, work: Callable[[Session], T]) -> T:
    try:
        return converse(target, work)
    except TargetError as error:
        raise TdeExporterError(f"target {target.name}: {error} ({error.reason})") from error


def _script(target: TargetSettings, pairs: tuple[PairSettings, ...]) -> list[str]:
    """All of it or nothing: half a script is worse than an error."""
    try:
        return list(registry.make(target.model_copy(update={"pairs": pairs})).script())
    except TargetError as error:
        raise TdeExporterError(f"target {target.name}: {error}") from error


def _verified(session: Session, pair: PairSettings) -> PairFacts:
    """What verification finds; where it fails, nothing is known of the twins but why."""
    try:
        return session.verify(pair, VERIFY_TIMEOUT)
    except (Cancelled, ConnectFailed):
        raise
    except TargetError as error:
        words = f"{error} ({error.reason})"
        a, b = (TwinFacts(slot, None, problem=words) for slot in Slot)
        return PairFacts(pair.name, pair.phase, a, b)


def _tell_provisioned(target: TargetSettings, pair: PairSettings, done: Provisioned, facts: PairFacts) -> None:
    _tell(pair, (f"made {name}" for name in done.made), nothing="nothing to do, the twins are there")
    if not facts.valid:
        _complain(f"target {target.name}: pair {pair.name} is not valid: {facts.problem}")


def _tell(pair: PairSettings, lines: Iterable[str], nothing: str) -> None:
    for line in list(lines) or [nothing]:
        print(f"pair {pair.name}: {line}", flush=True)


def _complain(words: str) -> None:
    if sys.stderr is not None:
        print(f"tde-exporter: {redact(words)}", file=sys.stderr, flush=True)


def _refuse_without_terminal() -> None:
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise ConfigError(
            "nothing was removed, for there is nobody to ask", remedy="Add --yes to remove without asking"
        )


def _agreed(target: TargetSettings, checked: Iterable[PairFacts]) -> bool:
    """Whether a person at the terminal wants these twins to be removed."""
    rows = [
        (pair.pair, twin.name or f"slot {twin.slot}", twin.problem or f"{formats.count(twin.rows)} rows")
        for pair in checked
        for twin in (pair.a, pair.b)
    ]
    print(f"To be removed from target {target.name}, with all their rows:\n", file=sys.stderr)
    print(table(("pair", "object", ""), rows, left=3), file=sys.stderr)
    print("\nRemove them? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")


def _add_target(sub: argparse.ArgumentParser, pair: bool = False) -> None:
    sub.add_argument("target", nargs="?", metavar="TARGET", help="name of the target (default: the only one)")
    if pair:
        sub.add_argument("--pair", metavar="NAME", help="only the twins of this pair (default: of all pairs)")
