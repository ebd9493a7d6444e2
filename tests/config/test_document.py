"""The strict YAML reader: what it refuses, where it says the trouble is, and what it never quotes."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from exporter.config import document
from exporter.domain.errors import ConfigErrors

HIDDEN = "S3CR3T-value"


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        document.parse(text, "c.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.problems)
    return lines


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "c.yaml", "empty"),
        ("# only a comment\n", "c.yaml", "empty"),
        ("---\n", "c.yaml", "empty"),
        ("~\n", "c.yaml", "empty"),
        ("- a\n- b\n", "c.yaml:1", "a list, not a section"),
        ("text\n", "c.yaml:1", "a single value"),
        ("a: 1\nb:\n\tc: 2\n", "c.yaml:3", "tab"),
        ("a: 1\nb: 2\na: 3\n", "c.yaml:3", "'a' stands here twice, first on line 1"),
        ("a:\n  - b: 1\n    b: 2\n", "c.yaml:3", "'b' stands here twice, first on line 2"),
        ("a: 1\n'a': 2\n", "c.yaml:2", "twice"),
        ("a: 1\n---\na: 2\n", "c.yaml:2", "several documents"),
        ("a: !!python/object/apply:os.system ['true']\n", "c.yaml:1", "tags"),
        ("a: !env NAME\n", "c.yaml:1", "tags"),
        ("a: !!binary aGk=\n", "c.yaml:1", "tags"),
        ("a: !!timestamp 2020-01-01\n", "c.yaml:1", "tags"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "c.yaml:3", "merge keys"),
        ("1: a\n", "c.yaml:1", "a key must be text"),
        ("true: a\n", "c.yaml:1", "a key must be text"),
        ("? [a]\n: b\n", "c.yaml:1", "a key must be text"),
        ("a: *nowhere\n", "c.yaml:1", "alias"),
        ("a: [1, 2\n", "c.yaml:2", "not closed"),
        ('a: "b\nc: d\n', "c.yaml:3", "quote"),
        ("a: b: c\n", "c.yaml:1", "colon"),
        ("a: @b\n", "c.yaml:1", "special character"),
        ('a: "\\q"\n', "c.yaml:1", "escape"),
        ("a: 1\n  b: 2\n", "c.yaml:2", "colon"),
        ("a:\n    b: 1\n  c: 2\n", "c.yaml:3", "indentation"),
        ("a: \x07\n", "c.yaml:1", "character that YAML does not allow"),
        ("a: !!int x\n", "c.yaml:1", "number cannot be read"),
        ("a: " + "9" * 5000 + "\n", "c.yaml:1", "number cannot be read"),
        ("a: &a [*a]\n", "c.yaml:1", "too deeply"),
        ("a: " + "[" * 20_000, "c.yaml", "too deeply"),
        ("a: " + "[" * 100 + "]" * 100 + "\n", "c.yaml:1", "too deeply"),
    ],
)
def test_what_is_refused_is_located_and_explained(text: str, place: str, words: str) -> None:
    (line,) = refused(text)

    assert line.startswith(f"{place}: ")
    assert words in line


def test_every_duplicate_is_reported_at_once() -> None:
    assert len(refused("a: 1\na: 2\nb: {c: 1, c: 2}\n1: x\n")) == 3


def test_a_few_lines_cannot_stand_for_billions_of_values() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]

    (line,) = refused("\n".join(lines))

    assert "values" in line


@pytest.mark.parametrize(
    "text",
    [f"a: *{HIDDEN}", f"a: !{HIDDEN} x", f"{HIDDEN}: [", f'a: "\\{HIDDEN}"', f"a: @{HIDDEN}", f"a: %{HIDDEN}\n\tb"],
)
def test_the_file_is_never_quoted(text: str) -> None:
    assert all(HIDDEN not in line for line in refused(text))


def test_plain_values_follow_yaml_1_2() -> None:
    text = "a: no\nb: on\nc: 1:30\nd: 0123\ne: 200_000\nf: 1e3\ng: .5\nh: true\ni: ~\nj: 2020-01-01\nk: 0x10\nl: -7\nm: .inf\nn: .nan\no: '5'\np:\n"
    data = document.parse(text, "c.yaml").data

    assert math.isnan(data.pop("n"))
    assert data == {
        "a": "no", "b": "on", "c": "1:30", "d": "0123", "e": 200_000, "f": 1000.0, "g": 0.5, "h": True,
        "i": None, "j": "2020-01-01", "k": 16, "l": -7, "m": math.inf, "o": "5", "p": None,
    }  # fmt: skip
    assert data["h"] is True


def test_an_alias_repeats_a_section() -> None:
    assert document.parse("a: &x {b: 1}\nc: *x\n", "c.yaml").data == {"a": {"b": 1}, "c": {"b": 1}}


def test_lines_of_keys_and_of_list_items_are_known() -> None:
    found = document.parse("a:\n  - b: 1\n    c: 2\n  - d\n", "c.yaml")

    assert found.line(("a", 0, "c")) == 3
    assert found.line(("a", 1)) == 4
    assert found.line(("a", 0, "missing")) == 2
    assert found.line(("other",)) is None


def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")

    assert document.read(path).data == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\x02\x01\x01\xff\xfe", "UTF-8"),
        (b"\x00\x01\x02", "character"),
        (b"x" * (document.LARGEST + 1), "larger"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)

    with pytest.raises(ConfigErrors) as caught:
        document.read(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("absent.yaml", "does not exist"), ("", "directory"), ("a\0b", "cannot be read"), ("x" * 300, "name too long")],
)
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ConfigErrors, match=words):
        document.read(tmp_path / name)


@pytest.mark.parametrize("content", [None, b"targets: []\n"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, content: bytes | None) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = None if content is None else os.open(pipe, os.O_RDWR)
    if writer is not None:
        os.write(writer, content or b"")
    with pytest.raises(ConfigErrors, match="this is a pipe"):
        document.read(pipe)
    if writer is not None:
        os.close(writer)


def test_a_file_name_cannot_break_the_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        document.read(tmp_path / "a\nERROR: b")
    assert len(str(caught.value).splitlines()) == 1


def test_an_endless_file_ends() -> None:
    if os.path.exists("/dev/zero"):  # noqa: PTH110
        with pytest.raises(ConfigErrors, match="larger"):
            document.read(Path("/dev/zero"))
