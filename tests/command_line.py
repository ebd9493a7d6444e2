"""Runs the command line in a process of its own, without a terminal or at one, as an operator would."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

PATIENCE = 100.0
Done = subprocess.CompletedProcess[str]


class CommandLine:
    """`tde-exporter` with a state directory and a configuration below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"

    def environ(self, **more: str) -> dict[str, str]:
        return {**os.environ, "TDE_EXPORTER_STATE_DIRECTORY": str(self.state), **more}

    def config(self, content: Any) -> str:
        """Write a configuration, given as YAML or as what it holds; the path of the file."""
        path = self.folder / "config.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    def __call__(self, *arguments: str, **environ: str) -> Done:
        return subprocess.run(
            [sys.executable, "-m", "exporter", *arguments],
            env=self.environ(**environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The same, not waited for; standard error goes into a pipe."""
        return subprocess.Popen(
            [sys.executable, "-m", "exporter", *arguments],
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def at_terminal(self, *arguments: str, answer: Callable[[str], str | None]) -> tuple[int, str]:
        """Run at a terminal of its own: exit code, and all that stood there. `answer` sees what has been written so
        far, and says what is typed next, if anything."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "exporter", *arguments],
            env=self.environ(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            text = _dialogue(ours, answer)
            return process.wait(PATIENCE), text
        finally:
            os.close(ours)
            process.kill()
            process.wait()


def _dialogue(terminal: int, answer: Callable[[str], str | None]) -> str:
    text = b""
    while select.select([terminal], [], [], PATIENCE)[0]:
        try:
            said = os.read(terminal, 65536)
        except OSError:
            # The other side has been closed.
            break
        text += said
        typed = answer(text.decode(errors="replace"))
        if typed is not None:
            os.write(terminal, typed.encode())
    return text.decode().replace("\r\n", "\n")


def assert_one_line(done: Done, named: str) -> None:
    """The command failed, and one line on standard error says why."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("tde-exporter: ")
    assert named in lines[0]
