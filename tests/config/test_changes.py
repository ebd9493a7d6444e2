"""What another configuration changes, and what it must not."""

from pathlib import Path
from typing import Any

import pytest

from exporter.config.changes import Changes, between, fingerprint, only, own, refuse_fixed
from exporter.config.schema import BudgetSettings, IntervalSettings, OperationSettings, Settings
from exporter.config.secrets import SecretSource
from exporter.domain.errors import ConfigErrors
from exporter.domain.model import Operation
from exporter.engines.fake.settings import Target as Fake
from exporter.engines.mariadb.settings import Target as MariaDb
from exporter.engines.sqlite.settings import Target as Embedded


def settings(*targets, **more):
    return Settings(state_directory=Path("/state"), targets=targets, **more)


def changes(kept="", changed="", added="", removed=""):
    return Changes(*(frozenset(names) for names in (kept, changed, added, removed)))


def test_targets_are_kept_changed_added_and_removed():
    old = settings(Fake(name="a"), Fake(name="b"), Fake(name="c"))
    new = settings(Fake(name="d"), Fake(name="b", seed=9), Fake(name="a"))

    assert between(old, new) == changes(kept="a", changed="b", added="d", removed="c")
    assert between(old, old) == changes(kept="abc")


def test_common_settings_change_the_targets_that_they_concern():
    own = Fake(name="a", intervals=IntervalSettings(), budgets=BudgetSettings(), operations=(Operation.POINT_SELECT,))
    old = settings(own, Fake(name="b"))

    assert between(old, settings(own, Fake(name="b"), intervals={"canary": 5})) == changes(kept="a", changed="b")
    assert between(old, settings(own, Fake(name="b"), budgets={"sessions": 4})) == changes(kept="a", changed="b")
    scans = {Operation.FULL_SCAN: OperationSettings(samples=2)}
    assert between(old, settings(own, Fake(name="b"), operations=scans)) == changes(kept="a", changed="b")
    points = {Operation.POINT_SELECT: OperationSettings(samples=2)}
    assert between(old, settings(own, Fake(name="b"), operations=points)) == changes(changed="ab")
    assert between(old, settings(own, Fake(name="b"), log={"level": "debug"})) == changes(kept="ab")


def test_what_is_written_out_and_equals_the_common_settings_is_no_change():
    old, new = settings(Fake(name="a")), settings(Fake(name="a", intervals=IntervalSettings()))
    assert between(old, new) == changes(kept="a")


def test_another_engine_is_another_target_of_the_same_name():
    old, new = settings(Fake(name="a")), settings(Embedded(name="a"))
    assert between(old, new) == changes(removed="a", added="a")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("state_directory", {"state_directory": Path("/elsewhere")}),
        ("history.path", {"history": {"path": "/elsewhere/history.db"}}),
        ("web.port", {"web": {"port": 1}}),
        ("web.listen_address", {"web": {"listen_address": "::1"}}),
        ("web.config_file", {"web": {"config_file": "/web.yaml"}}),
        ("web.max_connections", {"web": {"max_connections": 9}}),
        ("web.header_timeout", {"web": {"header_timeout": 9}}),
        ("probes.processes", {"probes": {"processes": 63}}),
    ],
)
def test_what_is_settled_at_the_start_is_refused_by_name(name, change):
    values: dict[str, Any] = {
        "state_directory": Path("/state"),
        "targets": (Fake(name="a"),),
        "probes": {"processes": 2},
    }
    old = Settings(**values)
    refuse_fixed(old, old)
    with pytest.raises(ConfigErrors) as caught:
        refuse_fixed(old, Settings(**(values | change)))

    (problem,) = caught.value.problems
    assert (problem.where, problem.remedy) == (name, "Restart the exporter, or set it back")


def test_everything_that_is_settled_is_named_at_once():
    with pytest.raises(ConfigErrors, match=r"web\.port.*\n.*probes\.processes"):
        refuse_fixed(settings(Fake(name="a")), settings(Fake(name="a"), web={"port": 1}, probes={"processes": 64}))


def test_the_fingerprint_tells_configurations_apart_and_fits_into_a_sample():
    target = MariaDb(name="a", host="db", user="u", password=SecretSource(env="SECRET"))
    same = [settings(target, probes={"processes": 2}) for _ in range(2)]
    other = settings(target.model_copy(update={"password": SecretSource(env="OTHER")}), probes={"processes": 2})

    assert fingerprint(same[0]) == fingerprint(same[1]) != fingerprint(other)
    assert int(float(fingerprint(other))) == fingerprint(other) > 0


def test_shards_of_one_configuration_have_its_fingerprint_and_their_own_targets():
    shards = [
        settings(*(Fake(name=name) for name in ("embedded", "orders", "db_7")), shard=f"{index}/3")
        for index in range(3)
    ]

    assert len({fingerprint(shard) for shard in shards}) == 1
    assert [[target.name for target in own(shard).targets] for shard in shards] == [["embedded"], ["orders"], ["db_7"]]
    assert between(own(shards[0]), own(shards[1])) == Changes(
        frozenset(), frozenset(), frozenset({"orders"}), frozenset({"embedded"})
    )


def test_settings_of_some_targets_hold_no_others():
    some = only(settings(Fake(name="a"), Fake(name="b"), Fake(name="c")), {"c", "a"})
    assert [target.name for target in some.targets] == ["a", "c"]
    assert some.state_directory == Path("/state")
