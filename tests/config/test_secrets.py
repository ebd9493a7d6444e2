"""Secrets arrive byte for byte, by file or variable only, and never show up anywhere."""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import pickle
import re
import shlex
import string
import sys
import textwrap
import threading
import traceback
import xml.sax.saxutils
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from exporter.config.redactor import Redactor
from exporter.config.secrets import LARGEST, SecretSource, redact, shown, sources
from exporter.domain.errors import SecretError

MARKER = "S3CR3T-0e8f2f1e-6a55-4d6c-9b4b-6d9b7d6f4a11"
PASSWORDS = [
    *(f"pass{letter}word" for letter in string.punctuation + " ü€"),
    *(letter for letter in string.punctuation + "ü"),
    string.punctuation,
    "ü" * 128,
    ("Aa1" + string.punctuation * 4)[:128],
    "$HOME ${HOME} `id` %s %(x)s {} \\n",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "password"


def source(path: Path) -> SecretSource:
    return SecretSource(file=path)


@pytest.mark.parametrize("password", PASSWORDS)
def test_every_character_arrives_as_it_is(file: Path, password: str) -> None:
    file.write_bytes(password.encode() + b"\n")

    assert source(file).read() == password
    assert SecretSource(env="PW").read({"PW": password}) == password


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "pässword")
    assert SecretSource(env="PW").read() == "pässword"


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), min_size=1, max_size=128))
def test_any_text_arrives_as_it_is(tmp_path: Path, password: str) -> None:
    for end in (b"", b"\n", b"\r\n"):
        path = tmp_path / "any"
        path.write_bytes(password.encode() + end)
        assert source(path).read() == password


@pytest.mark.parametrize(
    ("content", "expected", "warns"),
    [
        (b"pw", "pw", False),
        (b"pw\n", "pw", False),
        (b"pw\r\n", "pw", False),
        (b"p w\n", "p w", False),
        (b"pw \n", "pw ", True),
        (b" pw", " pw", True),
        (b"pw\t\r\n", "pw\t", True),
        (b"pw\n\n", "pw\n", True),
        (b"pw\r", "pw\r", True),
        (b"pw\n\r\n", "pw\n", True),
        (b"\xef\xbb\xbfpw\n", "\ufeffpw", True),
        (b" \n", " ", True),
    ],
)
def test_exactly_one_line_end_is_dropped(
    file: Path, caplog: pytest.LogCaptureFixture, content: bytes, expected: str, warns: bool
) -> None:
    file.write_bytes(content)

    with caplog.at_level(logging.WARNING):
        assert source(file).read() == expected
    assert bool(caplog.records) is warns
    assert all(str(file) in record.getMessage() and "pw" not in record.getMessage() for record in caplog.records)


def test_a_changed_file_is_read_again(file: Path) -> None:
    secret = source(file)
    file.write_text("first\n")
    assert secret.read() == "first"
    file.write_text("second\n")
    assert secret.read() == "second"
    assert redact("first second") == "*** ***"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\r\n", "is empty"),
        (MARKER.encode() + b"\xff", "not text in UTF-8"),
        (MARKER.encode("utf-16"), "not text in UTF-8"),
        (MARKER.encode("utf-16-be"), "NUL"),
        (MARKER.encode() * LARGEST, "larger than"),
    ],
)
def test_a_file_that_holds_no_secret_is_named_but_not_shown(file: Path, content: bytes, words: str) -> None:
    file.write_bytes(content)

    with pytest.raises(SecretError) as caught:
        source(file).read()
    shown = "".join(traceback.format_exception(caught.value))
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
    assert MARKER not in shown
    assert MARKER not in repr(caught.value.__context__ if not caught.value.__suppress_context__ else "")
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "plain").write_text("x")
    for path, words in [
        (tmp_path / "absent", "does not exist"),
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "not a regular file"),
        (Path("/dev/null"), "not a regular file"),
        (tmp_path / "plain" / "below", "not a directory"),
        (tmp_path / ("x" * 300), "name too long"),
    ]:
        with pytest.raises(SecretError) as caught:
            source(path).read()
        assert str(path) in str(caught.value)
        assert words in str(caught.value)


