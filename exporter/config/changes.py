"""What a new configuration changes, and what of it a running exporter cannot take up."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from exporter.config.schema import Settings
from exporter.domain.errors import ConfigError, ConfigErrors

FIXED = (
    "state_directory",
    "history_path",
    "web.listen_address",
    "web.port",
    "web.config_file",
    "web.max_connections",
    "web.header_timeout",
    "probes.processes",
)
"""What is settled at the start: the port is open, the history is claimed, the processes run."""
_WRITTEN = {"history_path": "history.path"}
_FINGERPRINT_BITS = 48
"""So many fit into a sample of Prometheus without loss."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Names of targets. `kept`: nothing that concerns them is different; `changed`: the same target by name and engine
    with other settings. One whose engine is another is both `removed` and `added`."""

    kept: frozenset[str]
    changed: frozenset[str]
    added: frozenset[str]
    removed: frozenset[str]

    @property
    def leaving(self) -> frozenset[str]:
        """Those that are probed no more the way they were."""
        return self.removed | self.changed

    @property
    def joining(self) -> frozenset[str]:
        """Those that are to be probed from now on."""
        return self.added | self.changed

    @property
    def words(self) -> str:
        """One line for people."""
        counts = {
            "kept": self.kept,
            "changed": self.changed,
            "added": self.added,
            "removed": self.removed,
        }
        return "targets: " + ", ".join(f"{len(names)} {word}" for word, names in counts.items())


def between(old: Settings, new: Settings) -> Changes:
    """What becomes of each target when `new` takes the place of `old`."""
    before, after = (_targets(settings) for settings in (old, new))
    same = {name for name in before.keys() & after.keys() if type(before[name][0]) is type(after[name][0])}
    kept = {name for name in same if before[name] == after[name]}
    return Changes(
        frozenset(kept),
        frozenset(same - kept),
        frozenset(after.keys() - same),
        frozenset(before.keys() - same),
    )


def refuse_fixed(old: Settings, new: Settings) -> None:
    """Raise ConfigErrors that name each setting that cannot be changed without a restart."""
    found = [name for name in FIXED if attrgetter(name)(old) != attrgetter(name)(new)]
    if "state_directory" in found and new.history.path is None:
        found = [name for name in found if name != "history_path"]
    if found:
        raise ConfigErrors(
            ConfigError(
                "this cannot be changed while the exporter runs",
                where=_WRITTEN.get(name, name),
                remedy="Restart the exporter, or set it back",
            )
            for name in found
        )


def only(settings: Settings, names: Collection[str]) -> Settings:
    """The settings without all other targets: what a process keeps for long, or is sent, should not hold them."""
    return settings.model_copy(update={"targets": tuple(target for target in settings.targets if target.name in names)})


def own(settings: Settings) -> Settings:
    """The settings without the targets of other shards; there may be none left."""
    shard = settings.own_shard
    return only(settings, [target.name for target in settings.targets if shard.has(target.name)])


def fingerprint(settings: Settings) -> int:
    """A number that is the same for the same configuration, defaults included; it holds the sources of secrets, and no
    secret. Shards of one configuration have the same one."""
    digest = hashlib.sha256(settings.model_dump_json(exclude={"shard"}).encode()).digest()
    return int.from_bytes(digest) >> (8 * len(digest) - _FINGERPRINT_BITS)


def _targets(settings: Settings) -> dict[str, tuple[Any, ...]]:
    """Each target with everything common that concerns it."""
    return {
        target.name: (
            target.model_copy(
                update={"intervals": settings.intervals_of(target), "budgets": settings.budgets_of(target)}
            ),
            tuple(settings.operation(operation) for operation in target.canary_operations),
        )
        for target in settings.targets
    }
