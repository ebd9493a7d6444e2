"""`tde-exporter`, and `python -m exporter`."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command line; the exit code."""
    ask_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ask_python:
        # While modules are being loaded there is nothing to take down: a Ctrl-C ends that at once and in silence.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from exporter.cli import main as command_line

    if ask_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
