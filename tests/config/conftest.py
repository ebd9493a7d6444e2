"""Secrets that one test reads must not be redacted in another."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_secrets_known(no_secrets_known: None) -> None:
    pass
