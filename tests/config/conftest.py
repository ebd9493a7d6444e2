"""Secrets that one test reads must not be redacted in another."""

from __future__ import annotations

import pytest

from exporter.config import secrets


@pytest.fixture(autouse=True)
def _no_secrets_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", set())
    monkeypatch.setattr(secrets, "_pattern", None)
