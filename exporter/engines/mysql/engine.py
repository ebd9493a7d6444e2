"""The engine of MySQL and Percona Server."""

from __future__ import annotations

from typing import ClassVar

from exporter.config.schema import TargetSettings
from exporter.domain.errors import Unsupported
from exporter.domain.model import Operation
from exporter.engines.base import Session


class Engine:
    """Satisfies `engines.base.Engine`."""

    operations: ClassVar[frozenset[Operation]] = frozenset(
        {
            Operation.POINT_SELECT,
            Operation.RANGE_SELECT,
            Operation.INDEX_COUNT,
            Operation.SORTED_SELECT,
            Operation.FULL_SCAN,
        }
    )
    self_provisioning: ClassVar[bool] = False
    sessions_per_pair: ClassVar[int] = 1

    def __init__(self, target: TargetSettings) -> None:
        self._target = target

    def open(self, timeout: float) -> Session:
        raise Unsupported(f"the engine {self._target.engine} cannot open sessions yet")
