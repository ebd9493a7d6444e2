"""All detectors of one series, fed tick by tick: blocks, thresholds of the last hour, hold-offs, what a restart keeps.

Cheap by keeping little: of the hour's samples only those near the percentile (`_Tail`) are at hand, taken anew from the
window whenever it drops a block, and amended by each tick. Beyond the window itself that takes about 20 KiB for a series
of 20 samples every ten seconds, most of it for the samples of the blocks that are open.
"""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporter.domain.model import Burst, Tick
from exporter.overhead.blocks import FloatRow
from exporter.overhead.evidence import Detector, Evidence, Name
from exporter.overhead.pex import fewest_samples
from exporter.overhead.units import SHORTEST, UnitPoint

Logs = NDArray[Any]
Pool = Callable[[], tuple[Logs, Logs]]
"""Gives the log durations of the last hour, the tick that is being added included: (encrypted, plain), each (n,)."""

HOLD_OFF = 1800.0
"""Seconds without a bet after a restart of the database, or after most samples of both sides failed: caches are cold,
and those of the two sides need not warm up at the same speed."""

_STATE_VERSION = 1
_POOL_STEP = 300.0
"""Seconds: the window drops its oldest block when a new one begins. Blocks of that length or longer need no tail."""


class SeriesEvidence:
    """The evidence of one series. Not thread-safe; times are steady seconds.

    Use: `window.add(tick, at)`, and if that took the tick, `evidence.add(tick, at, pool)`, where `pool` gives what the
    window holds now; then `add_unit` for the unit that the tick completed, if any.

    `frozen` in these calls says that nothing may be concluded now (no data, an outage, nothing went through the
    cipher): samples become part of the pool, blocks that are open are given up, and the evidence stays as it is.
    """

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._evidence: dict[Name, Evidence] = {}
        self._open: dict[tuple[float, bool], _OpenBlock] = {}
        self._tails: dict[Name, _Tail] = {}
        self._epoch: str | None = None
        self._began: float | None = None
        self._held_until = -math.inf
        self._pool_block = -1  # Number of the window's newest block when the tails were last taken or amended.
        self.ask(detectors)

    # -- what comes in -----------------------------------------------------------------------------------

    def add(self, tick: Tick, at: float, pool: Pool, *, frozen: bool = False) -> tuple[Name, ...]:
        """Takes a tick that entered the window at `at`; the detectors whose evidence suffices now.

        `pool` is called now or not at all; usually twice in five minutes. A new epoch begins all anew.
        """
        self.enter(tick.epoch, at)
        return self.add_logs(_logs(tick.encrypted), _logs(tick.plain), at, pool, frozen=frozen)

    def add_logs(
        self, encrypted: Logs, plain: Logs, at: float, pool: Pool, *, frozen: bool = False
    ) -> tuple[Name, ...]:
        """The same, of log durations of shape (n,) each, +inf where there was no answer, in the epoch as it is."""
        fired = self._close(at, pool, frozen)
        if _most_failed(encrypted) and _most_failed(plain):
            self.hold_off(at)
        block, kept = math.floor(at / _POOL_STEP), _once(pool)
        for tail in self._tails.values():
            if block == self._pool_block and tail.suffices:
                tail.add(encrypted, plain)
            else:
                tail.take(*kept())
        self._pool_block = block
        for (length, units), opened in self._open.items():
            if not units:
                opened.add(encrypted, plain, at)
                if not length:
                    fired += self._judge(opened, at, pool, frozen)
        return tuple(fired)

    def add_unit(self, unit: UnitPoint, *, frozen: bool = False) -> tuple[Name, ...]:
        """Takes an AB+BA unit in the epoch as it is; the detectors whose evidence suffices now."""
        fired = self._close(unit.at, _no_pool, frozen, units_only=True)
        for (_, units), opened in self._open.items():
            if units:
                opened.add_unit(unit.latency, unit.at)
        return tuple(fired)

    def enter(self, epoch: str, at: float) -> None:
        """Begins a new epoch at `at`, unless it is the one that goes on: no evidence outlives what it is about."""
        if epoch == self._epoch:
            return
        self._epoch, self._began = epoch, at
        self._evidence = {name: Evidence(evidence.detector) for name, evidence in self._evidence.items()}
        self._forget_blocks()

    def ask(self, detectors: Sequence[Detector]) -> None:
        """From now on these are the detectors; those that were asked already keep their evidence and their open blocks.

        Raises ValueError when two have the same name.
        """
        if len({detector.name for detector in detectors}) != len(detectors):
            raise ValueError("two detectors have the same name")
        known = {one.detector: one for one in self._evidence.values()}
        opened, tails = self._open, self._tails
        self._evidence = {one.name: known.get(one) or Evidence(one) for one in detectors}
        self._renew_blocks()
        self._open |= {key: block for key, block in opened.items() if key in self._open}
        self._tails |= {one.name: tails[one.name] for one in detectors if one in known and one.name in tails}

    def hold_off(self, at: float, seconds: float = HOLD_OFF) -> None:
        """No bets until so many seconds after `at`; the evidence that there is stays."""
        self._held_until = max(self._held_until, at + seconds)

    # -- what comes out ----------------------------------------------------------------------------------

    @property
    def all(self) -> tuple[Evidence, ...]:
        """Every detector's, to be read only."""
        return tuple(self._evidence.values())

    def held(self, now: float) -> bool:
        return now < self._held_until

    def epoch_age(self, now: float) -> float:
        """Seconds since the first tick of the epoch; 0 before it."""
        return 0.0 if self._began is None else max(0.0, now - self._began)

    @property
    def suspicious(self) -> bool:
        """Whether any evidence is so strong that it may soon suffice: the word for it is "undecided"."""
        return any(evidence.suspicious for evidence in self._evidence.values())

    @property
    def boost_wanted(self) -> bool:
        """Whether more samples in a tick would bring a decision nearer."""
        return any(evidence.boost_wanted for evidence in self._evidence.values())

    def to_state(self) -> dict[str, Any]:
        """What a restart of the exporter needs, for JSON; blocks that are open are not part of it."""
        return {
            "version": _STATE_VERSION,
            "epoch": self._epoch,
            "began": self._began,
            "held_until": self._held_until if math.isfinite(self._held_until) else None,
            "evidence": [evidence.to_state() for evidence in self._evidence.values()],
        }

    @classmethod
    def from_state(cls, detectors: Sequence[Detector], state: Mapping[str, Any]) -> SeriesEvidence:
        """The inverse of `to_state`. Detectors that the state does not know, or whose ratio has changed, begin anew.

        Raises ValueError when the state is damaged or of an unknown version.
        """
        found = cls(detectors)
        try:
            version, epoch, began, held, kept = (
                state[name] for name in ("version", "epoch", "began", "held_until", "evidence")
            )
        except (KeyError, TypeError) as error:
            raise ValueError("damaged evidence") from error
        times = [value for value in (began, held) if value is not None]
        if version != _STATE_VERSION:
            raise ValueError(f"unknown version {version} of evidence")
        if not isinstance(epoch, str | None) or not isinstance(kept, list) or not all(map(_is_time, times)):
            raise ValueError("damaged evidence")
        found._epoch, found._began = epoch, began
        found._held_until = -math.inf if held is None else held
        for part in kept:
            for name, evidence in found._evidence.items():
                if (same := Evidence.from_state(evidence.detector, part)) is not None:
                    found._evidence[name] = same
        return found

    # -- steps -------------------------------------------------------------------------------------------

    def _forget_blocks(self) -> None:
        self._renew_blocks()
        self._pool_block = -1

    def _renew_blocks(self) -> None:
        asked = [evidence.detector for evidence in self._evidence.values()]
        self._open = {(one.block, one.units): _OpenBlock(one.block) for one in asked}
        self._tails = {one.name: _Tail(one) for one in asked if not one.units and one.block < _POOL_STEP}

    def _close(self, at: float, pool: Pool, frozen: bool, *, units_only: bool = False) -> list[Name]:
        """Judges the blocks that ended before `at`."""
        fired: list[Name] = []
        for (_, units), opened in self._open.items():
            if opened.ended(at) and (units or not units_only):
                fired += self._judge(opened, at, pool, frozen)
        return fired

    def _judge(self, opened: _OpenBlock, at: float, pool: Pool, frozen: bool) -> list[Name]:
        fired, kept = [], _once(pool)
        for name, evidence in self._evidence.items():
            detector = evidence.detector
            if self._open[detector.block, detector.units] is not opened or frozen:
                continue
            difference = self._difference(detector, opened, kept)
            if difference is not None and evidence.update(0 if self.held(at) else difference, at):
                fired.append(name)
        opened.clear()
        return fired

    def _difference(self, detector: Detector, opened: _OpenBlock, pool: Pool) -> int | None:
        """D of a block; None when the pool is too small to say."""
        if detector.units:
            return opened.units_above(math.log(detector.ratio))
        tail = self._tails.get(detector.name)
        # Between ticks a tail is never amended by what the pool has already: a tick would be in it twice.
        known = tail is not None and tail.suffices
        threshold = tail.threshold() if tail is not None and known else _threshold(detector, *pool())
        return None if threshold is None else opened.surplus(threshold, math.log(detector.ratio))


