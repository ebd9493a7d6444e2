"""The commands that take a history along with its targets: `history export --format transfer`, `history import`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from exporter import __version__, choice
from exporter.config.schema import Settings
from exporter.console import Progress
from exporter.domain.clock import SystemClock
from exporter.domain.errors import ConfigError
from exporter.domain.sharding import Shard, parse_shard
from exporter.history import inbox
from exporter.history.departure import Departure
from exporter.history.intake import Intake, Taken
from exporter.history.transfer import KINDS, Header, Row, packed
from exporter.overhead import formats

QUIET_SECONDS = 2.0
"""What takes longer says how far it is."""
_PIECE = 65536
STDIN = "-"

_WORDS = {
    "hours": "hours",
    "blocks": "blocks of five minutes",
    "snapshots": "snapshots",
    "events": "events",
    "epochs": "epochs",
    "baselines": "baselines",
    "states": "verdicts and other states",
}
_BECAME = {
    "new": "new",
    "replaced": "instead of what was there",
    "kept": "less than what was there, left out",
    "outside": "older than what is kept, left out",
}


def add_to_export(sub: argparse.ArgumentParser) -> None:
    """The options of `history export` that belong to `--format transfer`."""
    which = sub.add_argument_group("of --format transfer")
    which.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="only of those targets that this shard watches, as 3/4 for the fourth of four",
    )
    which.add_argument("--output", metavar="FILE", help="write this file (default: standard output)")


def add_to_import(sub: argparse.ArgumentParser) -> None:
    """The options of `history import`."""
    sub.add_argument(
        "files", nargs="+", metavar="FILE", help="what to import, one after the other; - is standard input"
    )
    sub.add_argument(
        "--at-restart",
        action="store_true",
        help="check the files, and leave them to the next start of the exporter; it may be running",
    )


def refuse_for_people(arguments: argparse.Namespace) -> None:
    """The other formats have none of these options. Raises ConfigError."""
    for option in ("shard", "output"):
        if getattr(arguments, option) is not None:
            raise ConfigError(f"--{option}: this is for --format transfer", remedy="Add it, or leave this out")


def _shard(text: str) -> Shard:
    try:
        return parse_shard(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def export_transfer(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write what there is of some targets, so that another exporter can take it."""
    if arguments.since is not None:
        raise ConfigError("--since: a history is taken along whole", remedy="Leave it out, or use csv or jsonl")
    path, clock = choice.history_path(settings), SystemClock()
    with _destination(arguments.output) as out, closing(Departure(path, clock)) as departure:
        chosen = _chosen(departure.targets(), arguments, path)
        counts, progress = Counter[str](), _Late()

        def counted(rows: Iterable[Row]) -> Iterator[Row]:
            for row in rows:
                counts[row.kind] += 1
                yield row

        rows = departure.rows(chosen, lambda done, total: progress("exporting", done / max(total, 1)))
        for piece in packed(Header(__version__, clock.wall(), tuple(chosen)), counted(rows)):
            out.write(piece)
        progress.done()
        _say(f"{_targets(chosen)}: {_counts(counts)}")
        if departure.damaged:
            _say(f"{formats.count(departure.damaged)} rows cannot be read any more, and were left out")
    return 0


def import_history(arguments: argparse.Namespace) -> int:
    """Merge what other exporters wrote into the history of this one."""
    settings = choice.settings(arguments)
    if arguments.files.count(STDIN) > 1:
        raise ConfigError("standard input is named twice", remedy="Name it once")
    path, clock = settings.history_path, SystemClock()
    if arguments.at_restart:
        for file in arguments.files:
            with _source(file) as source:
                header = inbox.leave(path, source.name, source.pieces("checking"), clock)
            print(f"{source.name}: {_targets(header.targets)}, waits for the next start of the exporter", flush=True)
        return 0
    with closing(Intake(path, settings.history.retention, clock)) as intake:
        for file in arguments.files:
            with _source(file) as source:
                taken = intake.take(source.name, source.pieces("importing"))
            print(told(source.name, taken), flush=True)
    return 0


