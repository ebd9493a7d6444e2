"""Targets come and go in a probe process: nobody is probed twice at once, and nothing waits for a call that hangs."""

import threading
from functools import partial
from pathlib import Path

import pytest

from exporter.config.schema import BudgetSettings, IntervalSettings, Settings
from exporter.config.secrets import SecretSource
from exporter.domain.clock import FakeClock
from exporter.domain.errors import AuthenticationFailed
from exporter.domain.model import Operation
from exporter.engines.fake.settings import Fault
from exporter.engines.fake.settings import Target as Scripted
from exporter.engines.mariadb.settings import Target as MariaDb
from exporter.probing.budget import Amounts
from exporter.probing.lane import LEAVE_SECONDS, Lane
from exporter.probing.messages import TargetReached, target_of
from exporter.probing.process import reason_to_end
from exporter.probing.roster import Roster
from exporter.probing.schedule import Schedule
from exporter.probing.turnstile import Turnstile
from tests import processes

AN_HOUR_AND_MORE = 4000.0
until = partial(processes.until, patience=100.0)


class Tried:
    """A roster on a clock that the test moves; `said` are its messages in order."""

    def __init__(self, folder):
        self._folder, self.clock, self.said = folder, FakeClock(), []
        self.schedule, self._turnstile = Schedule(), Turnstile()
        self.made: list[Lane] = []
        self.roster = Roster(self._make, self.schedule, self.clock)

    def _make(self, settings, target, snapshot, legacy):
        self.made.append(
            Lane(settings, target, self._turnstile, self.said.append, self.clock, snapshot=snapshot, legacy=legacy)
        )
        return self.made[-1]

    def join(self, *targets):
        self.roster.join(Settings(state_directory=self._folder, targets=targets), frozenset())

    def reached(self, name):
        until(lambda: any(isinstance(one, TargetReached) and one.target == name for one in self.said), f"{name}")

    def beat(self):
        self.clock.advance(1.0)
        return self.roster.step()


def scripted(name, **more):
    return Scripted(name=name, real_time=False, **more)


WEDGED = (Fault(kind="wedge", call="encryption_state"),)


@pytest.fixture
def tried(tmp_path):
    made = Tried(tmp_path)
    made.schedule.start()
    yield made
    made.roster.stop()
    made.schedule.stop()


def sessions(lane):
    return lane._allowance.sessions


def threads(name):
    return [thread for thread in threading.enumerate() if thread.name == f"lane-{name}"]


def test_who_leaves_is_not_heard_any_more_and_who_stays_is(tried):
    tried.join(scripted("a"), scripted("b"))
    tried.reached("a")
    tried.reached("b")
    (stays, _) = tried.made
    tried.roster.leave({"a"})
    del tried.said[:]
    until(lambda: not threads("a"), "the end of the lane")
    stays_at = tried.roster.lanes["b"]
    stays_at.offer("activity")
    until(lambda: tried.said, "a word of the other")

    assert {target_of(message) for message in tried.said} == {"b"}
    assert set(tried.roster.lanes) == {"b"}
    assert {name.partition("/")[0] for name in tried.schedule.planned()} == {"b"}
    assert stays.ended()
    assert tried.beat() == 0
    assert (tried.roster.take_litter(), tried.roster.take_litter()) == (True, False)


def test_a_changed_target_begins_when_its_predecessor_has_closed_its_session(tried):
    tried.join(scripted("a"))
    tried.reached("a")
    (former,) = tried.made
    tried.roster.leave({"a"})
    tried.join(scripted("a", seed=2))
    until(lambda: tried.beat() or tried.roster.lanes, "the successor")

    assert [lane.target.seed for lane in tried.made] == [1, 2]
    assert former.ended()
    assert sessions(former).open == 0
    assert sessions(tried.made[1]) is not sessions(former)


def test_a_successor_waits_for_a_call_under_way_and_the_newest_settings_count(tried):
    tried.join(scripted("a", faults=WEDGED))
    tried.reached("a")
    for seed in (2, 3):
        tried.roster.leave({"a"})
        tried.join(scripted("a", seed=seed))
        tried.beat()
        assert len(tried.made) == 1
    tried.clock.advance(AN_HOUR_AND_MORE)
    assert tried.roster.step() == 1

    assert [lane.target.seed for lane in tried.made] == [1, 3]
    assert set(tried.roster.lanes) == {"a"}


