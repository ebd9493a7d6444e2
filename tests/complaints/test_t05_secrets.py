"""T5: a password appears nowhere, whatever fails.

postgres_exporter#643 #1042 #1111, godror#76, pydantic-settings#256 #937 #530, mysqld_exporter#454 #649
"""

import base64
import os
import re
import uuid
from pathlib import Path

import httpx
import pytest
import yaml

from benchmarks.figures import note
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
    """With all that programs quote, escape, encode or cut at. In the middle is what all writings have in common."""
    return f"""S3CR3T "'%25\\ü€<&>/+{uuid.uuid4()}$${{x}}`; you can\n#@:?end"""


def traces(marker, text):
    """How often the middle of the marker, in any writing, is in the text."""
    (middle,) = re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", marker)
    raw = middle.encode()
    encoded = {base64.b64encode(bytes(before) + raw).decode()[before + 2 : 44] for before in range(3)}
    return sum(text.count(each) for each in {middle, raw.hex(), raw.hex().upper(), *encoded})


def assert_absent(marker, **texts):
    """None of the texts holds the marker, nor a part of it that is as good."""
    found = {name: number for name, text in texts.items() if (number := traces(marker, text))}
    figures = {
        "appearances of the marker secret": sum(found.values()),
        "texts searched": len(texts),
        "bytes searched": sum(len(text.encode("utf-8", "surrogateescape")) for text in texts.values()),
    }
    note("marker secret", os.getloadavg()[0], **figures)
    assert found == {}


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
        paths = (
            "/",
            "/metrics",
            "/metrics?only=exporter",
            "/-/ready",
            "/-/healthy",
            "/nothing-here",
            "/sd",
            "/probe?target=no",
        )
        pages = {
            path: exporter.get(path).text for path in (*paths, *(f"/probe?target={each['name']}" for each in targets))
        }
        pages |= reloads(exporter, targets[0], marker)
        probes = [Path(f"/proc/{pid}/cmdline").read_text() for pid in (exporter.process.pid, *exporter.children())]
        exporter.stop()
    finally:
        for watched in everywhere:
            watched.server.restart()
            watched.server.query(f"DROP USER {watched.user}_bare")
    assert pages["/"].count("Access denied") >= 2
    files = {str(path): path.read_bytes().decode("latin-1") for path in files_below(exporter.directory)}
    assert_absent(marker, **pages, **files, processes="\n".join(probes))


def reloads(exporter, target, marker):
    """Answers to reloads, one of a configuration in which the secret stands in wrong places."""
    said = {"reload": httpx.post(f"{exporter.url}/-/reload", timeout=40).text}
    wrong = {**target, "password": {"file": marker}, "tls": {"mode": marker}, marker: 1, "user": {marker: marker}}
    config = exporter.directory / "config.yaml"
    whole = config.read_text()
    config.write_text(yaml.safe_dump(settings(wrong)))
    said["refused reload"] = httpx.post(f"{exporter.url}/-/reload", timeout=40).text
    # It is searched as well, with what was there by mistake.
    config.write_text(whole)
    assert "stays as it was" in said["refused reload"]
    return said


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
        {marker: 1},
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
