"""Every message is one line in the chosen format, without secrets, whatever is thrown at it."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter import logs
from exporter.config.secrets import SecretSource

MARKER = "S3CR3T-7d1f\"x' y\\z=1"
ours = logging.getLogger("exporter.test_logs")


@pytest.fixture(autouse=True)
def _restored(no_secrets_known: None) -> Iterator[None]:
    """Logging and secrets are the process's: what a test does must not reach the next one,"""
    root, own = logging.getLogger(), logging.getLogger("exporter")
    before = root.level, own.level, sys.excepthook, sys.unraisablehook, threading.excepthook
    yield
    logging.captureWarnings(False)
    root.handlers[:] = [handler for handler in root.handlers if handler.formatter.__class__.__module__ != logs.__name__]
    root.setLevel(before[0])
    own.setLevel(before[1])
    sys.excepthook, sys.unraisablehook, threading.excepthook = before[2:]


Start = Callable[..., io.StringIO]


@pytest.fixture
def start() -> Start:
    def configure(level: Any = "debug", format: Any = "logfmt") -> io.StringIO:
        # pytest's own handlers raise what a handler must swallow.
        logging.getLogger().handlers.clear()
        stream = io.StringIO()
        logs.configure(level, format, stream=stream)
        return stream

    return configure


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def read_logfmt(line: str) -> dict[str, str]:
    """What a logfmt reader makes of a line."""
    pairs = re.findall(r'([^ =]+)=("(?:[^"\\]|\\.)*"|[^ "]*)(?: |$)', line)
    assert " ".join(f"{key}={value}" for key, value in pairs) == line
    return {
        key: re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value[1:-1])
        if value[:1] == '"'
        else value
        for key, value in pairs
    }


def test_a_line_of_logfmt(start: Start) -> None:
    stream = start()
    ours.info("target %s reached", "db1", extra={"seconds": 0.25, "attempt": 2, "cold": True, "role": None})

    (line,) = lines(stream)
    ts, rest = line.split(" ", 1)
    assert re.fullmatch(r"ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", ts)
    assert (
        rest == 'level=info logger=exporter.test_logs msg="target db1 reached" attempt=2 cold=true role= seconds=0.25'
    )


