"""Both twins get their memory alike: page faults of one of them would look like a cost of encryption."""

import resource
import subprocess
import sys
import textwrap

import pytest

from exporter.domain.model import Operation, Slot


def faults(session, pair, slot):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    session.run(pair, slot, Operation.FULL_SCAN_COLD, 1, 30.0)
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def test_a_cold_scan_of_either_twin_faults_no_page_in(large):
    place, session = large, large.open()
    session.prepare(place.pair, 10.0)
    for slot in Slot:
        faults(session, place.pair, slot)  # the first one gets its memory

    taken = {slot: min(faults(session, place.pair, slot) for _ in range(5)) for slot in Slot}
    assert max(taken.values()) < 20, taken


@pytest.mark.parametrize(("knob", "faulted"), [(True, False), (False, True)])
def test_memory_freed_at_the_top_of_the_heap_is_kept(knob, faulted):
    """What the allocator does to a dropped cache, in a process of its own: 6 MiB freed and taken again."""
    script = f"""
        import ctypes, resource
        from exporter.engines.sqlite.memory import keep_freed_memory

        assert not {knob} or keep_freed_memory()
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

        def cache():
            blocks = [libc.malloc(96 * 1024) for _ in range(64)]
            for block in blocks:
                ctypes.memset(block, 1, 96 * 1024)
            for block in blocks:
                libc.free(block)

        cache()
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        cache()
        print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)

    assert (int(done.stdout) > 100) is faulted
