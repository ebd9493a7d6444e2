"""Facts about targets, pairs and keystores, made safe to be shown: bounded, unique, without garbage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

from exporter.domain.model import PairFacts, TargetFacts, TwinFacts
from exporter.domain.states import EncryptionState, Keystore
from exporter.exposition.screening import count, label, number, words

MOST_KEYSTORES = 32
"""Keystores of one target that are shown; each costs ten series."""

MOST_KINDS = 64
"""Kinds of object by state that are shown for one target, in number and in bytes."""

MOST_ALGORITHMS = MOST_DEPENDENTS = 16
"""Algorithms, and kinds of what lies in the clear, that are shown for one target."""

MOST_CONVERSIONS = 10
"""Objects under conversion that are shown for one target: the first that it names."""

MOST_PROBLEMS = 16

Place = TypeVar("Place")


def screened_facts(facts: TargetFacts) -> TargetFacts:
    """The same facts with every text fit for a label, and no impossible size."""
    texts: dict[str, Any] = {
        field.name: label(text)
        for field in fields(facts)
        if field.name != "block_bytes" and (text := getattr(facts, field.name)) is not None
    }
    return replace(facts, **texts, block_bytes=count(facts.block_bytes) or None)


def screened_pair(facts: PairFacts) -> tuple[PairFacts, int]:
    """The verification without impossible numbers, and how many of them there were."""
    a, invalid_a = _twin(facts.a)
    b, invalid_b = _twin(facts.b)
    return replace(facts, a=a, b=b), invalid_a + invalid_b


def screened_state(state: EncryptionState) -> tuple[EncryptionState, int]:
    """Keystores with unique names, the inventory summed by its labels; and the number of values that were left out."""
    keystores: dict[str, Keystore] = {}
    invalid = 0
    for keystore in state.keystores:
        found, ignored = _keystore(keystore)
        if found.name in keystores or len(keystores) >= MOST_KEYSTORES:
            invalid += 1
            continue
        keystores[found.name] = found
        invalid += ignored
    sums = [
        _summed((((label(kind), label(condition)), found) for kind, condition, found in entries), MOST_KINDS)
        for entries in (state.objects, state.object_bytes)
    ]
    objects, sizes = (tuple((kind, condition, amount) for (kind, condition), amount in found) for found, _ in sums)
    algorithms, odd_algorithms = _summed(((label(name), found) for name, found in state.algorithms), MOST_ALGORITHMS)
    unprotected, odd_kinds = _summed(((label(kind), found) for kind, found in state.unprotected), MOST_DEPENDENTS)
    conversions, odd_shares = _conversions(state)
    stalled = state.conversion_stalled if isinstance(state.conversion_stalled, bool) else None
    invalid += sum(ignored for _, ignored in sums) + odd_algorithms + odd_kinds + odd_shares
    invalid += state.conversion_stalled is not None and stalled is None
    return (
        EncryptionState(
            tuple(keystores.values()),
            objects,
            sizes,
            algorithms,
            unprotected,
            conversions,
            stalled,
            tuple(words(problem) for problem in state.problems[:MOST_PROBLEMS]),
        ),
        invalid,
    )


def _keystore(keystore: Keystore) -> tuple[Keystore, int]:
    activated, used, missing = number(keystore.key_activated), count(keystore.keys_in_use), count(keystore.keys_missing)
    told = (keystore.key_activated, keystore.keys_in_use, keystore.keys_missing)
    believed = (activated, used, missing)
    screened = Keystore(
        label(keystore.name),
        keystore.state,
        label(keystore.kind),
        label(keystore.mode),
        label(keystore.raw),
        label(keystore.seen_from),
        *believed,
        backed_up=keystore.backed_up if isinstance(keystore.backed_up, bool) else None,
    )
    return screened, sum(said is not None and known is None for said, known in zip(told, believed, strict=True))


def _summed(entries: Iterable[tuple[Place, object]], most: int) -> tuple[tuple[tuple[Place, int], ...], int]:
    """Amounts by place, at most so many places; and how many entries were left out."""
    sums: Counter[Place] = Counter()
    invalid = 0
    for place, found in entries:
        amount = count(found)
        if amount is None or (place not in sums and len(sums) >= most):
            invalid += 1
        else:
            sums[place] += amount
    return tuple(sums.items()), invalid


def _conversions(state: EncryptionState) -> tuple[tuple[tuple[str, float], ...], int]:
    """The first few; the others are many where a whole database is converted, and no mistake."""
    found: dict[str, float] = {}
    invalid = 0
    for name, done in state.conversions:
        share = number(done)
        if share is None or share > 1 or label(name) in found:
            invalid += 1
        elif len(found) < MOST_CONVERSIONS:
            found[label(name)] = share
    return tuple(found.items()), invalid


def _twin(twin: TwinFacts) -> tuple[TwinFacts, int]:
    rows, per_block = count(twin.rows), number(twin.rows_per_block)
    invalid = (twin.rows is not None and rows is None) + (twin.rows_per_block is not None and per_block is None)
    algorithm, problem = label(twin.algorithm), words(twin.problem)
    return replace(twin, algorithm=algorithm, rows=rows, rows_per_block=per_block, problem=problem), invalid
