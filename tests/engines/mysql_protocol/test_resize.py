"""A buffer pool that an administrator resizes while the server runs is seen, and is an event."""

from __future__ import annotations

import pytest

from exporter.domain.events import OPENS_EPOCH, EventKind
from exporter.overhead.event_watch import EventWatch
from tests.engines.mysql_protocol.canary_targets import opened, target_of
from tests.processes import until

MIB = 2**20
AS_STARTED, AS_SET = 32, 16


@pytest.fixture(params=["11.8", "10.11", "mysql"])
def resizable(request, make_mariadb, make_mysql):
    """A server of its own. Pools of MySQL are made of chunks, which else would be as large as the pool."""
    if request.param == "mysql":
        options = {"innodb-buffer-pool-chunk-size": 8 * MIB, "innodb-buffer-pool-instances": 1}
        return make_mysql(buffer_pool_mb=AS_STARTED, options=options)
    return make_mariadb(request.param, buffer_pool_mb=AS_STARTED)


def test_a_resized_buffer_pool_is_one_event(resizable, tmp_path):
    watch, now, events = EventWatch("db"), 1000.0, []

    def look(session):
        nonlocal now, events
        now += 15.0
        activity = session.activity(10.0)
        events += watch.activity(activity, now)
        return activity.buffer_bytes

    with opened(target_of(resizable, tmp_path, pairs=())) as session:
        for _ in range(3):
            assert look(session) == AS_STARTED * MIB
        before = now
        resizable.query(f"SET GLOBAL innodb_buffer_pool_size = {AS_SET * MIB}")
        until(lambda: look(session) == AS_SET * MIB, "the pool to be resized")
        for _ in range(3):
            assert look(session) == AS_SET * MIB

    (event,) = events
    assert (event.kind, event.text) == (EventKind.RESIZE, "buffer pool 32 MiB → 16 MiB")
    assert event.before is not None
    assert before <= event.before < event.at
    assert event.kind in OPENS_EPOCH


def test_a_size_that_only_a_restart_brought_is_seen_too(make_mariadb, tmp_path):
    server, watch = make_mariadb("11.8", buffer_pool_mb=16), EventWatch("db")
    kinds = []
    for at, size in ((0.0, 16), (100.0, 24)):
        server.buffer_pool_mb = size
        server.restart()
        with opened(target_of(server, tmp_path, pairs=())) as session:
            for _ in range(2):
                at += 15.0
                kinds += [event.kind for event in watch.activity(session.activity(10.0), at)]
    assert kinds.count(EventKind.RESIZE) == 1
