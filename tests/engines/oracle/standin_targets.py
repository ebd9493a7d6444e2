"""Targets on stand-ins for Oracle databases, and sessions on them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.config.schema import OperationSettings
from exporter.domain.clock import SystemClock
from exporter.domain.model import Operation
from exporter.engines import registry
from exporter.engines.oracle.session import Session
from exporter.engines.oracle.settings import Target
from exporter.probing.canary import Canary
from exporter.probing.turnstile import Turnstile
from tests.oracle_standin.model import Database
from tests.oracle_standin.profiles import PROFILES
from tests.oracle_standin.server import Standin
from tests.oracle_standin.statements_twins import engine_database, engine_statements

VERSIONS = tuple(PROFILES)
MAIN = {"name": "main", "rows": 3000, "encrypted_tablespace": "canary_encrypted", "plain_tablespace": "canary_plain"}
COLUMN = {**MAIN, "name": "col", "encryption": "column"}


def quiet(_what: str, _share: float) -> None:
    pass


def standin(version: str = "19", database: Database | None = None, **options: Any) -> Standin:
    """A stand-in that answers what the engine asks; close it."""
    return Standin(database or engine_database(version), statements=engine_statements(), **options)


def target_of(server: Standin, folder: Path, *, user: str = "mon", password: str = "secret", **more: Any) -> Target:
    """A target at this stand-in, with one pair for tablespace encryption unless `more` says otherwise."""
    secret = folder / f"{user}.secret"
    secret.write_text(password)
    values = {
        "name": "db",
        "host": server.host,
        "port": server.port,
        "service": "pdb1",
        "user": user,
        "password": {"file": str(secret)},
        "schema": "tde",
        # As the command line has it, when it names an account to make twins.
        "reader": user,
        "pairs": (MAIN,),
    }
    return Target.model_validate({key: value for key, value in (values | more).items() if value is not None})


@contextmanager
def opened(target: Target, *, provisioned: bool = False, timeout: float = 10.0) -> Iterator[Session]:
    """A session; with `provisioned`, its twins are made, verified and prepared."""
    session = registry.make(target).open(timeout)
    assert isinstance(session, Session)
    try:
        if provisioned:
            make_ready(session, target)
        yield session
    finally:
        session.close()


def make_ready(session: Session, target: Target) -> None:
    for pair in target.pairs:
        session.provision(pair, quiet, 30.0)
        assert session.verify(pair, 10.0).problem == ""
        session.prepare(pair, 10.0)


def canary_of(target: Target, operation: Operation, samples: int, pair: int = 0, seed: int = 1) -> Canary:
    """A canary as the daemon makes it."""
    settings = OperationSettings(samples=samples, timeout=5.0)
    rng = random.Random(seed)
    return Canary(target.name, target.pairs[pair], operation, settings, Turnstile(), rng, SystemClock())
