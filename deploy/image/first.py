#!/usr/local/bin/python3 -IS
"""The first process of the container: it starts the command, hands signals on, and reaps whoever dies without a parent.

    tde-exporter-first COMMAND [ARGUMENT...]

An exporter whose probe process is killed inherits what that had started, and would keep it as a zombie when it ends.
Where another init is the first process (`docker run --init`), the command takes this one's place.
"""

from __future__ import annotations

import os
import signal
import sys

HANDED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
FROM_TERMINAL = 0x80
"""SI_KERNEL: Ctrl-C went to the command as well."""


def main() -> int:
    """The exit code of the command; 128 and its number after a signal."""
    command = sys.argv[1:]
    if os.getpid() != 1:
        os.execvp(command[0], command)
    waited = HANDED_ON | {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
        # Python's own start changed these; a program expects them as they are by default.
        for changed in (signal.SIGPIPE, signal.SIGINT):
            signal.signal(changed, signal.SIG_DFL)
        os.execvp(command[0], command)
    while True:
        told = signal.sigwaitinfo(waited)
        if told.si_signo != signal.SIGCHLD:
            if told.si_code != FROM_TERMINAL:
                os.kill(child, told.si_signo)
            continue
        # One signal may stand for several that ended.
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == 0:
                break
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