def test_a_file_without_permission_is_named(file: Path) -> None:
    file.write_text(MARKER)
    file.chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)  # root may read everything
    try:
        with pytest.raises(SecretError, match="may not be read") as caught:
            source(file).read()
    finally:
        os.seteuid(me)
    assert str(file) in str(caught.value)
    assert MARKER not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "words"),
    [({}, "is not set"), ({"PW": ""}, "is empty"), ({"PW": "\n"}, "is empty"), ({"PW": "a\udcff"}, "UTF-8")],
)
def test_a_variable_that_holds_no_secret_is_named(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SecretError, match=f"environment variable PW: {words}|environment variable PW: .*{words}"):
        SecretSource(env="PW").read(environ)


@pytest.mark.parametrize(
    "given_value",
    [MARKER, 5, [MARKER], {"file": "a", "env": "B"}, {}, {"env": MARKER}, {"value": MARKER}, {"file": ""}],
)
def test_a_secret_never_stands_in_the_configuration(given_value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        SecretSource.model_validate(given_value)
    assert MARKER not in str(caught.value)
    assert MARKER not in str(caught.value.errors(include_input=False))


def test_a_source_shows_nothing(file: Path) -> None:
    file.write_text(MARKER)
    secret = source(file)
    secret.read()

    assert repr(secret) == str(secret) == "SecretSource(***)"
    assert repr(SecretSource(env="hunter2")) == "SecretSource(***)"
    assert pickle.loads(pickle.dumps(secret)).read() == MARKER
    assert MARKER not in str(secret.model_dump())


def test_sources_are_found_with_their_places(file: Path) -> None:
    one, two = source(file), SecretSource(env="A")
    assert list(sources({"x": ({"y": one}, 5), "z": two})) == [(("x", 0, "y"), one), (("z",), two)]


def test_what_was_read_is_redacted_however_it_is_written() -> None:
    password = "pä\"ss'w\\rd %41/\n&x=1"
    SecretSource(env="PW").read({"PW": password})

    assert redact(f"mysql://user:{quote(password, safe='')}@host") == "mysql://user:***@host"
    assert redact(f"?password={quote_plus(password)}&x") == "?password=***&x"
    for text in (
        password,
        f"Access denied: {password!r}",
        f"{password.encode()!r}",
        json.dumps({"password": password}),
        json.dumps({"password": password}, ensure_ascii=False),
        str(ValueError(password).args),
    ):
        assert redact(text) != text
        for rest in ("ss'w", "ss\\'w", "w\\rd"):
            assert rest not in redact(text)


def url(secret: str) -> str:
    return f"mysql://probe:{quote(secret, safe='')}@db.example/"


def group(secret: str) -> str:
    """What stands in a group of exceptions is indented."""
    try:
        raise ExceptionGroup("several", [ValueError(f"login with {secret} failed")])
    except ExceptionGroup:
        return traceback.format_exc()


def chain(secret: str) -> str:
    try:
        try:
            raise KeyError(secret)
        except KeyError as error:
            error.add_note(f"with {secret}")
            raise RuntimeError(str(error)) from error
    except RuntimeError:
        return traceback.format_exc()


WRITERS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "repr": repr,
    "repr of its bytes": lambda secret: repr(secret.encode()),
    "ascii": ascii,
    "JSON": lambda secret: json.dumps({"password": secret}),
    "JSON in UTF-8": lambda secret: json.dumps([secret], ensure_ascii=False),
    "JSON in JavaScript": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"password": secret})),
    "URL": url,
    "URL in small letters": lambda secret: re.sub("%..", lambda found: found[0].lower(), url(secret)),
    "form": lambda secret: urlencode({"user": "x", "password": secret}),
    "HTML": lambda secret: html.escape(f"<td>{secret}</td>"),
    "XML": lambda secret: xml.sax.saxutils.escape(secret),
    "SQL": lambda secret: "ALTER USER x IDENTIFIED BY '" + secret.replace("'", "''") + "'",
    "SQL of MySQL": lambda secret: "'" + secret.replace("\\", "\\\\").replace("'", "\\'") + "'",
    "identifier": lambda secret: 'IDENTIFIED BY "' + secret.replace('"', '""') + '"',
    "shell": lambda secret: shlex.join(["login", "-p", secret]),
    "one line": lambda secret: " ".join(f"the password {secret} is wrong".split()),
    "indented": lambda secret: textwrap.indent(f"login: {secret}", "  | "),
    "traceback": chain,
    "group of exceptions": group,
    "basic authentication": lambda secret: "Basic " + base64.b64encode(f"probe:{secret}".encode()).decode(),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 in a URL": lambda secret: base64.urlsafe_b64encode(f"ab{secret}cd".encode()).decode(),
    "hexadecimal": lambda secret: "0x" + secret.encode().hex(),
    "hexadecimal in capitals": lambda secret: secret.encode().hex().upper(),
}
INNER = "Kx7Qm2Zr9Tb4"
AROUND = st.text(
    st.sampled_from("aé'\"\\%$&<>/+ \t;:@#?=`{}€😀_-") | st.characters(codec="utf-8", exclude_characters="\0\r\n"),
    max_size=12,
)


