"""What the tests of the embedded default have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def embedded(**target: object) -> dict:
    """Settings with one small embedded target and quick intervals."""
    return {
        "targets": [
            {
                "name": "embedded",
                "engine": "sqlite",
                "pairs": [{"name": "phonebook", "rows": 20_000}],
                "intervals": {"canary": "1s", "encryption_state": "1s"},
                "budgets": {"time_share_ratio": 1.0},
                **target,
            }
        ],
        "probes": {"processes": 1},
    }


@pytest.fixture
def small() -> Callable[..., dict]:
    return embedded
