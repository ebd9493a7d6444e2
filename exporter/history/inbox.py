"""Exports that wait for the next start of a daemon, in the folder `import` beside its history.

Where a daemon cannot be stopped without being started again at once, as in Kubernetes, nobody else has its history for
himself. So a file is checked and left there while the daemon runs, and the daemon takes it in before anything else.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError
from exporter.history.intake import Intake, ensure_room, refuse_strangers
from exporter.history.order import checked
from exporter.history.transfer import Header, Reading

FOLDER, WAITS, TAKING, REFUSED = "import", ".tdehistory", ".taking", ".refused"
_PIECE = 65536
_log = logging.getLogger(__name__)


def leave(path: Path, name: str, pieces: Iterable[bytes], clock: Clock) -> Header:
    """Check a file whole and leave it to the next start of the daemon that keeps the history at `path`. Raises
    HistoryError, and then nothing waits."""
    refuse_strangers(path)
    folder = path.with_name(FOLDER)
    # In the order in which they came.
    beside = folder / f".{clock.wall():017.6f}-{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                reading = Reading(name, _copied(pieces, stream))
                for _ in checked(reading, lambda: ensure_room(path)):
                    pass
                stream.flush()
                os.fsync(stream.fileno())
            beside.rename(folder / f"{beside.name.removeprefix('.')}{WAITS}")
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise HistoryError(
            f"{folder}: nothing can be left there ({error.strerror}). Give this user the right and the room to write there"
        ) from None
    return reading.header


def take_waiting(path: Path, retention: float, clock: Clock, stop: threading.Event) -> None:
    """Take in what waits, before the history is opened for anything else; what cannot be taken is told in the log, renamed,
    and stops nobody. Raises HistoryError when the history itself cannot be had."""
    folder = path.with_name(FOLDER)
    waiting, cut_off = (sorted(folder.glob(f"[!.]*{end}")) for end in (WAITS, TAKING))
    if not waiting and not cut_off:
        return
    with closing(Intake(path, retention, clock, at_start=True)) as intake:
        _refuse_cut_off(cut_off)
        for file in waiting:
            if not stop.is_set():
                _take(intake, file, stop)


def _take(intake: Intake, file: Path, stop: threading.Event) -> None:
    taking = file.with_name(file.name + TAKING)
    try:
        # Should this start be killed for taking too long, the next one does not try again.
        file.rename(taking)
        with taking.open("rb") as stream:
            taken = intake.take(str(file), _read(stream, stop))
        taking.unlink()
    except (HistoryError, OSError) as error:
        if stop.is_set():
            _log.info("what was to be imported is left to the next start", extra={"file": str(file)})
            with suppress(OSError):
                taking.rename(file)
            return
        kept = _refuse(taking)
        _log.error("a history was not imported: %s", error, extra={"file": str(kept)})
        return
    sums: Counter[str] = sum(taken.tally.values(), Counter())
    _log.info(
        "a history was imported",
        extra={"targets": ", ".join(taken.header.targets), "rows": sum(sums.values()), "new": sums["new"]},
    )


def _refuse_cut_off(cut_off: Iterable[Path]) -> None:
    for taking in cut_off:
        kept = _refuse(taking)
        _log.error(
            "a history was not imported, for the exporter was killed while it took it in. Import it again, fewer targets "
            "at once",
            extra={"file": str(kept)},
        )


def _refuse(taking: Path) -> Path:
    kept = taking.with_name(taking.name.removesuffix(TAKING) + REFUSED)
    with suppress(OSError):
        taking.rename(kept)
    return kept


def _copied(pieces: Iterable[bytes], stream: BinaryIO) -> Iterator[bytes]:
    for piece in pieces:
        stream.write(piece)
        yield piece


def _read(stream: BinaryIO, stop: threading.Event) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        if stop.is_set():
            raise HistoryError("the exporter ends")
        yield piece
