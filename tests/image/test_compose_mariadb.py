"""The MariaDB profile of the stack: two servers with encryption and the exporter come up by one command, and measure."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.daemons import Page
from tests.image.engine import ROOT, Engine, tool
from tests.image.stack import Stack
from tests.processes import until

DEBIAN = """\
FROM {image}
USER 0
COPY --from=packages . /mariadb
COPY mariadb_entry.py /
RUN printf '#!/bin/sh\\nexec python /mariadb_entry.py health\\n' >/usr/local/bin/healthcheck.sh && \\
    chmod +x /usr/local/bin/healthcheck.sh && mkdir -p /var/lib/mysql /run/mysqld && chown 999:999 /var/lib/mysql && \\
    chmod 1777 /run/mysqld
HEALTHCHECK NONE
VOLUME /var/lib/mysql
ENTRYPOINT ["python", "/mariadb_entry.py"]
"""


@pytest.fixture(scope="module")
def stack(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    context = tmp_path_factory.mktemp("mariadb")
    shutil.copy2(Path(__file__).with_name("mariadb_entry.py"), context)
    (context / "Dockerfile").write_text(DEBIAN.format(image=image))
    packages = tool("get_mariadb.sh", "11.8")
    engine.build("debian-mariadb", f"--build-context=packages={packages}", context=context)
    environ = {"TDE_EXPORTER_IMAGE": image, "MARIADB_IMAGE": "debian-mariadb"}
    stack = Stack(engine, environ, f"--env-file={ROOT}/deploy/compose/mariadb.env")
    try:
        stack.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout=300", "exporter")
        yield stack
    finally:
        print(stack.compose("logs", "--tail=40"))
        stack.compose("down", "--volumes")


def page(stack: Stack) -> Page:
    return Page(httpx.get(f"http://127.0.0.1:{stack.ports['exporter']}/metrics", timeout=10).text)


def test_the_twins_are_measured_and_decrypted(stack: Stack) -> None:
    until(lambda: page(stack).value("tde_target_up", target="shop") == 1.0, "the primary is up", 120)
    until(lambda: page(stack).value("tde_pair_valid", target="shop", pair="main") == 1.0, "the pair is valid", 120)
    until(lambda: page(stack).total("tde_canary_decrypts_total", target="shop") > 0, "pages were decrypted", 120)
    assert page(stack).value("tde_keystore_state", target="shop", state="open") == 1.0


def test_the_replica_is_followed_and_has_the_keys(stack: Stack) -> None:
    def lag() -> float | None:
        return page(stack).value("tde_standby_lag_seconds", target="shop", standby="replica", kind="heartbeat")

    until(lambda: lag() is not None, "the lag of the replica is known", 120)
    until(lambda: page(stack).value("tde_standby_master_key_match", standby="replica") == 1.0, "it has the keys", 120)


def test_no_secret_is_where_it_can_be_seen(stack: Stack) -> None:
    secrets = [
        stack.compose("exec", "--no-TTY", "exporter", "cat", f"/run/tde/{name}.password").strip()
        for name in ("exporter", "dba")
    ]
    assert all(len(secret) > 20 for secret in secrets)
    seen = stack.compose("logs", "--no-color") + stack.compose("config")
    assert not any(secret in seen for secret in secrets)


def test_a_second_start_finds_everything_as_it_was(stack: Stack) -> None:
    stack.compose("down")
    stack.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout=300", "exporter")
    assert "all secrets are there already" in stack.compose("logs", "mariadb-secrets")
    until(lambda: page(stack).value("tde_pair_valid", target="shop", pair="main") == 1.0, "the pair is valid", 120)