def test_a_call_that_hangs_when_its_target_is_removed_is_given_up_and_counted(tried):
    tried.join(scripted("a", faults=WEDGED))
    tried.reached("a")
    tried.roster.leave({"a"})
    assert [tried.beat() for _ in range(3)] == [0, 0, 0]
    assert tried.roster.hanging() == 0
    tried.clock.advance(AN_HOUR_AND_MORE)

    assert [tried.roster.step(), tried.roster.step()] == [1, 0]
    assert tried.roster.hanging() == 1
    assert reason_to_end(tried.roster.lanes, 0.0, 8) == "8 calls never ended, which is too many"
    assert reason_to_end(tried.roster.lanes, 0.0, tried.roster.hanging()) == ""


def test_sessions_of_a_call_that_hangs_count_for_the_target_after_a_change(tried):
    """They may still be open on the server; a reload is no way around budgets.sessions."""
    tried.join(scripted("a", faults=WEDGED))
    tried.reached("a")
    tried.roster.leave({"a"})
    tried.join(scripted("a", budgets=BudgetSettings(sessions=7)))
    tried.clock.advance(AN_HOUR_AND_MORE)
    tried.roster.step()
    (former, lane) = tried.made

    assert sessions(lane) is sessions(former)
    assert sessions(lane).most == 7
    until(lambda: sessions(lane).open >= 2, "the session of the successor, besides the one that hangs")


def test_a_target_that_is_taken_back_before_it_began_never_begins(tried):
    tried.join(scripted("a", faults=WEDGED))
    tried.reached("a")
    tried.roster.leave({"a"})
    tried.join(scripted("a", seed=2))
    tried.roster.leave({"a"})
    tried.clock.advance(AN_HOUR_AND_MORE + LEAVE_SECONDS)
    tried.roster.step()

    assert len(tried.made) == 1
    assert not tried.roster.lanes
    assert tried.schedule.planned() == ()


def test_a_lane_keeps_the_settings_of_its_own_target_only(tried, tmp_path):
    """Each of many reloads would else leave a whole configuration in memory with every lane that it made."""
    tried.join(*(scripted(name) for name in "abc"))
    assert [[target.name for target in lane.settings.targets] for lane in tried.made] == [["a"], ["b"], ["c"]]
    assert tried.made[0].settings.state_directory == Path(tmp_path)


def test_whoever_comes_back_knows_which_secrets_were_refused(tried, tmp_path):
    """Else each reload would be one more wrong login, and some servers lock the account after a few."""
    (tmp_path / "password").write_text("wrong")
    target = MariaDb(name="a", host="127.0.0.1", port=1, user="u", password=SecretSource(file=tmp_path / "password"))
    tried.join(target)
    refuse(tried.made[0])
    for changed in (target.model_copy(update={"intervals": IntervalSettings(canary=5)}), target):
        tried.roster.leave({"a"})
        tried.join(changed)
        until(lambda: tried.beat() or tried.roster.lanes, "the successor")
        with (
            pytest.raises(AuthenticationFailed, match="tried again when the secret has changed"),
            attempt(tried.made[-1]),
        ):
            pass

    tried.roster.leave({"a"})
    tried.join(target.model_copy(update={"user": "another"}))
    until(lambda: tried.beat() or tried.roster.lanes, "the successor")
    with attempt(tried.made[-1]) as secret:
        assert secret == "wrong"


def test_a_target_that_is_changed_has_no_fresh_budgets(tried):
    """Whoever reloads over and over would else take many times what is allowed."""
    tried.join(scripted("a"))
    tried.reached("a")
    spent = Amounts(12.0, 2**20, 2**10)
    now = tried.clock.paced()
    tried.made[0]._allowance.governor.charge(None, spent, now, now)
    tried.made[0]._allowance.boost.charge(("scripted", Operation.POINT_SELECT), Amounts(6.0), now, now)
    for change in ({"seed": 2}, {"seed": 3, "budgets": BudgetSettings(time_share_ratio=0.5)}, {}):
        tried.roster.leave({"a"})
        if not change:
            # It is away for a while: what it took counts all the same.
            tried.beat()
        tried.join(scripted("a", **change))
        until(lambda: tried.beat() or tried.roster.lanes, "the successor")
        assert tried.made[-1].load_ratio() >= 18.0 / 3600.0
    used = tried.made[-1]._allowance.governor.used(tried.clock.paced())
    assert used["bytes_read"] >= 2**20 / BudgetSettings().bytes_read_per_hour
    assert tried.made[-1]._allowance.boost.seconds(tried.clock.paced()) == 6.0
    tried.clock.advance(AN_HOUR_AND_MORE)
    assert tried.made[-1].load_ratio() < 18.0 / 3600.0


def attempt(lane):
    return lane.legacy().engine._opener._credentials.attempt()


def refuse(lane):
    with pytest.raises(AuthenticationFailed, match="access denied"), attempt(lane):
        raise AuthenticationFailed("access denied")
