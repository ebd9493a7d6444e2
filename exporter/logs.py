"""Messages on standard error: one line each, with a time, a level, a logger, a message and fields; never a secret.

Every module logs through the standard library (`logging.getLogger(__name__)`, fields by `extra=`). This module
decides how a message looks. It is also the last stop of an exception that nobody caught.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO

import structlog

from exporter.config.secrets import redact

_OWN = "exporter"
_LATER = ("ts", "level", "logger", "msg")
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"} | {
    ord("\t"): "\\t",
    ord("\r"): "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["logfmt", "json"]


def configure(level: Level = "warning", format: Format = "logfmt", *, stream: TextIO | None = None) -> None:
    """Send all messages of this process to `stream` (default: standard error, whatever that is at the time).

    `level` is for this package; others are heard from `warning` on. Calling it again replaces what was set before.
    Warnings of Python and uncaught exceptions of all threads go the same way.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Output)]:
        root.removeHandler(handler)
    output = _Output(stream)
    output.setFormatter(_Formatter(format))
    root.addHandler(output)
    chosen = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(chosen, logging.WARNING))
    logging.getLogger(_OWN).setLevel(chosen)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _uncaught_in_thread


class _Output(logging.Handler):
    """Writes lines to a stream; what cannot be written is lost, for there is nowhere else to say so."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        try:
            stream = self._stream or sys.stderr
            stream.write(self.format(record) + "\n")
            stream.flush()
        except (OSError, ValueError, AttributeError):
            # A closed pipe or stream. The standard handler would print the record, unredacted, somewhere else.
            return


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Renders records; a record that cannot be rendered still yields a line, without its content."""

    def __init__(self, format: Format) -> None:
        logfmt = structlog.processors.LogfmtRenderer(bool_as_flag=False)
        renderers: tuple[Any, ...] = (_one_line, logfmt) if format == "logfmt" else (_json,)
        super().__init__(processors=[_fields, *renderers], foreign_pre_chain=[])

    def format(self, record: logging.LogRecord) -> str:
        try:
            return super().format(record)
        except Exception:  # the bad record may hold anything, a secret as well
            where = {"file": record.filename, "line": record.lineno}
            bare = logging.makeLogRecord(
                {"name": record.name, "levelno": record.levelno, "levelname": record.levelname, **_when(record)}
            )
            bare.msg = "a message could not be formatted"
            bare.__dict__.update({f"at_{key}": value for key, value in where.items()})
            return super().format(bare)


def _when(record: logging.LogRecord) -> dict[str, float]:
    return {"created": record.created, "msecs": record.msecs}


def _fields(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Time, level, logger and message, then the other fields sorted; all of them redacted."""
    record: logging.LogRecord = event["_record"]
    moment = datetime.fromtimestamp(record.created, UTC)
    fields: dict[str, Any] = {
        "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "msg": _safe(str(event["event"])),
    }
    extra = {_key(key, fields): value for key, value in record.__dict__.items() if key not in _STANDARD}
    if exc_info := event.get("exc_info"):
        extra["exception"] = logging.Formatter().formatException(exc_info)
    if stack := event.get("stack_info"):
        extra["stack"] = stack
    return fields | {key: _safe(extra[key]) for key in sorted(extra)}


def _key(key: Any, taken: Mapping[str, Any]) -> str:
    """A key that logfmt allows and that does not hide one of ours."""
    text = "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in str(key)) or "_"
    return f"{text}_" if text in taken else text


def _safe(value: Any) -> Any:
    """A value that both formats can write, without secrets. What is no plain value becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # A secret may consist of digits.
        return value if redact(str(value)) == str(value) else redact(str(value))
    if isinstance(value, float) and math.isfinite(value):
        return value
    return redact(str(value))


def _one_line(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Escapes what would break a line or drive a terminal; the renderer escapes line feeds itself."""
    return {key: value.translate(_CONTROL) if isinstance(value, str) else value for key, value in event.items()}


_json = structlog.processors.JSONRenderer()
_logger = logging.getLogger(f"{_OWN}.uncaught")


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        _logger.warning("interrupted from the keyboard")
    else:
        _logger.critical("nobody caught an exception", exc_info=(kind, error, trace))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if issubclass(args.exc_type, SystemExit):
        return
    name = args.thread.name if args.thread else "unknown"
    error = args.exc_value or args.exc_type()
    info = (args.exc_type, error, args.exc_traceback)
    _logger.critical("nobody caught an exception in a thread", exc_info=info, extra={"thread_name": name})


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    if args.exc_value is not None:
        info = (args.exc_type, args.exc_value, args.exc_traceback)
        _logger.error("an exception could not be raised", exc_info=info)
