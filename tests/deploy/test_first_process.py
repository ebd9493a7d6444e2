"""The image's first process, where another one is the first. As the first itself it is tried by the tests of the image."""

from __future__ import annotations

import subprocess
import sys

from tests.deploy.kit import ROOT

SCRIPT = ROOT / "deploy" / "image" / "first.py"


def test_behind_another_init_the_command_takes_its_place() -> None:
    command = [sys.executable, "-IS", str(SCRIPT), "sh", "-c", "echo $$; exit 7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
        said, _ = started.communicate(timeout=50)
    assert (said.strip(), started.returncode) == (str(started.pid), 7)
