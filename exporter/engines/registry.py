"""Finds engines by name; imports nothing of an engine that no configuration names."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import exporter.engines
from exporter.config.schema import TargetSettings
from exporter.engines.base import Engine


@cache
def names() -> tuple[str, ...]:
    """The engines that are shipped, in alphabetical order."""
    return tuple(
        sorted(
            module.name
            for module in pkgutil.iter_modules(exporter.engines.__path__)
            if module.ispkg and not module.name.startswith("_")
        )
    )


@cache
def target_types() -> dict[str, type[TargetSettings]]:
    """The settings class of every engine, by engine name; loads no driver."""
    return {name: importlib.import_module(f"exporter.engines.{name}.settings").Target for name in names()}


def engine_type(name: str) -> type[Engine]:
    """The engine class of that name, driver and all. The name is one of `names()`."""
    loaded: type[Engine] = importlib.import_module(f"exporter.engines.{name}.engine").Engine
    return loaded


def make(target: TargetSettings) -> Engine:
    """The engine of a configured target, not yet connected."""
    return engine_type(target.engine)(target)