def told(name: str, taken: Taken) -> str:
    """What became of a file, in some lines."""
    header = taken.header
    first = f"{name}: {_targets(header.targets)}, exported {formats.clock(header.at)}"
    if not taken.changed:
        left = sum(found["kept"] + found["outside"] for found in taken.tally.values())
        return first + ("; nothing in it is more than what is here" if left else "; everything was here already")
    lines = [first]
    for kind, words in _WORDS.items():
        found = taken.tally.get(kind, Counter())
        parts = [f"{formats.count(found[what])} {became}" for what, became in _BECAME.items() if found[what]]
        if found["same"]:
            parts.append(f"{formats.count(found['same'])} here already")
        if parts:
            lines.append(f"  {words}: {', '.join(parts)}")
    return "\n".join(lines)


class _Late:
    """Progress of what takes long, and silence about the rest."""

    def __init__(self) -> None:
        self._progress, self._from = Progress(), time.monotonic() + QUIET_SECONDS

    def __call__(self, what: str, share: float) -> None:
        if time.monotonic() >= self._from:
            self._progress(what, share)

    def done(self) -> None:
        self._progress.done()


def _chosen(held: list[str], arguments: argparse.Namespace, path: Path) -> list[str]:
    if arguments.target is not None:
        if arguments.target not in held:
            raise ConfigError(
                f"{path} holds nothing of a target '{arguments.target}'",
                remedy=f"Name one of: {', '.join(held)}" if held else "It holds nothing at all",
            )
        return [arguments.target]
    if arguments.shard is not None:
        return [target for target in held if arguments.shard.has(target)]
    return held


def _targets(names: Iterable[str]) -> str:
    listed = list(names)
    if not listed:
        return "no target"
    shown = ", ".join(listed[:5]) + (", …" if len(listed) > 5 else "")
    return f"{len(listed)} target{'s' if len(listed) != 1 else ''} ({shown})"


def _counts(counts: Counter[str]) -> str:
    parts = [f"{formats.count(counts[kind])} {_WORDS[kind]}" for kind in KINDS if counts[kind]]
    return ", ".join(parts) or "nothing was measured"


def _say(line: str) -> None:
    print(line, file=sys.stderr)


@contextmanager
def _destination(output: str | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that has its name when all of it is there. Raises ConfigError."""
    if output is None:
        if sys.stdout is None or sys.stdout.isatty():
            raise ConfigError("this is binary, and no terminal shows it", remedy="Give --output FILE, or redirect it")
        yield sys.stdout.buffer
        return
    path = Path(output)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"--output: {path} cannot be written ({error.strerror})", remedy="Name another place"
        ) from None
    try:
        with os.fdopen(file, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.rename(path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise ConfigError(
                f"--output: {path} cannot be written ({error.strerror})", remedy="Name another place"
            ) from None
        raise


class _Source:
    """Something to import, and how large it is where that is known."""

    def __init__(self, name: str, stream: BinaryIO, size: int) -> None:
        self.name, self._stream, self._size = name, stream, size

    def pieces(self, doing: str) -> Iterator[bytes]:
        """All of it, with progress where it lasts."""
        read, progress = 0, _Late()
        try:
            while piece := self._stream.read(_PIECE):
                read += len(piece)
                progress(f"{doing} {self.name}", read / self._size if self._size else 0.0)
                yield piece
        finally:
            progress.done()


@contextmanager
def _source(file: str) -> Iterator[_Source]:
    """A file, or standard input. Raises ConfigError when it cannot be opened."""
    if file == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigError("standard input is a terminal", remedy="Name a file, or redirect one")
        yield _Source("standard input", sys.stdin.buffer, 0)
        return
    try:
        opened = os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise ConfigError(f"{file}: it cannot be read ({error.strerror})", remedy="Name another file") from None
    with opened as stream:
        yield _Source(file, stream, os.fstat(stream.fileno()).st_size)
