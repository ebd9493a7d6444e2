"""Words for people, whatever their terminal can show and whether they still listen."""

import subprocess
import sys

import pytest

HEARD = """
from exporter.console import Progress, tell, use_plain_letters
use_plain_letters()
progress = Progress(every=0.0)
progress("building", 0.5)
progress("measuring", 0.0)
progress.done()
tell("−5 % … 2 × 3 µs ☃")
"""


def run(shell="", **environ):
    return subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {shell}', sys.executable, HEARD],
        env={"PYTHONPATH": ":".join(sys.path), **environ},
        capture_output=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_the_terminal_lacks_are_written_plainly(encoding):
    done = run(PYTHONIOENCODING=encoding)

    assert done.returncode == 0
    told = done.stdout.decode(encoding)
    # A minus sign must not become a question mark: that would be another number.
    assert told.startswith("-5 % ... 2 ")
    assert told.endswith(" 3 us ?\n") if encoding == "ascii" else told.endswith(" 3 µs ?\n")
    assert "building ..." in done.stderr.decode(encoding)


@pytest.mark.parametrize("shell", [">/dev/full", "2>/dev/full", ">&-", "2>&-", ">&- 2>&-", "| true"])
def test_nothing_fails_because_nobody_reads(shell):
    done = run(shell)

    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
