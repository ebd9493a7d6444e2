"""What an operator can configure, as strict models: unknown keys are refused, secrets are hidden.

Every field has a description; `config.example.yaml` and `docs/configuration.md` are generated from
them. An `examples` entry is what they show where the default depends on the machine. A target's own class belongs to its engine (`engines/<name>/settings.py`); `settings_type` joins
them into one model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from exporter.config.quantities import Duration as Duration  # for engines, which write theirs with these words
from exporter.config.quantities import Size as Size
from exporter.domain.model import Operation, Phase
from exporter.domain.sharding import Shard, parse_shard

ENV_PREFIX = "TDE_EXPORTER_"


def _location(value: object) -> object:
    if isinstance(value, str) and (not value.strip() or "\0" in value):
        raise ValueError("a path must not be empty; write one, or remove the key")
    return value


Location = Annotated[Path, BeforeValidator(_location)]
"""A path. The loader makes it absolute: relative to the folder of the configuration file."""
NAME_PATTERN = r"^[a-z0-9][a-z0-9_.-]{0,62}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class Strict(BaseModel):
    """Unknown keys are refused, nothing is changed after loading, input is never echoed in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class OperationSettings(Strict):
    """How one canary operation is measured."""

    samples: int = Field(20, ge=1, le=200)
    """Individually timed queries for each twin in a tick. Scans and batches use 1."""
    timeout: Duration = Field(2.0, ge=0.01, le=600)
    """Hard deadline of one query, the same for both twins. A query that takes longer is cancelled and counts as infinitely slow."""
    percentile_95: bool = False
    """Also show the 95th percentile, in times and in ratios, of operations that take more than one sample in a tick. Nothing is judged by it, and no alert reads it."""


class IntervalSettings(Strict):
    """How often each collector runs on each target."""

    canary: Duration = Field(10.0, ge=1, le=3600)
    """Paired canary queries. Each target has a fixed phase within the interval, so that targets do not run all at once."""
    encryption_state: Duration = Field(60.0, ge=1, le=86400)
    """Keystore, inventory of encrypted objects, and which twin is really encrypted."""
    activity: Duration = Field(15.0, ge=1, le=3600)
    """What the whole instance does: decrypts, CPU, physical reads."""
    heartbeat: Duration = Field(1.0, ge=0.2, le=3600)
    """Writing of the heartbeat row, on targets that have standbys."""
    standby: Duration = Field(15.0, ge=0.5, le=3600)
    """Reading how far the standbys are behind."""


class BudgetSettings(Strict):
    """What canary queries may cost a target. When their operations together want more, the dearest run less often: whole ticks are left out on both twins, and counted; each operation has a right to an equal share."""

    time_share_ratio: float = Field(0.01, gt=0, le=1)
    """Share of wall time during which canary queries may run, over any hour."""
    boost_time_share_ratio: float = Field(0.02, ge=0, le=1)
    """Share of wall time, over any hour, that is added to `time_share_ratio` while the evidence about an operation is near a decision: its ticks take 7.5 times the samples then, at most 200, for an hour of any six at most, and not while the host of the database is busy. That halves the time after which an operation that became 50 % slower is told. 0 switches it off. Bytes are charged to their budgets as ever."""
    bytes_read_per_hour: Size = Field(24 * 2**30, ge=2**20)
    """What canary queries may read from storage in an hour; blocks found in a cache are free. 24 GiB are 7 MB/s on average, some 5 % of what a small cloud volume gives, and enough for every operation of the embedded database at each interval (19 GiB). Reads that the engine cannot count are not charged."""
    bytes_written_per_hour: Size = Field(2**30, ge=2**20)
    """What canary queries may write in an hour. 1 GiB is 0.3 MB/s on average; all writing operations of the embedded database together take 0.2 GiB. Charged are the blocks that the encrypted twin encrypts, and as many for the plain twin; where encrypted blocks cannot be counted, nothing is."""
    sessions: int = Field(10, ge=2, le=1000)
    """Sessions that may be open on the target at once, those of calls that never ended included. Two pairs of the embedded database take 9; 10 are a tenth of what a PostgreSQL allows by default. A pair for which too few are left is not measured, and says so."""


class PairSettings(Strict):
    """A pair of twin objects: the same data, once encrypted and once plain."""

    name: Name
    """Name of the pair; the label `pair` of its metrics."""
    phase: Phase = Phase.ENABLED
    """`enabled`: one of the twins is encrypted. `aa`: both are still plain, to certify that the twins are alike before encryption is enabled; when one of them is encrypted later, that is noticed."""


