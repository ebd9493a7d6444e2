"""T14: SIGTERM ends it in time whatever hangs: exit code 0, the history whole, the port free, no process left.

mktxp-stack#34, anycast_healthchecker#36, github-rate-limits-exporter#2
"""

import contextlib
import socket
import sqlite3

from tests.complaints.test_t01_mute_peer import HEALTHY, runs
from tests.daemons import ENDS_WITHIN
from tests.watched import settings


def test_drivers_that_hang_in_the_middle_of_queries(everywhere, daemon, make_proxy):
    mariadb, mysql = everywhere
    proxy = make_proxy(mariadb.server.address)
    wedged = HEALTHY | {"name": "wedged", "faults": [{"kind": "wedge", "call": "run"}]}
    targets = [mariadb.target(proxy.address, name="mute"), mysql.target(name="frozen")]
    exporter = daemon(settings(HEALTHY, wedged, *targets)).start().serving()
    names = ["mute", "frozen", "healthy"]
    exporter.until_all(names, runs, "runs")
    exporter.until(lambda: exporter.total("tde_target_connects_total", target="wedged") >= 3, "the wedged call")
    before = {name: runs(exporter, name) for name in names}
    children = exporter.children()
    proxy.go_silent()
    mysql.server.freeze()
    try:
        exporter.until_all(["mute", "frozen"], down, "both to hang")
        assert exporter.stop() < ENDS_WITHIN
        for child in children:
            exporter.until_gone(child)
    finally:
        mysql.server.thaw()
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", exporter.port))
    held = stored(exporter.directory / "state" / "history.db")
    assert {name for name in names if held.get(name, 0) * 2 < before[name]} == set()
    assert "Traceback" not in exporter.log.read_text()

    again = exporter.start().serving()
    again.until(lambda: runs(again, "healthy"), "runs as before")
    assert again.stop() < ENDS_WITHIN


def down(page, name):
    return page.value("tde_target_up", target=name) == 0


def stored(path):
    """Samples of a side of each target that a sound history holds."""
    with contextlib.closing(sqlite3.connect(path)) as history:
        assert history.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        sql = "SELECT target, SUM(plain_samples) FROM blocks JOIN series ON series.id = blocks.series GROUP BY target"
        return dict(history.execute(sql).fetchall())
