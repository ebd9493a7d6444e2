"""Facts about targets, pairs and keystores, made safe to be shown: bounded, unique, without garbage."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any

from exporter.domain.model import PairFacts, TargetFacts, TwinFacts
from exporter.domain.states import EncryptionState, Keystore
from exporter.exposition.screening import count, label, number, words

MOST_KEYSTORES = 32
"""Keystores of one target that are shown; each costs eight series."""

MOST_KINDS = 64
"""Kinds of object by state that are shown for one target."""


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
    """Keystores with unique names and the inventory summed by kind and state; and what was left out."""
    keystores: dict[str, Keystore] = {}
    objects: Counter[tuple[str, str]] = Counter()
    invalid = 0
    for keystore in state.keystores:
        name, activated = label(keystore.name), None
        if name in keystores or len(keystores) >= MOST_KEYSTORES:
            invalid += 1
            continue
        if keystore.key_activated is not None:
            activated = number(keystore.key_activated)
            invalid += activated is None
        keystores[name] = Keystore(
            name,
            keystore.state,
            label(keystore.kind),
            label(keystore.mode),
            label(keystore.raw),
            label(keystore.seen_from),
            activated,
        )
    for kind, condition, found in state.objects:
        place, amount = (label(kind), label(condition)), count(found)
        if amount is None or (place not in objects and len(objects) >= MOST_KINDS):
            invalid += 1
        else:
            objects[place] += amount
    inventory = tuple((kind, condition, amount) for (kind, condition), amount in objects.items())
    return EncryptionState(tuple(keystores.values()), inventory), invalid


def _twin(twin: TwinFacts) -> tuple[TwinFacts, int]:
    rows, per_block = count(twin.rows), number(twin.rows_per_block)
    invalid = (twin.rows is not None and rows is None) + (twin.rows_per_block is not None and per_block is None)
    algorithm, problem = label(twin.algorithm), words(twin.problem)
    return replace(twin, algorithm=algorithm, rows=rows, rows_per_block=per_block, problem=problem), invalid
