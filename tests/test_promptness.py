"""What is settled for the whole process, seen in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PIECES = 50
PROGRAM = f"""
import ctypes, gc, json, sys
from exporter import promptness
if sys.argv[1] == "settled":
    promptness.settle()
names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
Info = type("Info", (ctypes.Structure,), {{"_fields_": [(name, ctypes.c_size_t) for name in names]}})
library = ctypes.CDLL(None)
library.mallinfo2.restype = Info
# glibc takes it for a sign that pieces of up to that size are better kept.
bytearray(16 * 2**20)
before = library.mallinfo2().hblks
pages = [bytearray(2**20) for _ in range({PIECES})]
print(json.dumps([library.mallinfo2().hblks - before, sys.getswitchinterval(), gc.get_freeze_count()]))
"""


@pytest.mark.parametrize("how", ["settled", "as it is"])
def test_large_pieces_of_memory_come_from_the_system_and_go_back_to_it(how: str) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=True)
    of_their_own, switch, frozen = json.loads(run.stdout)
    if how == "settled":
        assert of_their_own == PIECES
        assert switch < 0.001
        assert frozen > 1000
    else:
        # Otherwise this would show nothing.
        assert of_their_own < PIECES
        assert (switch, frozen) == (0.005, 0)
