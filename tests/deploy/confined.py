"""Runs a program under what the unit says about system calls and memory: python confined.py UNIT ANALYZE PROGRAM...

Without a service manager: the same kernel features, set by the process itself before it becomes the program.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_NO_NEW_PRIVILEGES, _MEMORY_DENY_WRITE_EXECUTE = 38, 65  # PR_SET_NO_NEW_PRIVS, PR_SET_MDWE
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO


def _members(analyze: str, group: str) -> set[str]:
    """The system calls of a group such as @system-service."""
    listed = subprocess.run([analyze, "syscall-filter", group], capture_output=True, text=True, check=True).stdout
    names = [line.strip() for line in listed.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return {call for name in names for call in (_members(analyze, name) if name.startswith("@") else {name})}


def allowed(unit: Path, analyze: str) -> set[str]:
    """What `SystemCallFilter=` of a unit leaves, as systemd reads it: a first list, then lists taken away with ~."""
    calls: set[str] = set()
    for line in unit.read_text().splitlines():
        key, _, value = line.partition("=")
        if key != "SystemCallFilter":
            continue
        named = {call for group in value.removeprefix("~").split() for call in _members(analyze, group)}
        calls = calls - named if value.startswith("~") else calls | named
    return calls


def confine(calls: Sequence[str]) -> None:
    """From here on, this process and its children can use these system calls and make no memory executable."""
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_NO_NEW_PRIVILEGES, 1), (_MEMORY_DENY_WRITE_EXECUTE, 1)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}) is refused by this kernel")
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ERRNO | errno.EPERM)))
    for call in calls:
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0 and library.seccomp_rule_add(context, ctypes.c_uint32(_ALLOW), number, 0) != 0:
            raise OSError(f"libseccomp refuses a rule for {call}")
    if library.seccomp_load(context) != 0:
        raise OSError("libseccomp cannot load the filter")


if __name__ == "__main__":
    confine(sorted(allowed(Path(sys.argv[1]), sys.argv[2])))
    os.execv(sys.argv[3], sys.argv[3:])