def traces(secret: str, text: str) -> list[str]:
    """What of the secret is in the text: its inner part, or this in another writing."""
    inner = INNER.encode()
    written = {INNER, inner.hex(), inner.hex().upper()}
    written |= {base64.b64encode(bytes(before) + inner).decode()[before + 2 : 14] for before in range(3)}
    return [each for each in written if each in text]


@given(AROUND, AROUND, st.booleans())
@pytest.mark.parametrize("writer", WRITERS)
def test_no_program_writes_a_secret_in_a_way_that_is_not_found(
    writer: str, before: str, after: str, lines: bool
) -> None:
    secret = f"x{before}{INNER}{after}" + ("\n" + INNER + "-2" if lines else "")
    redactor = Redactor()
    redactor.remember(secret)
    text = WRITERS[writer](secret)

    assert traces(secret, text)
    assert traces(secret, redactor.redact(text)) == []


def test_a_secret_that_is_the_writing_of_another_one_is_found_in_its_own_writings() -> None:
    first = 'x"Kx7Qm2Zr9Tb4'
    second = json.dumps(first)[1:-1]
    redactor = Redactor()
    redactor.remember(first)
    redactor.remember(second)

    for write in WRITERS.values():
        assert traces(second, redactor.redact(write(second))) == []


def test_words_that_are_no_secret_stay() -> None:
    SecretSource(env="PW").read({"PW": "correct-horse-battery"})
    words = "the connection to db.example:3306 was refused, fingerprint 3b5d5c3712955042212316173ccf37be"
    assert redact(words) == words


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (
            "db:1: secret file /run/secrets/db/pw: does not exist. Create it",
            "db:1: secret file …/pw: does not exist. Create it",
        ),
        ("secret file /pw: is empty", "secret file …/pw: is empty"),
        ("secret file /a b/c: d/pw: is empty. Put it in", "secret file …/pw: is empty. Put it in"),
        ("no secret file here", "no secret file here"),
    ],
)
def test_strangers_see_of_a_secrets_place_only_the_name(said: str, seen: str) -> None:
    assert shown(said) == seen


def test_the_longest_secret_is_taken_out_first() -> None:
    for value in ("abcd1", "xabcd1y", "abcd12"):
        SecretSource(env="PW").read({"PW": value})
    assert redact("-xabcd1y-abcd12-abcd1-") == "-***-***-***-"


def test_very_short_secrets_do_not_blot_out_everything() -> None:
    SecretSource(env="PW").read({"PW": "e"})
    assert redact("here") == "here"


def test_redaction_holds_while_secrets_are_read() -> None:
    names = [f"concurrent-secret-{number}" for number in range(200)]
    shown: list[str] = []

    def read_and_show(chosen: list[str]) -> None:
        for name in chosen:
            SecretSource(env="PW").read({"PW": name})
            shown.append(redact(name))

    threads = [threading.Thread(target=read_and_show, args=(names[start::4],)) for start in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(shown) == len(names)
    assert not any(name in redact(name) for name in names)
    assert not any("concurrent-secret-" in text and text in names for text in shown)