class StandbySettings(Strict):
    """A standby of a target."""

    name: Name
    """Name of the standby, unique in its target; the label `standby` of its metrics."""


class TargetSettings(Strict):
    """A monitored database. Each engine adds its own keys."""

    default_operations: ClassVar[tuple[Operation, ...]] = (Operation.POINT_SELECT, Operation.FULL_SCAN)

    name: Name
    """Name of the target, unique; the label `target` of its metrics."""
    engine: str
    """Which kind of database this is."""
    pairs: tuple[PairSettings, ...] = ()
    """The twin objects to compare."""
    standbys: tuple[StandbySettings, ...] = ()
    """Standbys whose lag is measured."""
    operations: tuple[Operation, ...] = ()
    """Canary operations to run on every pair. Empty: the default of the engine."""
    intervals: IntervalSettings | None = None
    """Intervals of this target, in place of the common ones."""
    budgets: BudgetSettings | None = None
    """Budgets of this target, in place of the common ones."""

    @model_validator(mode="after")
    def _pairs_and_operations_are_unique(self) -> Self:
        _refuse_duplicates("pairs", [pair.name for pair in self.pairs], ("name",))
        _refuse_duplicates("standbys", [standby.name for standby in self.standbys], ("name",))
        _refuse_duplicates("operations", list(self.operations))
        return self

    def resolved(self, state_directory: Path) -> Self:
        """The same target with its defaults filled in that depend on the state directory."""
        return self

    @property
    def claims(self) -> tuple[Path, ...]:
        """Paths that no other target may use, after `resolved`."""
        return ()

    @property
    def company(self) -> str:
        """Targets share a probe process only with others of the same company. Empty: with whoever is there.

        For drivers that can be loaded in one way only, and for those that may take their process down.
        """
        return ""

    @property
    def certifying(self) -> frozenset[str]:
        """Names of the pairs whose twins are meant to be both still plain."""
        return frozenset(pair.name for pair in self.pairs if pair.phase is Phase.AA)

    @property
    def canary_operations(self) -> tuple[Operation, ...]:
        return self.operations or self.default_operations


class WebSettings(Strict):
    """Where metrics and pages are served."""

    listen_address: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on. The default is loopback: nobody else on the network can read it."""
    port: int = Field(10161, ge=1, le=65535)
    """TCP port."""
    config_file: Location | None = Field(None, examples=["/etc/tde-exporter/web.yaml"])
    """TLS, passwords and headers, in the form that Prometheus and its exporters share: `tls_server_config`, `basic_auth_users`, `http_server_config`, `rate_limit`. It and the files it names are read again when they change. Default: plain HTTP for everybody who reaches the address."""
    max_connections: int = Field(256, ge=4, le=10_000)
    """Connections that are kept open at once; more are closed at once."""
    header_timeout: Duration = Field(5.0, ge=0.1, le=600)
    """A client that has not sent its whole request by then is disconnected."""
    max_series: int = Field(250_000, ge=100, le=10_000_000)
    """Cap on exported series; what goes beyond is left out and counted."""


class HistorySettings(Strict):
    """What survives a restart."""

    path: Location | None = Field(None, examples=["/var/lib/tde-exporter/history.db"])
    """SQLite file of the history. Default: `history.db` in the state directory."""
    retention: Duration = Field(14 * 86400.0, ge=3600, le=3660 * 86400.0)
    """How long observations are kept: per 5 minutes for a day, then per hour. Events and baselines stay."""


class ProbeSettings(Strict):
    """The processes that run the canaries, apart from the one that serves."""

    processes: int | None = Field(None, ge=1, le=64, examples=[2])
    """Number of probe processes; the targets are shared out between them. Default: one for each core, at most 8, and with many targets one for each 50, at most 16: a process makes one short query after another, and spends most of their time waiting for answers."""
    heartbeat_timeout: Duration = Field(15.0, ge=2, le=3600)
    """A probe process that is silent for this long is killed and started again."""


class LogSettings(Strict):
    """Messages on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "warning"
    """The least severe level that is shown."""
    format: Literal["logfmt", "json"] = "logfmt"
    """How a message is written."""


def _shard(value: object) -> object:
    return str(parse_shard(value)) if isinstance(value, str) else value


