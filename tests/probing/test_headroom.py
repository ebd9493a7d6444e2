"""What a process may take of memory at one go, tried in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from exporter.probing.headroom import AT_ONCE, THREADS_OF_A_TARGET, USUAL_STACK

TRY = """
import json, mmap, resource, sys
from exporter.probing.headroom import AT_ONCE, Headroom

given, targets = json.loads(sys.argv[1])
if given:
    resource.setrlimit(resource.RLIMIT_DATA, (given, resource.getrlimit(resource.RLIMIT_DATA)[1]))
headroom = Headroom()
held, refused = [], []

def take(size):
    try:
        held.append(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except OSError:
        refused.append(size)

for part in range(4):
    headroom.keep(targets)
    take(AT_ONCE * 2 // 3)
headroom.keep(targets)
try:
    bytearray(4 << 30)
except MemoryError:
    refused.append(4 << 30)
print(json.dumps([refused, resource.getrlimit(resource.RLIMIT_DATA)[0]]))
"""


def tried(given: int, targets: int) -> tuple[list[int], int]:
    done = subprocess.run(
        [sys.executable, "-c", TRY, json.dumps([given, targets])], capture_output=True, text=True, check=True
    )
    refused, limit = json.loads(done.stdout)
    return refused, limit


def test_what_a_driver_takes_for_a_length_is_refused_and_what_grows_is_not() -> None:
    refused, limit = tried(0, 1)
    assert refused == [4 << 30]
    assert limit > 4 * AT_ONCE * 2 // 3


def test_many_targets_have_room_for_their_threads() -> None:
    _, limit = tried(0, 500)
    assert limit > 500 * THREADS_OF_A_TARGET * USUAL_STACK + AT_ONCE


@pytest.mark.parametrize("given", [2 << 30])
def test_a_limit_that_was_set_for_us_is_kept(given: int) -> None:
    refused, limit = tried(given, 1)
    assert limit == given
    assert refused[-1] == 4 << 30
