"""What the answers of a standby mean: one state for each of its channels. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from exporter.domain.states import LagKind, StandbyState
from exporter.engines._mysql_protocol.replica_status import Channel
from exporter.engines.beats import Memory, Primary, Reading, Row, believed

WIDEST_LOOK = 0.5
"""Seconds by which a clock may be read wrongly, for its skew to be told."""

FOREIGN = "its source is not the target"
NOT_YET = "which server its source is shows when it has connected"
TWICE = "several of its sources have the server id of the target; give each server its own"
NO_WRITER = "no heartbeats are written at the moment"
NEVER_WRITTEN = "it shows a heartbeat that the primary never wrote"
NO_PLACE = "its place in the primary's binary log is not known"
NO_CARRIER = "which of its channels brings the heartbeats is not known"
NOT_A_REPLICA = "it replicates from no server"


@dataclass(slots=True)
class Answer:
    """What one standby answered, filled as far as it came. Times are ours, taken before asking; None is unknown.

    `reached`: it answered at all. `fault` says why it did not answer to the end, the other words why a part is unknown.
    """

    reached: bool = False
    done: bool = False
    fault: str = ""
    row: Row | None = None
    row_at: float = 0.0
    row_problem: str = ""
    channels: tuple[Channel, ...] | None = None
    status_at: float = 0.0
    status_problem: str = ""
    clock: Reading | None = None
    key_match: bool | None = None
    key_problem: str = ""

    def so_far(self) -> Answer:
        """As it is now; one that is not complete says so."""
        fault = self.fault if self.done else self.fault or "it did not answer in time"
        return replace(self, fault=fault)


@dataclass(slots=True)
class Sources:
    """What is remembered of a standby's channels between two readings.

    `ours` are those that were seen to come from the target, with the address they came from: a replica forgets who
    its source is when it is restarted. `names` are the channels that were there last, None before the first reading.
    """

    ours: dict[str, tuple[str, int]] = field(default_factory=dict)
    names: tuple[str, ...] | None = None

    def sort(self, channels: Iterable[Channel], primary: Primary) -> dict[str, str]:
        """For each channel, why it does not come from the target; empty for one that does."""
        verdicts = {channel.name: self._verdict(channel, primary) for channel in channels}
        proven = [channel for channel in channels if not verdicts[channel.name] and not channel.source_uuid]
        if len(proven) > 1:
            verdicts |= {channel.name: TWICE for channel in proven}
        self.ours = {channel.name: channel.address for channel in channels if not verdicts[channel.name]}
        self.names = tuple(verdicts)
        return verdicts

    def _verdict(self, channel: Channel, primary: Primary) -> str:
        if channel.source_uuid and primary.uuid:
            return "" if channel.source_uuid == primary.uuid else FOREIGN
        if channel.source:
            return "" if channel.source == primary.server else FOREIGN
        return "" if self.ours.get(channel.name) == channel.address else NOT_YET


def states_of(
    standby: str,
    answer: Answer,
    sources: Sources,
    primary: Primary,
    primary_problem: str,
    memory: Memory,
    no_position: str,
) -> tuple[StandbyState, ...]:
    """One state for each channel.

    `primary_problem` says why the primary's heartbeat is unknown, `no_position` why the end of its binary log is.
    """
    common = StandbyState(standby, key_match=answer.key_match, clock_skew=_skew(answer, primary))
    lag, unseen = _heartbeat(answer, primary, primary_problem, memory)
    rest = (answer.key_problem,)
    if answer.channels is None:
        known = common if sources.names != () else replace(common, configured=False)
        words = _joined(answer.fault, answer.status_problem, unseen, *rest)
        names = sources.names or ("",)
        carried = lag if len(names) == 1 else None
        return tuple(replace(known, channel=name, lags=_lags(None, None, carried), problem=words) for name in names)
    verdicts = sources.sort(answer.channels, primary)
    if not answer.channels:
        words = _joined(NOT_A_REPLICA, answer.fault, *rest)
        return (
            replace(
                common,
                configured=False,
                transport_running=False,
                apply_running=False,
                lags=_lags(None, None, None),
                problem=words,
            ),
        )
    carrier = _carrier(verdicts)
    found = []
    for channel in answer.channels:
        carries = channel.name == carrier
        beaten = lag if carries else None
        why = unseen if carries else NO_CARRIER if carrier is None else ""
        if verdicts[channel.name]:
            transport, apply, words = None, believed(channel.behind, beaten), verdicts[channel.name]
        else:
            shown = answer.row.sequence if carries and answer.row else None
            transport, apply, words = _by_position(channel, beaten, shown, memory, answer.status_at, no_position)
        found.append(
            replace(
                common,
                channel=channel.name,
                transport_running=channel.receives,
                apply_running=channel.applies,
                lags=_lags(transport, apply, beaten),
                received_sequence=_received(channel, verdicts[channel.name], memory),
                applied_sequence=answer.row.sequence if carries and answer.row else None,
                configured_delay=channel.delay,
                problem=_joined(answer.fault, channel.problem, why, words, *rest),
            )
        )
    return tuple(found)


def _heartbeat(answer: Answer, primary: Primary, primary_problem: str, memory: Memory) -> tuple[float | None, str]:
    """The lag of the heartbeat, and why it is unknown."""
    if answer.row is None:
        return None, answer.row_problem
    lag = memory.heartbeat(answer.row, primary, answer.row_at)
    if lag is not None:
        return lag, ""
    if primary.row is None:
        return None, primary_problem or "the primary has no heartbeat yet"
    return None, NEVER_WRITTEN if answer.row.sequence > primary.row.sequence else NO_WRITER


def _by_position(
    channel: Channel, heartbeat: float | None, shown: int | None, memory: Memory, at: float, no_position: str
) -> tuple[float | None, float | None, str]:
    """Transport and apply lag of a channel from the target, and why one is unknown although both threads run."""
    received, applied = channel.received, channel.applied
    if no_position or received is None or not memory.knows(received):
        return None, believed(channel.behind, heartbeat), no_position or NO_PLACE
    transport = memory.transport(received, applied, heartbeat, channel.receives is True, at)
    apply = memory.apply(received, applied, heartbeat, channel.runs, at, shown) if applied is not None else None
    unknown = transport is None or apply is None
    return transport, apply, NO_WRITER if unknown and not memory.is_fresh(at) else ""


def _carrier(verdicts: dict[str, str]) -> str | None:
    """The channel that brings the heartbeats: the target's, or else the only one that can."""
    for wanted in ("", NOT_YET):
        names = [name for name, verdict in verdicts.items() if verdict == wanted]
        if names:
            return names[0] if len(names) == 1 else None
    # A standby of a standby.
    return next(iter(verdicts)) if len(verdicts) == 1 else None


def _received(channel: Channel, verdict: str, memory: Memory) -> int | None:
    return None if verdict or channel.received is None else memory.sequence(channel.received)


def _skew(answer: Answer, primary: Primary) -> float | None:
    if answer.clock is None or primary.clock is None or answer.clock.give + primary.clock.give > WIDEST_LOOK:
        return None
    return answer.clock - primary.clock


def _lags(
    transport: float | None, apply: float | None, heartbeat: float | None
) -> tuple[tuple[LagKind, float | None], ...]:
    return ((LagKind.TRANSPORT, transport), (LagKind.APPLY, apply), (LagKind.HEARTBEAT, heartbeat))


def _joined(*words: str) -> str:
    return "; ".join(dict.fromkeys(part for part in words if part))
