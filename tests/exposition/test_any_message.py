"""Whatever a probe process says, in whatever order, the page parses and names nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from exporter.config.schema import PairSettings, Settings
from exporter.domain.errors import Reason
from exporter.domain.model import (
    Burst,
    Operation,
    PairFacts,
    Phase,
    Sample,
    Slot,
    Snapshot,
    TargetFacts,
    Tick,
    TwinFacts,
    Variant,
    Work,
)
from exporter.domain.states import (
    Activity,
    EncryptionState,
    Keystore,
    KeystoreState,
    LagKind,
    ScratchLock,
    StandbyState,
)
from exporter.engines.fake.settings import Standby, Target
from exporter.exposition.catalogue import CATALOGUE
from exporter.probing.messages import (
    COLLECTORS,
    ActivityRead,
    Beat,
    BoostedNow,
    BudgetsUsed,
    Building,
    CollectorDone,
    LockSeen,
    PairChecked,
    SnapshotDone,
    StandbysRead,
    StateRead,
    TargetFailed,
    TargetReached,
    TickDone,
)
from tests.exposition.stages import Stage

ODD: Any = st.one_of(
    st.floats(), st.integers(), st.none(), st.text(max_size=3), st.binary(max_size=3), st.decimals(), st.booleans()
)
LIKELY: Any = st.one_of(st.floats(1e-6, 10.0), st.floats(1e-6, 10.0), ODD)
WORDS: Any = st.text(alphabet=st.characters(exclude_categories=()), max_size=8)
TARGETS = st.sampled_from(["one", "two", "stranger"])
PAIRS = st.sampled_from(["scripted", "stranger"])
REASONS: Any = st.one_of(st.none(), st.sampled_from(Reason))
COUNTS = st.integers(-5, 1000)

works = st.builds(Work, ODD, ODD, ODD, ODD, ODD)
samples = st.builds(Sample, COUNTS, LIKELY, LIKELY, LIKELY, LIKELY, works, REASONS)
bursts = st.builds(Burst, st.lists(samples, max_size=3).map(tuple))
ticks = st.builds(
    Tick,
    TARGETS,
    PAIRS,
    st.sampled_from(Operation),
    st.sampled_from(["e1", "e2"]),
    LIKELY,
    st.sampled_from(Variant),
    bursts,
    bursts,
    st.one_of(st.none(), st.none(), st.sampled_from(["contended", "connect"])),
    COUNTS,
)
facts = st.builds(
    TargetFacts,
    WORDS,
    WORDS,
    WORDS,
    decrypt_unit=st.one_of(st.none(), st.just("block"), WORDS),
    decrypt_source=st.one_of(st.none(), st.just("counter"), WORDS),
    shared_costs=WORDS,
)
encrypted_twins = st.builds(
    TwinFacts, st.just(Slot.A), st.sampled_from([True, True, None]), WORDS, ODD, ODD, st.just("d")
)
plain_twins = st.builds(
    TwinFacts, st.just(Slot.B), st.sampled_from([False, False, None]), WORDS, ODD, ODD, st.just("d")
)
pair_facts = st.builds(
    PairFacts, PAIRS, st.sampled_from(Phase), encrypted_twins, plain_twins, st.sampled_from(["e1", "e2"])
)
keystores = st.builds(Keystore, WORDS, st.sampled_from(KeystoreState), WORDS, WORDS, WORDS, WORDS, ODD, ODD, ODD)
states = st.builds(
    EncryptionState,
    st.lists(keystores, max_size=3).map(tuple),
    st.lists(st.tuples(WORDS, WORDS, ODD), max_size=4).map(tuple),
    st.lists(st.tuples(WORDS, WORDS, ODD), max_size=4).map(tuple),
    st.lists(st.tuples(WORDS, ODD), max_size=4).map(tuple),
    st.lists(st.tuples(WORDS, ODD), max_size=4).map(tuple),
    st.lists(st.tuples(WORDS, LIKELY), max_size=4).map(tuple),
    st.one_of(st.booleans(), ODD),
    st.lists(WORDS, max_size=3).map(tuple),
)
flags: Any = st.one_of(st.booleans(), ODD)
activities = st.builds(
    Activity,
    COUNTS,
    ODD,
    WORDS,
    st.sampled_from(["counter", "proxy", None, "odd"]),
    LIKELY,
    ODD,
    LIKELY,
    LIKELY,
    LIKELY,
    ODD,
    flags,
    st.lists(WORDS, max_size=3).map(tuple),
)
standby_states = st.builds(
    StandbyState,
    st.sampled_from(["near", "near", "far", "stranger"]),
    flags,
    flags,
    flags,
    st.lists(st.tuples(st.sampled_from(LagKind), LIKELY), max_size=4).map(tuple),
    ODD,
    ODD,
    flags,
    ODD,
    ODD,
    WORDS,
    st.one_of(st.just(""), WORDS),
)
beats = st.builds(
    Beat,
    COUNTS,
    st.lists(ODD, max_size=4).map(tuple),
    st.dictionaries(st.tuples(TARGETS, st.sampled_from(["busy", "missed", "odd"])), COUNTS, max_size=3),
    st.lists(ODD, max_size=4).map(tuple),
    COUNTS,
    COUNTS,
    COUNTS,
    st.dictionaries(TARGETS, ODD, max_size=2),
)
messages: Any = st.one_of(
    beats,
    st.builds(TargetReached, TARGETS, facts, COUNTS, ODD),
    st.builds(TargetFailed, TARGETS, st.sampled_from(Reason), WORDS, st.booleans()),
    st.builds(TickDone, ticks),
    st.builds(TickDone, ticks),
    st.builds(SnapshotDone, st.builds(Snapshot, TARGETS, ODD, ODD, st.lists(ticks, max_size=3).map(tuple))),
    st.builds(PairChecked, TARGETS, pair_facts),
    st.builds(PairChecked, TARGETS, pair_facts),
    st.builds(StateRead, TARGETS, states),
    st.builds(ActivityRead, TARGETS, activities),
    st.builds(StandbysRead, TARGETS, st.lists(standby_states, max_size=4).map(tuple)),
    st.builds(LockSeen, TARGETS, st.one_of(st.builds(ScratchLock, flags, WORDS), ODD)),
    st.builds(CollectorDone, TARGETS, st.sampled_from([*COLLECTORS, "odd"]), ODD, ODD, REASONS, WORDS),
    st.builds(
        BoostedNow,
        TARGETS,
        st.frozensets(st.tuples(PAIRS, st.sampled_from([Operation.POINT_SELECT, Operation.FULL_SCAN])), max_size=2),
        WORDS,
    ),
    st.builds(Building, TARGETS, WORDS, ODD),
    st.builds(
        BudgetsUsed,
        TARGETS,
        st.dictionaries(st.sampled_from(["time", "sessions", "odd"]), ODD, max_size=3),
        ODD,
        ODD,
        st.dictionaries(st.tuples(PAIRS, st.sampled_from(Operation)), LIKELY, max_size=3),
    ),
)
events = st.one_of(messages, messages, messages, st.floats(0, 100), st.booleans())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(events, max_size=25))
def test_any_sequence_of_messages_gives_a_page_that_parses(said: list[Any]) -> None:
    pairs = (PairSettings(name="scripted"),)
    standbys = (Standby(name="near"), Standby(name="far"))
    targets = (Target(name="one", pairs=pairs, standbys=standbys), Target(name="two", pairs=pairs))
    stage = Stage(Settings(state_directory=Path("nowhere"), targets=targets))
    for event in said:
        if isinstance(event, bool):
            stage.ledger.process_up(0, event)
        elif isinstance(event, float):
            stage.clock.advance(event)
        else:
            stage.say(event)

    families = list(text_string_to_metric_families(stage.renderer.render_once().openmetrics.decode()))
    samples = [(sample.name, frozenset(sample.labels.items())) for family in families for sample in family.samples]

    assert len(samples) == len(set(samples))
    assert len({family.name for family in families}) == len(families)
    names = {family.name for family in families if not family.name.startswith(("process_", "python_"))}
    assert names <= {name.removesuffix("_total") for name in CATALOGUE}
    assert set(stage.samples())
