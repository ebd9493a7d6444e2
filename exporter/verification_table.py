"""What `verify` found, as a person reads it at a terminal, and as a program reads it. Unknown is a dash, or null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from exporter import __version__
from exporter.console import table
from exporter.domain.model import PairFacts, Slot, TargetFacts, TwinFacts
from exporter.domain.states import EncryptionState, Keystore
from exporter.overhead import formats

_YES_NO = {True: "yes", False: "no", None: formats.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Verification:
    """The pairs of a target, and its keystores and inventory; `state` is None where they could not be read at all,
    and then `state_problem` says why."""

    target: str
    facts: TargetFacts
    pairs: tuple[PairFacts, ...]
    state: EncryptionState | None
    state_problem: str = ""

    @property
    def valid(self) -> bool:
        return all(pair.valid for pair in self.pairs)


def verification_text(found: Verification) -> str:
    """Tables of twins, keystores and inventory, each with the words that belong to it."""
    facts = found.facts
    parts = [f"{found.target}: {' '.join(word for word in (facts.flavor, facts.version) if word)}"]
    parts.append(_twins(found.pairs))
    parts.append("\n".join(line for pair in found.pairs for line in _verdict(pair)))
    if found.state is not None:
        parts += _state(found.state)
    else:
        parts.append(f"Keystores and inventory could not be read: {found.state_problem}")
    return "\n\n".join(parts)


def verification_dict(found: Verification) -> dict[str, Any]:
    """The same for `--json`."""
    state = found.state or EncryptionState()
    sizes = {(kind, condition): size for kind, condition, size in state.object_bytes}
    return {
        "version": __version__,
        "kind": "verification",
        "target": found.target,
        "flavor": found.facts.flavor,
        "server_version": found.facts.version,
        "valid": found.valid,
        "pairs": [_pair_dict(pair) for pair in found.pairs],
        "keystores": None if found.state is None else [_keystore_dict(keystore) for keystore in state.keystores],
        "objects": None
        if found.state is None
        else [
            {"kind": kind, "state": condition, "objects": number, "bytes": sizes.get((kind, condition))}
            for kind, condition, number in state.objects
        ],
        "algorithms": None if found.state is None else dict(state.algorithms),
        "unprotected": None if found.state is None else dict(state.unprotected),
        "conversions": None if found.state is None else dict(state.conversions),
        "conversion_stalled": state.conversion_stalled,
        "problems": list(state.problems) if found.state is not None else [found.state_problem],
    }


def _twins(pairs: Sequence[PairFacts]) -> str:
    header = ("pair", "twin", "encrypted", "algorithm", "rows", "rows per block")
    rows = [
        (
            pair.pair,
            _name(twin),
            _YES_NO[twin.encrypted],
            # A plain twin has none; of any other twin it is not known.
            twin.algorithm or ("" if twin.encrypted is False else formats.UNKNOWN),
            formats.count(twin.rows),
            formats.count(twin.rows_per_block),
        )
        for pair in pairs
        for twin in (pair.a, pair.b)
    ]
    return table(header, rows, left=4)


def _verdict(pair: PairFacts) -> Iterator[str]:
    """Whether the pair can be used, with everything that stands against it: sentences are too long for a table."""
    if pair.valid:
        yield f"Pair {pair.pair} is valid."
        return
    problems = dict.fromkeys(twin.problem for twin in (pair.a, pair.b) if twin.problem) or {pair.problem: None}
    for problem in problems:
        yield f"Pair {pair.pair} is not valid: {problem}"


def _state(state: EncryptionState) -> Iterator[str]:
    if state.keystores:
        header = ("keystore", "state", "kind", "the engine says", "keys in use", "keys missing")
        yield table(header, [_keystore_row(keystore) for keystore in state.keystores], left=4)
    else:
        yield "No keystore was seen."
    if state.objects:
        sizes = {(kind, condition): size for kind, condition, size in state.object_bytes}
        rows = [
            (kind, condition, formats.count(number), formats.count(sizes.get((kind, condition))))
            for kind, condition, number in state.objects
        ]
        yield table(("kind", "state", "objects", "bytes"), rows, left=2)
    words = list(_remarks(state))
    if words:
        yield "\n".join(words)


def _remarks(state: EncryptionState) -> Iterator[str]:
    if state.algorithms:
        yield f"Algorithms: {', '.join(f'{name} ({formats.count(number)})' for name, number in state.algorithms)}"
    if clear := [f"{kind} ({formats.count(number)})" for kind, number in state.unprotected if number]:
        yield f"In the clear, although it holds data of encrypted objects: {', '.join(clear)}"
    for name, share in state.conversions:
        yield f"Being converted: {name}, {share:.0%} done"
    if state.conversion_stalled:
        yield "A conversion has not moved for an hour."
    yield from (f"Not all could be read: {problem}" for problem in state.problems)


def _keystore_row(keystore: Keystore) -> tuple[str, ...]:
    return (
        keystore.name,
        keystore.state.value,
        " ".join(word for word in (keystore.kind, keystore.mode) if word),
        keystore.raw,
        formats.count(keystore.keys_in_use),
        formats.count(keystore.keys_missing),
    )


def _keystore_dict(keystore: Keystore) -> dict[str, Any]:
    return {
        "name": keystore.name,
        "state": keystore.state.value,
        "kind": keystore.kind,
        "mode": keystore.mode,
        "raw": keystore.raw,
        "keys_in_use": keystore.keys_in_use,
        "keys_missing": keystore.keys_missing,
    }


def _pair_dict(pair: PairFacts) -> dict[str, Any]:
    return {
        "pair": pair.pair,
        "phase": pair.phase.value,
        "valid": pair.valid,
        "problem": pair.problem,
        "twins": [
            {
                "slot": slot.value,
                "name": pair.twin(slot).name,
                "encrypted": pair.twin(slot).encrypted,
                "algorithm": pair.twin(slot).algorithm,
                "rows": pair.twin(slot).rows,
                "rows_per_block": pair.twin(slot).rows_per_block,
                "problem": pair.twin(slot).problem,
            }
            for slot in Slot
        ],
    }


def _name(twin: TwinFacts) -> str:
    return twin.name or f"slot {twin.slot}"
