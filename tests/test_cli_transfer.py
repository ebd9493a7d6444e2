"""`history export --format transfer` and `history import`, as an operator types them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.domain.sharding import shard_of
from tests.command_line import CommandLine, Done, assert_one_line
from tests.test_cli_records import TARGET, measured

assert shard_of("orders", 2) == 1


@pytest.fixture
def tde(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
def orders(tde: CommandLine) -> Callable[..., Done]:
    """The command line of an exporter that measured `orders`, and has another target now."""
    path = tde.config({"targets": [{**TARGET, "name": "second"}]})
    return lambda *arguments: tde(*arguments, TDE_EXPORTER_CONFIG=path)


@pytest.fixture
def file(tde: CommandLine, orders: Callable[..., Done]) -> Path:
    measured(tde, hours=1)
    path = tde.folder / "moved.tdehistory"
    assert orders("history", "export", "--format", "transfer", "--output", str(path)).returncode == 0
    return path


def elsewhere(tde: CommandLine, *arguments: str) -> Done:
    """The same with another state directory."""
    return tde(*arguments, TDE_EXPORTER_STATE_DIRECTORY=str(tde.folder / "elsewhere"))


def test_a_target_that_is_configured_no_more_is_taken_along(tde: CommandLine, orders: Callable[..., Done]) -> None:
    measured(tde, hours=30)
    path = tde.folder / "moved.tdehistory"
    done = orders("history", "export", "--format", "transfer", "--target", "orders", "--output", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("1 target (orders): ")
    assert " blocks of five minutes" in done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tde.folder.iterdir() if "tdehistory" in one.name] == [path.name]

    done = elsewhere(tde, "history", "import", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path}: 1 target (orders), exported ")
    assert "  blocks of five minutes: 3" in done.stdout
    done = elsewhere(tde, "history", "import", str(path), str(path))
    assert [line.endswith("; everything was here already") for line in done.stdout.splitlines()] == [True, True]
    ours, theirs = (
        command("history", "info").stdout.splitlines()[1:] for command in (orders, lambda *a: elsewhere(tde, *a))
    )
    assert ours == theirs


def test_through_pipes_and_by_shard(tde: CommandLine, orders: Callable[..., Done]) -> None:
    measured(tde, hours=1)
    command = [sys.executable, "-m", "exporter", "history"]
    config = str(tde.folder / "config.yaml")
    for shard, said in (("0/2", "no target"), ("1/2", "1 target (orders)")):
        done = subprocess.run(
            [*command, "export", "--format", "transfer", "--shard", shard],
            env=tde.environ(TDE_EXPORTER_CONFIG=config),
            capture_output=True,
            check=True,
            timeout=100,
        )
        assert done.stderr.decode().startswith(f"{said}: ")
        environ = tde.environ(TDE_EXPORTER_STATE_DIRECTORY=str(tde.folder / "elsewhere"))
        given = subprocess.run(
            [*command, "import", "-"], env=environ, input=done.stdout, capture_output=True, timeout=100
        )
        assert given.returncode == 0, given.stderr
        assert given.stdout.decode().startswith(f"standard input: {said}, exported ")
    assert "12 blocks" in elsewhere(tde, "history", "info").stdout


def test_what_is_asked_wrongly_is_one_line(tde: CommandLine, orders: Callable[..., Done], file: Path) -> None:
    export = ("history", "export", "--format", "transfer")
    assert_one_line(orders(*export, "--target", "nobody"), "holds nothing of a target 'nobody'. Name one of: orders")
    assert_one_line(orders(*export, "--since", "1h"), "a history is taken along whole")
    assert_one_line(orders(*export, "--output", str(tde.folder / "no" / "where")), "cannot be written (No such file")
    assert_one_line(orders("history", "export", "--shard", "1/2"), "--shard: this is for --format transfer")
    assert_one_line(orders("history", "export", "--output", "x"), "--output: this is for --format transfer")
    assert_one_line(elsewhere(tde, *export), "there is no history yet. `tde-exporter run` begins it")
    assert_one_line(orders("history", "import", str(tde.folder / "none")), "it cannot be read (No such file")
    assert_one_line(orders("history", "import", str(tde.folder)), "it cannot be read (Is a directory)")
    assert_one_line(orders("history", "import", "-", "-"), "standard input is named twice")
    assert orders(*export, "--shard", "4/4").returncode == 2
    assert not (tde.folder / "elsewhere").exists()


def test_an_export_does_not_go_to_a_terminal(tde: CommandLine) -> None:
    measured(tde, hours=1)
    code, said = tde.at_terminal("history", "export", "--format", "transfer", answer=lambda text: None)
    assert code == 1
    assert said.strip() == "tde-exporter: this is binary, and no terminal shows it. Give --output FILE, or redirect it"


def test_the_first_file_that_is_refused_ends_it(tde: CommandLine, file: Path) -> None:
    broken = tde.folder / "broken"
    broken.write_bytes(file.read_bytes()[:-9])
    done = elsewhere(tde, "history", "import", str(file), str(broken), str(file))
    assert_one_line(done, f"{broken}, line ")
    assert "its end is missing. Export it again; nothing of this file was imported" in done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith(str(file))]) == 1
    assert "12 blocks" in elsewhere(tde, "history", "info").stdout


def test_a_file_is_left_to_the_next_start(tde: CommandLine, file: Path) -> None:
    done = elsewhere(tde, "history", "import", "--at-restart", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{file}: 1 target (orders), waits for the next start of the exporter\n"
    (left,) = (tde.folder / "elsewhere" / "import").iterdir()
    assert left.read_bytes() == file.read_bytes()


if os.geteuid() == 0:
    # Only root can make what belongs to somebody else.

    def test_the_history_of_another_user_is_left_alone(tde: CommandLine, file: Path) -> None:
        folder = tde.folder / "elsewhere"
        folder.mkdir()
        for part in (folder, folder / "history.db"):
            part.touch() if part != folder else None
            os.chown(part, 65532, 65532)
            done = elsewhere(tde, "history", "import", str(file))
            assert_one_line(
                done, "this belongs to user #65532, whose exporter could not use what you write here. Import as"
            )
            assert_one_line(elsewhere(tde, "history", "import", "--at-restart", str(file)), "belongs to user #65532")
        assert [one.name for one in folder.iterdir()] == ["history.db"]
