"""Callers come back in time, whatever the driver does."""

from __future__ import annotations

import asyncio
import gc
import threading

import oracledb
import pytest

from exporter.domain.errors import DeadlineExceeded
from exporter.engines.oracle.loop import Line, PrivateLoop
from tests.processes import until
from tests.stopwatch import Stopwatch

WITHIN = 5 * 0.1


def loops():
    return [thread for thread in threading.enumerate() if thread.name == "oracle-loop"]


def timed(call):
    watch = Stopwatch()
    with pytest.raises(DeadlineExceeded):
        call()
    return watch


async def forever():
    await asyncio.Event().wait()


async def stubborn():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)


async def answer():
    return 42


@pytest.mark.parametrize("work", [forever, stubborn])
def test_a_coroutine_that_does_not_end_ends_for_its_caller(work):
    loop, line = PrivateLoop(), Line()

    watch = timed(lambda: loop.run(work, line, 0.2, "waiting"))
    assert watch.passed >= 0.2
    assert watch.seconds < 0.2 + WITHIN
    assert line.is_cut
    assert loop.run(answer, Line(), 5.0, "asking") == 42


def test_a_loop_that_is_stuck_is_left_behind():
    loop, free = PrivateLoop(), threading.Event()

    async def block():
        free.wait(30.0)

    assert timed(lambda: loop.run(block, Line(), 0.1, "blocking")).seconds < 0.1 + WITHIN
    assert loop.run(answer, Line(), 5.0, "asking") == 42
    free.set()


def test_an_error_of_the_coroutine_is_the_callers():
    async def fail():
        raise KeyError("x")

    with pytest.raises(KeyError):
        PrivateLoop().run(fail, Line(), 5.0, "failing")


def test_its_thread_ends_with_it():
    gc.collect()
    until(lambda: not loops(), "threads of earlier loops to end")
    loop = PrivateLoop()
    loop.run(answer, Line(), 5.0, "asking")
    assert len(loops()) == 1

    del loop
    gc.collect()

    until(lambda: not loops(), "the thread of the loop to end")


def test_a_line_that_is_cut_keeps_no_connection_that_comes_later(server):
    loop, line = PrivateLoop(), Line()

    async def connect():
        line.cut()
        return await oracledb.connect_async(user="mon", password="secret", dsn=server.dsn())

    with pytest.raises(oracledb.Error):
        loop.run(connect, line, 5.0, "connecting")
    until(lambda: server.connections == 0, "the connection to end")


@pytest.mark.parametrize("limit", [0, 1000], ids=["without the driver's limit", "with the driver's limit"])
def test_a_loss_in_the_very_step_of_a_call_is_an_error_and_no_crash(server, limit):
    """The driver looks whether it is connected, waits for a turn of the loop, and sends: by then it was told of the loss.
    Without what stands between them, it followed a null pointer."""
    loop, line = PrivateLoop(), Line()

    async def lose_and_ask():
        connection = await oracledb.connect_async(user="mon", password="secret", dsn=server.dsn())
        connection.call_timeout = limit
        cursor = connection.cursor()
        line.cut()
        await asyncio.sleep(0)
        await cursor.execute("SELECT 1 AS alive FROM dual")

    with pytest.raises(oracledb.Error, match=r"DPY-4011|DPY-1001"):
        loop.run(lose_and_ask, line, 5.0, "asking")
    assert line.lost
