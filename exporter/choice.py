"""Which configuration, target and pairs a command is about, by what stands on its command line."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from exporter.config import loader
from exporter.config.schema import ENV_PREFIX, PairSettings, Settings, TargetSettings
from exporter.domain.errors import ConfigError, HistoryError
from exporter.engines import registry

CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"


def config_path(arguments: argparse.Namespace) -> Path | None:
    """The configuration file that is named; None: the embedded default."""
    given = getattr(arguments, "config", None) or os.environ.get(CONFIG_VARIABLE)
    return Path(given) if given else None


def settings(arguments: argparse.Namespace) -> Settings:
    """The configuration; raises ConfigError."""
    return loader.load(config_path(arguments), target_types=registry.target_types())


def target(settings: Settings, name: str | None) -> TargetSettings:
    """The target of that name, or the only one; raises ConfigError."""
    names = ", ".join(target.name for target in settings.targets)
    if name is None:
        if len(settings.targets) > 1:
            raise ConfigError("several targets are configured", remedy=f"Name one of: {names}")
        return settings.targets[0]
    found = settings.target(name)
    if found is None:
        raise ConfigError(f"there is no target '{name}'", remedy=f"Name one of: {names}")
    return found


def pairs(target: TargetSettings, name: str | None) -> tuple[PairSettings, ...]:
    """The pair of that name, or all pairs of a target; raises ConfigError when there are none."""
    if not target.pairs:
        raise ConfigError("no pairs are configured", where=f"target {target.name}", remedy="Add one under 'pairs'")
    found = tuple(pair for pair in target.pairs if name in (None, pair.name))
    if not found:
        names = ", ".join(pair.name for pair in target.pairs)
        raise ConfigError(f"target {target.name} has no pair '{name}'", remedy=f"Name one of: {names}")
    return found


def check_operations(settings: Settings) -> None:
    """Refuse operations that an engine cannot do; loads the drivers of the configured engines only."""
    for target in settings.targets:
        offered = registry.engine_type(target.engine).operations
        for operation in target.canary_operations:
            if operation not in offered:
                raise ConfigError(
                    f"engine {target.engine} does not offer the operation {operation}",
                    where=f"targets: {target.name}: operations",
                    remedy=f"Use some of: {', '.join(sorted(offered))}",
                )


def history_path(settings: Settings) -> Path:
    """Where the history is; raises HistoryError when there is none yet."""
    path = settings.history_path
    if not path.exists():
        raise HistoryError(f"{path}: there is no history yet. `tde-exporter run` begins it")
    return path