def default_state_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """systemd's state directory where there is one, else the user's (XDG base directories, which must be absolute).

    Raises RuntimeError where neither is known, for the user has no home.
    """
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        home = environ.get("HOME", "")
        base = str((Path(home) if home.startswith("/") else Path.home()) / ".local" / "state")
    return Path(base) / "tde-exporter"


def default_operation_settings() -> dict[Operation, OperationSettings]:
    """Bursts for queries of well under a millisecond, few samples for what takes milliseconds, one for the rest."""
    few = OperationSettings(samples=5, timeout=5.0)
    scan, batch = OperationSettings(samples=1, timeout=30.0), OperationSettings(samples=1, timeout=10.0)
    return {
        Operation.POINT_SELECT: OperationSettings(),
        Operation.POINT_SELECT_COLD: OperationSettings(),
        Operation.RANGE_SELECT: few,
        Operation.RANGE_SELECT_COLD: few,
        Operation.INDEX_COUNT: few,
        Operation.INDEX_COUNT_COLD: few,
        Operation.SORTED_SELECT: scan,
        Operation.SORTED_SELECT_COLD: scan,
        Operation.FULL_SCAN: scan,
        Operation.FULL_SCAN_COLD: scan,
        Operation.LOB_READ: scan,
        Operation.INSERT_BATCH: batch,
        Operation.UPDATE_BATCH: batch,
        Operation.DELETE_REPLENISH: batch,
        Operation.CHECKPOINT: batch,
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
        validate_default=True,
    )

    state_directory: Location = Field(
        default_factory=lambda: default_state_directory(), examples=["/var/lib/tde-exporter"]
    )
    """Where the history and the embedded database live. Default: the service manager's or the user's state directory."""
    shard: Annotated[str, BeforeValidator(_shard)] = "0/1"
    """Which share of the targets this exporter watches, of how many: `0/3`, `1/3` and `2/3` are three exporters that watch everything together, each with the same configuration. The name of a target decides, so that one shard more takes over its part and moves nothing else. A name may stand before the number, as that of a pod: `tde-exporter-1/3`. The default watches everything."""
    targets: tuple[SerializeAsAny[TargetSettings], ...] = Field(min_length=1)
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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is given: the loader adds file and environment, for it must name line or variable of every problem."""
        return (init_settings,)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as plain `Settings`: a probe process cannot import the class that `settings_type` made."""
        return _thaw, (self.__getstate__(),)

    @field_validator("operations", mode="after")
    @classmethod
    def _operations_are_complete(cls, given: dict[Operation, OperationSettings]) -> dict[Operation, OperationSettings]:
        complete = default_operation_settings()
        for operation, settings in given.items():
            named = {key: getattr(settings, key) for key in settings.model_fields_set}
            complete[operation] = complete[operation].model_copy(update=named)
        return complete

    @model_validator(mode="after")
    def _target_names_are_unique(self) -> Self:
        _refuse_duplicates("targets", [target.name for target in self.targets], ("name",))
        return self

    def operation(self, operation: Operation) -> OperationSettings:
        return self.operations[operation]

    def target(self, name: str) -> TargetSettings | None:
        return next((target for target in self.targets if target.name == name), None)

    def intervals_of(self, target: TargetSettings) -> IntervalSettings:
        return target.intervals or self.intervals

    def budgets_of(self, target: TargetSettings) -> BudgetSettings:
        return target.budgets or self.budgets

    @property
    def own_shard(self) -> Shard:
        return parse_shard(self.shard)

    @property
    def history_path(self) -> Path:
        return self.history.path or self.state_directory / "history.db"


def settings_type(target_types: Mapping[str, type[TargetSettings]]) -> type[Settings]:
    """`Settings` whose targets are of the given classes (at least one), told apart by their key `engine`."""
    return _settings_type(tuple(target_types.values()))


@cache
def _settings_type(classes: tuple[type[TargetSettings], ...]) -> type[Settings]:
    union: Any = Annotated[Union[classes], Field(discriminator="engine")] if len(classes) > 1 else classes[0]  # noqa: UP007
    return create_model("Settings", __base__=Settings, targets=(tuple[union, ...], Settings.model_fields["targets"]))


def _thaw(state: dict[Any, Any]) -> Settings:
    settings = Settings.__new__(Settings)
    settings.__setstate__(state)
    return settings


def _refuse_duplicates(section: str, names: list[Any], key: tuple[str, ...] = ()) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise PydanticCustomError(
                "duplicate_name",
                "two {section} are named '{name}'; give each its own name",
                {"name": str(name), "section": section, "at": (section, position, *key)},
            )