def test_a_line_of_json(start: Start) -> None:
    stream = start(format="json")
    ours.warning("target %s reached", "db1", extra={"seconds": 0.25, "endless": float("inf"), "role": None})

    (line,) = lines(stream)
    found = json.loads(line)
    assert list(found) == ["ts", "level", "logger", "msg", "endless", "role", "seconds"]
    assert datetime.fromisoformat(found.pop("ts")).utcoffset() is not None
    assert found == {
        "level": "warning", "logger": "exporter.test_logs", "msg": "target db1 reached",
        "endless": "inf", "role": None, "seconds": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_many_lines_and_exceptions_stay_on_one_line(start: Start, format: str) -> None:
    stream = start(format=format)
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        ours.exception("a\nb\r\x1b[31m\u2028c")
    ours.info("stack", stack_info=True)

    first, second = lines(stream)
    read: Callable[[str], dict[str, str]] = json.loads if format == "json" else read_logfmt
    assert "ValueError: first\nsecond" in read(first)["exception"]
    assert "Stack (most recent call last)" in read(second)["stack"]
    assert first.isprintable()


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_secrets_are_redacted_in_message_fields_and_exceptions(start: Start, format: str) -> None:
    SecretSource(env="PW").read({"PW": MARKER})
    SecretSource(env="PW").read({"PW": "83920174"})
    stream = start(format=format)
    fields = {
        "text": MARKER,
        "nested": {"password": MARKER},
        "error": ValueError(MARKER),
        "url": f"a:{MARKER}@b",
        "pin": 83920174,
    }
    ours.info(f"plain {MARKER}")
    ours.info("args %s %r", MARKER, MARKER, extra=fields)
    try:
        try:
            raise KeyError(MARKER)
        except KeyError as error:
            raise RuntimeError(f"login with {MARKER} failed") from error
    except RuntimeError:
        ours.exception("failed")

    assert len(lines(stream)) == 3
    assert "***" in lines(stream)[2]
    for part in ("S3CR3T", "7d1f", "83920174"):
        assert part not in stream.getvalue()


class Hostile:
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError(MARKER)

    __repr__ = __str__


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_a_message_that_cannot_be_formatted_leaves_a_safe_line(
    start: Start, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = start(format=format)
    ours.info("%d", MARKER)
    ours.info("%s %s", MARKER)
    ours.info("hostile", extra={"value": Hostile()})

    assert len(lines(stream)) == 3
    assert all("a message could not be formatted" in line and "test_logs.py" in line for line in lines(stream))
    assert MARKER not in stream.getvalue()
    assert "".join(capsys.readouterr()) == ""


def test_our_own_fields_cannot_be_replaced(start: Start) -> None:
    stream = start(format="json")
    ours.info("real", extra={"level": "fake", "ts": "fake", "logger": "fake", "a b=c": 1})

    found = json.loads(lines(stream)[0])
    assert (found["level"], found["logger"], found["level_"], found["a_b_c"]) == (
        "info",
        "exporter.test_logs",
        "fake",
        1,
    )


@pytest.mark.parametrize(
    ("level", "own", "foreign"), [("debug", 4, 2), ("info", 3, 2), ("warning", 2, 2), ("error", 1, 1)]
)
def test_levels(start: Start, level: str, own: int, foreign: int) -> None:
    stream = start(level)
    for name in ("exporter.probing.lane", "apscheduler.scheduler", "uvicorn.error"):
        for method in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger(name), method)("x")

    text = stream.getvalue()
    assert text.count("logger=exporter.probing.lane") == own
    assert text.count("logger=apscheduler.scheduler") == text.count("logger=uvicorn.error") == foreign


def test_the_default_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    ours.info("chatter")
    ours.warning("trouble")

    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "level=warning" in err


def test_configuring_again_replaces(start: Start) -> None:
    first = start()
    second = start(format="json")
    ours.info("once")

    assert first.getvalue() == ""
    assert len(lines(second)) == 1


def test_a_closed_stream_disturbs_nobody(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    stream = start()
    stream.close()
    ours.error("lost")
    assert "".join(capsys.readouterr()) == ""


def test_warnings_of_python_are_messages(start: Start) -> None:
    stream = start()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    (line,) = lines(stream)
    assert "logger=py.warnings" in line
    assert "old ways" in line


_CRASH = """
import sys, threading
from exporter import logs
from exporter.config.secrets import SecretSource
secret = SecretSource(env="PW").read({{"PW": sys.argv[1]}})
logs.configure("warning", "{format}")
class Bad:
    def __del__(self): raise ValueError(secret)
Bad()
def fail(): raise RuntimeError("thread " + secret)
thread = threading.Thread(target=fail, name="lane-db1"); thread.start(); thread.join()
def stop(): raise SystemExit
thread = threading.Thread(target=stop); thread.start(); thread.join()
raise {error}
"""


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_what_nobody_caught_is_logged_redacted(format: str) -> None:
    program = _CRASH.format(format=format, error="LookupError(secret)")
    ran = subprocess.run(
        [sys.executable, "-c", program, MARKER], capture_output=True, text=True, timeout=100, check=False
    )

    found = ran.stderr.splitlines()
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert [re.findall(r"(ValueError|RuntimeError|LookupError)", line)[-1] for line in found] == [
        "ValueError",
        "RuntimeError",
        "LookupError",
    ]
    assert "lane-db1" in found[1]
    assert "S3CR3T" not in ran.stderr


def test_an_interrupt_leaves_no_traceback() -> None:
    program = _CRASH.format(format="logfmt", error="KeyboardInterrupt")
    ran = subprocess.run(
        [sys.executable, "-c", program, MARKER], capture_output=True, text=True, timeout=100, check=False
    )

    assert ran.returncode != 0
    assert "interrupted" in ran.stderr.splitlines()[-1]
    assert "KeyboardInterrupt" not in ran.stderr


_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=5)
    | st.just(MARKER),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_keys = st.text(min_size=1, max_size=8).filter(
    lambda key: key not in logging.makeLogRecord({}).__dict__ and key not in ("message", "asctime")
)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    message=st.text(max_size=30) | st.just(MARKER),
    extra=st.dictionaries(_keys, _anything, max_size=4),
    format=st.sampled_from(["logfmt", "json"]),
)
def test_any_record_is_one_readable_line(start: Start, message: str, extra: dict[str, Any], format: str) -> None:
    SecretSource(env="PW").read({"PW": MARKER})
    stream = start(format=format)
    ours.info("%s", message, extra=extra)

    assert stream.getvalue().endswith("\n")
    (line,) = lines(stream)
    found = json.loads(line) if format == "json" else read_logfmt(line)
    assert list(found)[:4] == ["ts", "level", "logger", "msg"]
    assert found["msg"] != "a message could not be formatted"
    assert "S3CR3T" not in line
