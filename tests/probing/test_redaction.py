"""Whatever a driver or a server says, no secret leaves the process that knows it."""

import pickle
import random
from dataclasses import replace

import pytest

from exporter.config.schema import PairSettings, Settings
from exporter.config.secrets import SecretSource
from exporter.domain.clock import FakeClock
from exporter.domain.errors import AuthenticationFailed, ConnectFailed, QueryFailed
from exporter.domain.model import Slot, TwinFacts
from exporter.domain.states import Keystore, KeystoreState
from exporter.engines.fake.engine import Engine as FakeEngine
from exporter.engines.fake.engine import Session as FakeSession
from exporter.engines.fake.settings import Standby, Target
from exporter.probing import messages
from exporter.probing.redaction import redacted
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile

MARKER = "S3CR3T-4711"


@pytest.fixture
def marker(no_secrets_known, tmp_path):
    """A secret that this process has read."""
    (tmp_path / "secret").write_text(MARKER)
    return SecretSource(file=tmp_path / "secret").read()


class TalkativeSession(FakeSession):
    """Repeats the secret wherever it has words."""

    def facts(self):
        return replace(super().facts(), version=f"9 {MARKER}", role=MARKER)

    def provision(self, pair, progress, timeout):
        progress(f"loading with {MARKER}", 0.5)
        raise QueryFailed(f"refused: {MARKER}")

    def verify(self, pair, timeout):
        facts = super().verify(pair, timeout)
        a, b = (replace(twin, algorithm=MARKER, problem=f"no {MARKER}") for twin in (facts.a, facts.b))
        return replace(facts, a=a, b=b)

    def run(self, pair, slot, operation, key, timeout):
        raise QueryFailed(f"near '{MARKER}'")

    def encryption_state(self, timeout):
        state = super().encryption_state(timeout)
        keystore = Keystore(MARKER, KeystoreState.OPEN, MARKER, MARKER, MARKER, MARKER)
        pairs = ((MARKER, 1),)
        return replace(
            state,
            keystores=(keystore,),
            objects=((MARKER, MARKER, 1),),
            algorithms=pairs,
            unprotected=pairs,
            conversions=((MARKER, 0.5),),
            problems=(f"missing {MARKER}",),
        )

    def activity(self, timeout):
        return replace(super().activity(timeout), problems=(MARKER,), decrypt_unit=MARKER)

    def heartbeat(self, timeout):
        raise ConnectFailed(f"gone: {MARKER}")

    def standbys(self, timeout):
        (state,) = super().standbys(timeout)
        return (replace(state, problem=f"Access denied using {MARKER}", channel=MARKER),)


class TalkativeEngine(FakeEngine):
    refuses = False

    def open(self, timeout):
        if self.refuses:
            raise AuthenticationFailed(f"login with {MARKER} refused")
        return TalkativeSession(self._target, self._life)


@pytest.fixture
def said(marker, tmp_path):
    """Everything that leaves the rounds of a target on which everything goes wrong and says why."""
    target = Target(
        name="orders", real_time=False, pairs=(PairSettings(name="scripted"),), standbys=(Standby(name="dr"),)
    )
    engine = TalkativeEngine(target)
    heard: list[messages.ToParent] = []
    settings = Settings(state_directory=tmp_path, targets=(target,))
    rounds = Rounds(settings, target, Turnstile(), heard.append, FakeClock(), random.Random(1), engine=engine)
    rounds.begin(snapshot=True)
    rounds.canary()
    rounds.activity()
    rounds.standby()
    rounds.heartbeat()
    engine.refuses = True
    rounds.canary()
    return heard


def test_no_message_holds_the_secret(said):
    kinds = {type(message) for message in said}

    assert kinds >= {
        messages.TargetReached,
        messages.TargetFailed,
        messages.TickDone,
        messages.SnapshotDone,
        messages.PairChecked,
        messages.StateRead,
        messages.ActivityRead,
        messages.StandbysRead,
        messages.CollectorDone,
        messages.Building,
    }
    for message in said:
        assert MARKER not in repr(message)
        assert MARKER.encode() not in pickle.dumps(message)


def test_the_rest_of_the_words_is_left(said):
    failed = [message.words for message in said if isinstance(message, messages.TargetFailed)]
    assert failed == ["refused: ***", "gone: ***", "login with *** refused"]
    (snapshot,) = (message.snapshot for message in said if isinstance(message, messages.SnapshotDone))
    assert {words for _, _, words in snapshot.failures} == {"refused: ***"}
    (read,) = (message for message in said if isinstance(message, messages.StandbysRead))
    assert [(state.standby, state.problem) for state in read.standbys] == [("dr", "Access denied using ***")]


def test_names_from_the_configuration_stay_even_where_a_secret_is_part_of_them(no_secrets_known, tmp_path):
    (tmp_path / "secret").write_text("orders")
    SecretSource(file=tmp_path / "secret").read()
    done = messages.CollectorDone("orders-dr", "canary", 0.1, 0.0, None, "password orders refused")

    assert redacted(done) == replace(done, words="password *** refused")


def test_what_holds_no_secret_is_handed_on_as_it_is(marker):
    twin = TwinFacts(Slot.A, None, "AES", rows=5)
    assert redacted(twin) is twin
    beat = messages.Beat(0, (0.1, float("nan")), {("orders", "busy"): 1})
    assert redacted(beat).lateness[0] == 0.1
