"""T5: a password appears nowhere, whatever fails.

postgres_exporter#643 #1042 #1111, godror#76, pydantic-settings#256 #937 #530, mysqld_exporter#454 #649
"""

import uuid
from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tests.servers.room import free_port
from tests.watched import settings

ERRORS = "tde_target_connection_errors_total"
COMMANDS = {
    "mariadb": (("connect", "verify"), ("auth", "once"), ("tls", "verify"), ("bare", "provision")),
    "mysql": (("connect", "drop", "--yes"), ("auth", "provision"), ("bare", "verify"), ("bare", "once")),
}
REASONS = ("connect", "auth", "tls", "timeout")


@pytest.fixture
def marker():
    return f"S3CR3T-{uuid.uuid4()}"


def assert_absent(marker, **texts):
    """None of the texts holds the marker, nor a part of it that is as good."""
    assert [name for name, text in texts.items() if marker in text or marker[7:] in text] == []


def failing(watched, marker, certificates, make_proxy):
    """A target for each failure by its reason; the password of all is the marker."""
    secret = watched.folder / "marker.secret"
    secret.write_text(marker + "\n")
    given = {"password": {"file": str(secret)}}
    silent = make_proxy(watched.server.address)
    silent.go_silent()
    bare = f"{watched.user}_bare"
    watched.server.create_user(bare, marker)
    watched.change_password("another")
    verifying = {"mode": "verify_ca", "ca": str(certificates.ca)}

    def named(name, address=None, **more):
        return watched.target(address, name=f"{watched.engine}-{name}", **given, **more)

    return {
        "connect": named("connect", ("127.0.0.1", free_port())),
        "auth": named("auth"),
        "tls": named("tls", tls=verifying),
        "timeout": named("timeout", silent.address),
        # It may log in and nothing else.
        "bare": named("bare", user=bare),
    }


def test_every_failure_of_the_daemon(everywhere, daemon, make_proxy, certificates, marker):
    targets = [
        target for watched in everywhere for target in failing(watched, marker, certificates, make_proxy).values()
    ]
    exporter = daemon(settings(*targets, log={"level": "debug"})).start().serving()
    for watched in everywhere:
        for reason in REASONS:
            name = f"{watched.engine}-{reason}"
            exporter.until(lambda name=name, reason=reason: exporter.total(ERRORS, target=name, reason=reason), name)
    exporter.until_said("GRANT", times=2)
    exporter.until_said("Access denied", times=2)
    # In the middle of a query: the servers answer nothing any more, then they are gone.
    for watched in everywhere:
        watched.server.freeze()
        watched.server.kill()
    try:
        for watched in everywhere:
            name = f"{watched.engine}-bare"
            exporter.until(lambda name=name: exporter.value("tde_target_up", target=name) == 0, "its end to be seen")
        pages = {path: exporter.get(path).text for path in ("/", "/metrics", "/-/ready", "/nothing-here")}
        probes = [Path(f"/proc/{pid}/cmdline").read_text() for pid in (exporter.process.pid, *exporter.children())]
        exporter.stop()
    finally:
        for watched in everywhere:
            watched.server.restart()
            watched.server.query(f"DROP USER {watched.user}_bare")
    assert pages["/"].count("Access denied") >= 2
    files = {str(path): path.read_bytes().decode("latin-1") for path in files_below(exporter.directory)}
    assert_absent(marker, **pages, **files, processes="\n".join(probes))


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_every_failure_of_the_commands(everywhere, make_proxy, certificates, marker, kind):
    watched = next(watched for watched in everywhere if watched.engine == kind)
    made = failing(watched, marker, certificates, make_proxy)
    tde = CommandLine(watched.folder)
    said = {}
    for reason, *command in COMMANDS[kind]:
        done = tde("-c", tde.config(settings(made[reason])), *command)
        said[f"{command[0]} {reason}"] = done.stdout + done.stderr
        assert done.returncode == 1, (command, reason, done.stdout, done.stderr)
        assert done.stdout + done.stderr
    watched.server.query(f"DROP USER {watched.user}_bare")
    assert_absent(marker, **said)


def test_a_password_in_the_wrong_place_of_the_configuration(tmp_path, marker):
    tde = CommandLine(tmp_path)
    wrong = [
        {"password": marker},
        {"password": {"file": marker, "env": marker}},
        {"password": {"value": marker}},
        {"password": [marker]},
        {"pasword": marker},
        {"tls": marker},
        {"port": marker},
        {"dsn": f"mysql://x:{marker}@127.0.0.1/"},
    ]
    targets = [
        {"name": f"{kind}-{number}", "engine": kind, **part}
        for kind in ("mariadb", "mysql")
        for number, part in enumerate(wrong)
    ]
    checked = tde("-c", tde.config({"targets": targets}), "check")
    assert checked.returncode == 1
    assert len(checked.stderr.splitlines()) >= len(targets)
    path = tde.config({"targets": [{"name": "db", "engine": "mysql"}]})
    named = tde("-c", path, "provision", "--user", "x", "--password-env", marker)
    assert named.returncode == 1
    assert_absent(marker, check=checked.stdout + checked.stderr, provision=named.stdout + named.stderr)
