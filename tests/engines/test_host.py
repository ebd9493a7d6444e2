import os
import threading
import time
from pathlib import Path

import pytest

from exporter.engines.host import Host, spent
from tests.narrowing import known
from tests.processes import until

STAT = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 50 0 25 400 25 0 0 0 0 0\ncpu1 50 0 25 400 25 0 0 0 0 0\nintr 12\n"
NAME = "one_connection"


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "stat").write_text(STAT)
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu aes sse\n")
    return tmp_path


def burn(seconds):
    """Use that much CPU in this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_cpu_in_use_is_told_since_the_last_reading_and_unknown_at_the_first(proc):
    host = Host(proc)
    assert host.cpu_ratio() is None

    (proc / "stat").write_text(STAT.replace("cpu  100 0 50 800 50", "cpu  130 0 60 950 60"))

    assert host.cpu_ratio() == 40 / 200


def test_no_time_passed_is_no_share(proc):
    host = Host(proc)
    host.cpu_ratio()

    assert host.cpu_ratio() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("flags\t: fpu aes", True), ("flags\t: fpu aesni", False), ("Features\t: fp aes crc32", True), ("", None)],
)
def test_the_flag_of_aes_is_found_on_both_kinds_of_processor(proc, text, expected):
    (proc / "cpuinfo").write_text(f"processor\t: 0\n{text}\n")

    assert Host(proc).aes() is expected


def test_processors_are_counted(proc):
    assert Host(proc).cpus() == 2
    assert Host().cpus() == os.cpu_count()


def test_what_cannot_be_read_is_unknown(tmp_path):
    host = Host(tmp_path / "nothing")

    machine = [host.cpu_ratio(), host.cpus(), host.aes()]
    process = [host.thread(1), host.process_of(1), host.process_cpu(1), host.tasks(1)]
    assert [*machine, *process] == [None] * 7
    assert host.resting(1) is False


def test_a_kernel_that_does_not_count_says_nothing(proc):
    (proc / "7").mkdir()
    (proc / "7" / "schedstat").write_text("0 0 0\n")

    assert Host(proc).thread(7) is None


@pytest.fixture
def worker():
    """A thread that works when told to: (its number, a function that lets it use so many seconds of CPU)."""
    orders: list[float] = []
    tid: list[int] = []
    wake, done, ready = threading.Event(), threading.Event(), threading.Event()

    def work():
        tid.append(threading.get_native_id())
        Path(f"/proc/self/task/{tid[0]}/comm").write_text(NAME)
        ready.set()
        while wake.wait():
            wake.clear()
            if not orders:
                return
            burn(orders.pop())
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()

    def let_work(seconds):
        done.clear()
        orders.append(seconds)
        wake.set()
        done.wait()

    yield tid[0], let_work
    wake.set()
    thread.join()


def test_the_cpu_of_a_thread_is_that_of_this_thread_alone(worker):
    tid, work = worker
    host = Host()
    until(lambda: host.resting(tid), "the thread to rest")
    before = known(host.thread(tid))
    burn(0.05)
    idle = known(host.thread(tid))
    work(0.05)
    until(lambda: host.resting(tid), "the thread to rest")
    after = known(host.thread(tid))

    assert idle.cpu - before.cpu < 0.005
    assert 0.05 <= after.cpu - idle.cpu < 0.06


def test_a_thread_belongs_to_its_process(worker):
    assert Host().process_of(worker[0]) == os.getpid()


def test_the_cpu_of_all_threads_is_summed_without_those_that_serve_sessions(worker):
    tid, work = worker
    host = Host()
    all_before = known(host.tasks(os.getpid()))
    assert tid in all_before
    assert tid in known(host.tasks(os.getpid(), (NAME,), keep=tid))
    assert tid not in known(host.tasks(os.getpid(), (NAME,)))

    work(0.03)
    until(lambda: host.resting(tid), "the thread to rest")

    assert spent(all_before, known(host.tasks(os.getpid()))) >= 0.03


def test_threads_that_began_in_between_count_and_ended_ones_do_not():
    assert spent({1: 5, 2: 7}, {1: 9, 3: 4}) == pytest.approx(8e-9)


def test_the_cpu_of_a_process_grows_with_its_work():
    host = Host()
    before = known(host.process_cpu(os.getpid()))
    burn(0.06)

    assert known(host.process_cpu(os.getpid())) - before >= 0.04
