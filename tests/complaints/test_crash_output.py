"""T5, crash output: what nobody foresaw is written redacted as well, by whichever way it leaves a process.

postgres_exporter#643 #1042 #1111, godror#76
"""

import os
import signal
import uuid

from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm
from tests.servers.room import free_port
from tests.watched import settings

DEFECT = '''
import gc, threading, warnings, logging
import pymysql

def broken(self, *args, **named):
    """As a driver with a defect: its errors repeat what it was given, and come out where nobody waits for them."""
    secret = named.get("password") or ""
    secret = secret.decode() if isinstance(secret, bytes) else secret
    class Rest:
        def __del__(self):
            raise RuntimeError("rest of " + secret)
    def aside():
        raise RuntimeError("aside with " + secret)
    thread = threading.Thread(target=aside, name="for " + secret)
    thread.start()
    thread.join()
    rest = Rest()
    del rest
    warnings.warn("a warning about " + secret)
    logging.getLogger("pymysql").error("logged %s", secret, extra={"password": secret})
    raise ZeroDivisionError("mysql://probe:" + secret + "@host/")

pymysql.connections.Connection.__init__ = broken
'''


def test_a_driver_with_a_defect_and_processes_that_crash(daemon, tmp_path):
    marker = f"S3CR3T-{uuid.uuid4()}"
    folder = tmp_path / "defect"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(DEFECT)
    secret = tmp_path / "secret"
    secret.write_text(marker + "\n")
    target = {
        "name": "db",
        "engine": "mysql",
        "host": "127.0.0.1",
        "port": free_port(),
        "user": "probe",
        "password": {"file": str(secret)},
        "schema": "tde_canary",
        "tls": {"mode": "disabled"},
        "operations": ["point_select"],
        "intervals": {"canary": "1s", "encryption_state": "1s"},
    }
    path = os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    exporter = daemon(
        settings(HEALTHY, target, log={"level": "debug"}), {"PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}
    )
    exporter.start().serving()
    exporter.until(lambda: "nobody caught an exception in a thread" in exporter.log.read_text(), "the thread's end")
    exporter.until(lambda: "an exception could not be raised" in exporter.log.read_text(), "the destructor's")
    exporter.until(lambda: "a warning about" in exporter.log.read_text(), "the warning")
    exporter.until(
        lambda: "ZeroDivisionError" in exporter.log.read_text() + exporter.get("/").text, "the driver's error"
    )
    assert_rhythm(exporter, "healthy", rounds=2)
    pages = [exporter.get(path).text for path in ("/", "/metrics", "/-/ready")]
    (probe,) = exporter.children()
    os.kill(probe, signal.SIGSEGV)
    exporter.until(lambda: "Segmentation fault" in exporter.log.read_text(), "the crash to be written")
    exporter.until(lambda: exporter.children() not in ([], [probe]), "a new probe process")
    assert_rhythm(exporter, "healthy", rounds=1)
    exporter.process.send_signal(signal.SIGABRT)
    exporter.process.wait(100)
    said = "\n".join([*pages, exporter.log.read_text()])
    assert "***" in said
    assert marker not in said
    assert marker[7:] not in said