class _OpenBlock:
    """The samples, or the units, of a block that has not ended."""

    def __init__(self, length: float) -> None:
        self._length, self._number = length, 0
        self.clear()

    def clear(self) -> None:
        self._encrypted, self._plain = FloatRow(), FloatRow()
        self._units: list[float] = []
        self._empty = True

    def ended(self, at: float) -> bool:
        return not self._empty and at // self._length > self._number

    def add(self, encrypted: Logs, plain: Logs, at: float) -> None:
        self._begin(at)
        self._encrypted.extend(encrypted)
        self._plain.extend(plain)

    def add_unit(self, latency: float, at: float) -> None:
        self._begin(at)
        self._units.append(latency)

    def _begin(self, at: float) -> None:
        if self._empty and self._length:
            self._number = int(at // self._length)
        self._empty = False

    def surplus(self, threshold: float, shift: float) -> int:
        encrypted, plain = self._encrypted.view().astype(np.float64), self._plain.view().astype(np.float64)
        return int(np.count_nonzero(encrypted >= threshold) - np.count_nonzero(plain + shift >= threshold))

    def units_above(self, shift: float) -> int:
        return sum((latency > shift) - (latency < shift) for latency in self._units)


class _Tail:
    """The largest of the pooled log durations, the plain ones shifted: enough of them to know the percentile."""

    def __init__(self, detector: Detector) -> None:
        self._detector, self._shift = detector, math.log(detector.ratio)
        self._values: array[float] = array("d")
        self._count = 0

    def take(self, encrypted: Logs, plain: Logs) -> None:
        """All anew, from the pool."""
        self._count = encrypted.size + plain.size
        # Room for the samples to come, and for those of a minute in which samples are more frequent.
        largest = min(self._count, 2 * self._most + 32)
        values = np.concatenate([_largest(encrypted, largest), _largest(plain, largest) + self._shift])
        values.sort()
        self._values = array("d", values[-largest:].tobytes())

    def add(self, encrypted: Logs, plain: Logs) -> None:
        """What came into the pool since."""
        self._count += encrypted.size + plain.size
        floor = self._values[0]
        for side, shift in ((encrypted, 0.0), (plain, self._shift)):
            shifted = side.astype(np.float64) + shift
            for value in shifted[shifted >= floor].tolist():
                insort(self._values, value)

    @property
    def suffices(self) -> bool:
        """Whether the percentile is among the values; else take them anew."""
        return self._most <= len(self._values)

    def threshold(self) -> float | None:
        """The percentile of the pool; None when it is too small."""
        enough = self._count >= 2 * fewest_samples(self._detector.percentile / 100)
        return self._values[-self._most] if enough else None

    @property
    def _most(self) -> int:
        return _exceedances(self._detector, self._count)


def _largest(values: Logs, most: int) -> NDArray[np.float64]:
    if most < values.size:
        values = np.partition(values, values.size - most)[values.size - most :]
    return values.astype(np.float64)


def _exceedances(detector: Detector, count: int) -> int:
    return max(1, round((1.0 - detector.percentile / 100) * count))


def _threshold(detector: Detector, encrypted: Logs, plain: Logs) -> float | None:
    """The percentile of the pool, the plain side scaled; None when it is too small."""
    if min(encrypted.size, plain.size) < fewest_samples(detector.percentile / 100):
        return None
    pooled = np.concatenate([encrypted.astype(np.float64), plain.astype(np.float64) + math.log(detector.ratio)])
    place = pooled.size - _exceedances(detector, pooled.size)
    return float(np.partition(pooled, place)[place])


def _logs(burst: Burst) -> NDArray[np.float32]:
    # As the window keeps them: a threshold is one of these values, and must equal it to the last bit.
    durations: NDArray[np.float64] = np.array(burst.durations, dtype=np.float64)
    return np.log(np.maximum(durations, SHORTEST)).astype(np.float32)


def _most_failed(logs: Logs) -> bool:
    return bool(2 * np.count_nonzero(np.isposinf(logs)) > logs.size)


def _once(pool: Pool) -> Pool:
    kept: list[tuple[Logs, Logs]] = []

    def given() -> tuple[Logs, Logs]:
        if not kept:
            kept.append(pool())
        return kept[0]

    return given


def _no_pool() -> tuple[Logs, Logs]:
    raise AssertionError("units need no pool")


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
