"""How many probe processes are started unasked."""

import os

import pytest

from exporter.config.schema import Settings
from exporter.engines.fake.settings import Target
from exporter.probing.dealing import CROWD, MOST_FOR_TARGETS, deal, processes_for


def settings(folder, targets, **probes):
    return Settings(
        state_directory=folder,
        targets=tuple(Target(name=f"target-{number}", real_time=False) for number in range(targets)),
        probes=probes,
    )


def test_what_is_configured_is_what_there_is(tmp_path):
    assert processes_for(settings(tmp_path, 1000, processes=3)) == 3


def test_a_few_targets_have_one_process_for_each_core(tmp_path):
    assert processes_for(settings(tmp_path, 1)) == min(os.cpu_count() or 1, 8)


@pytest.mark.parametrize("targets", [0.5, 0.6, 1.0, 2.0])
def test_no_process_has_a_crowd_to_itself_until_there_are_very_many(tmp_path, targets):
    """One for each fifty: else their ticks would wait for each other for most of the time."""
    many = settings(tmp_path, int(targets * CROWD * MOST_FOR_TARGETS))
    dealt = deal(many.targets, processes_for(many))
    largest = max(len(share.targets) for share in dealt.values())

    assert largest <= CROWD or len(dealt) == MOST_FOR_TARGETS
    assert sum(len(share.targets) for share in dealt.values()) == len(many.targets)
