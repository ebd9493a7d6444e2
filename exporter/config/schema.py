"""What an operator can configure, as strict models: unknown keys are refused, secrets are hidden.

Every field has a description; `config.example.yaml` and `docs/configuration.md` are generated from
them. A target's own class belongs to its engine (`engines/<name>/settings.py`); `settings_type` joins
them into one model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from exporter.domain.model import Operation, Phase

ENV_PREFIX = "TDE_EXPORTER_"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(value: object) -> object:
    """Seconds from a number or from text such as `250ms`, `10s`, `5m`, `1h`, `2d`; raises ValueError."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if not match:
            raise ValueError("write a duration as 250ms, 10s, 5m, 1h or 2d")
        return float(match[1]) * _UNITS[match[2]]
    return value


Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]


class Strict(BaseModel):
    """Unknown keys are refused, nothing is changed after loading, input is never echoed in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class OperationSettings(Strict):
    """How one canary operation is measured."""

    samples: int = Field(20, ge=1, le=200)
    """Individually timed queries for each twin in a tick. Scans and batches use 1."""
    timeout: Duration = 2.0
    """Hard deadline of one query, the same for both twins. A query that takes longer is cancelled and counts as infinitely slow."""


class IntervalSettings(Strict):
    """How often each collector runs on each target."""

    canary: Duration = Field(10.0, ge=1)
    """Paired canary queries. Each target has a fixed phase within the interval, so that targets do not run all at once."""
    encryption_state: Duration = Field(60.0, ge=1)
    """Keystore, inventory of encrypted objects, and which twin is really encrypted."""


class BudgetSettings(Strict):
    """What the monitor may cost a target."""

    time_share_ratio: float = Field(0.01, gt=0, le=1)
    """Share of wall time during which canary queries may run. Ticks above it are skipped on both twins and counted."""


class PairSettings(Strict):
    """A pair of twin objects: the same data, once encrypted and once plain."""

    name: Name
    """Name of the pair; the label `pair` of its metrics."""
    phase: Phase = Phase.ENABLED
    """`enabled`: one of the twins is encrypted. `aa`: both are still plain, to certify that the twins are alike before encryption is enabled."""


class TargetSettings(Strict):
    """A monitored database. Each engine adds its own keys."""

    default_operations: ClassVar[tuple[Operation, ...]] = (Operation.POINT_SELECT, Operation.FULL_SCAN)

    name: Name
    """Name of the target, unique; the label `target` of its metrics."""
    engine: str
    """Which kind of database this is."""
    pairs: tuple[PairSettings, ...] = ()
    """The twin objects to compare."""
    operations: tuple[Operation, ...] = ()
    """Canary operations to run on every pair. Empty: the default of the engine."""
    intervals: IntervalSettings | None = None
    """Intervals of this target, in place of the common ones."""
    budgets: BudgetSettings | None = None
    """Budgets of this target, in place of the common ones."""

    @model_validator(mode="after")
    def _pairs_and_operations_are_unique(self) -> Self:
        _refuse_duplicates("pair", [pair.name for pair in self.pairs])
        _refuse_duplicates("operation", list(self.operations))
        return self

    def resolved(self, state_directory: Path) -> Self:
        """The same target with its defaults filled in that depend on the state directory."""
        return self

    @property
    def canary_operations(self) -> tuple[Operation, ...]:
        return self.operations or self.default_operations


class WebSettings(Strict):
    """Where metrics and pages are served."""

    listen_address: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on. The default is loopback: nobody else on the network can read it."""
    port: int = Field(10161, ge=1, le=65535)
    """TCP port."""
    max_connections: int = Field(256, ge=4, le=10_000)
    """Connections that are kept open at once; more are closed at once."""
    header_timeout: Duration = 5.0
    """A client that has not sent its whole request by then is disconnected."""
    max_series: int = Field(50_000, ge=100)
    """Cap on exported series; what goes beyond is left out and counted."""


class HistorySettings(Strict):
    """What survives a restart."""

    path: Path | None = None
    """SQLite file of the history. Default: `history.db` in the state directory."""
    retention: Duration = Field(14 * 86400.0, ge=3600)
    """How long observations, aggregated per 5 minutes, are kept."""


class ProbeSettings(Strict):
    """The processes that run the canaries, apart from the one that serves."""

    processes: int = Field(default_factory=lambda: min(os.cpu_count() or 1, 8), ge=1, le=64)
    """Number of probe processes; the targets are shared out between them. Default: one for each core, at most 8."""
    heartbeat_timeout: Duration = Field(15.0, ge=2)
    """A probe process that is silent for this long is killed and started again."""


class LogSettings(Strict):
    """Messages on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "warning"
    """The least severe level that is shown."""
    format: Literal["logfmt", "json"] = "logfmt"
    """How a message is written."""


def default_state_directory() -> Path:
    """systemd's state directory where there is one, else the user's (XDG base directories)."""
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tde-exporter"


def default_operation_settings() -> dict[Operation, OperationSettings]:
    """What holds for the operations that the configuration does not name."""
    one = OperationSettings(samples=1, timeout=30.0)
    return {
        Operation.POINT_SELECT: OperationSettings(),
        Operation.FULL_SCAN: one,
        Operation.FULL_SCAN_COLD: one,
        Operation.INSERT_BATCH: OperationSettings(samples=1, timeout=10.0),
    }


class Settings(BaseSettings):
    """The whole configuration. Environment variables override scalars, not items of lists."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    state_directory: Path = Field(default_factory=default_state_directory)
    """Where the history and the embedded database live. Default: the service manager's or the user's state directory."""
    targets: tuple[TargetSettings, ...] = Field(min_length=1)
    """The monitored databases."""
    operations: dict[Operation, OperationSettings] = Field(default_factory=dict)
    """How canary operations are measured; what is not named keeps its default."""
    intervals: IntervalSettings = IntervalSettings()
    """How often each collector runs."""
    budgets: BudgetSettings = BudgetSettings()
    """What the monitor may cost each target."""
    web: WebSettings = WebSettings()
    """Where metrics and pages are served."""
    history: HistorySettings = HistorySettings()
    """What survives a restart."""
    probes: ProbeSettings = ProbeSettings()
    """The processes that run the canaries."""
    log: LogSettings = LogSettings()
    """Messages on standard error."""

    @model_validator(mode="after")
    def _target_names_are_unique(self) -> Self:
        _refuse_duplicates("target", [target.name for target in self.targets])
        return self

    def operation(self, operation: Operation) -> OperationSettings:
        return self.operations.get(operation) or default_operation_settings()[operation]

    def target(self, name: str) -> TargetSettings | None:
        return next((target for target in self.targets if target.name == name), None)

    def intervals_of(self, target: TargetSettings) -> IntervalSettings:
        return target.intervals or self.intervals

    def budgets_of(self, target: TargetSettings) -> BudgetSettings:
        return target.budgets or self.budgets

    @property
    def history_path(self) -> Path:
        return self.history.path or self.state_directory / "history.db"


def settings_type(target_types: Mapping[str, type[TargetSettings]]) -> type[Settings]:
    """`Settings` whose targets are of the given classes, told apart by their key `engine`."""
    union: Any = Annotated[Union[tuple(target_types.values())], Field(discriminator="engine")]  # noqa: UP007
    return create_model("Settings", __base__=Settings, targets=(tuple[union, ...], Field(min_length=1)))


def _refuse_duplicates(what: str, names: list[Any]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two {what}s are named '{name}'; give each its own name")
