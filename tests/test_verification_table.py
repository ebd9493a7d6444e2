"""What `verify` prints of a server that tells much, and of one that tells little."""

import re

from exporter.domain.model import PairFacts, Phase, Slot, TargetFacts, TwinFacts
from exporter.domain.states import EncryptionState, Keystore, KeystoreState
from exporter.verification_table import Verification, verification_dict, verification_text

RICH = EncryptionState(
    keystores=(
        Keystore("component_keyring_file", KeystoreState.DEGRADED, "file", raw="Active", keys_in_use=3, keys_missing=1),
    ),
    objects=(("table", "encrypted", 12), ("table", "pending", 0), ("redo", "plain", 1)),
    object_bytes=(("table", "encrypted", 4096),),
    algorithms=(("AES-256", 12),),
    unprotected=(("redo", 1), ("undo", 0)),
    conversions=(("shop.orders", 0.335),),
    conversion_stalled=True,
    problems=("binary logs: grant REPLICATION CLIENT ON *.*",),
)


def verification(a=None, b=None, **more):
    twins = (
        a or TwinFacts(Slot.A, True, "AES-256", 1000, 55.5, "x", name="tde_canary.main_encrypted"),
        b or TwinFacts(Slot.B, False, "", 1000, 55.5, "x", name="tde_canary.main_plain"),
    )
    pair = PairFacts("main", Phase.ENABLED, *twins)
    given = {"state": RICH, **more}
    return Verification("shop", TargetFacts("mysql", "9.7.0"), (pair,), **given)


def cells(text):
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def test_everything_that_is_known_is_shown():
    text = verification_text(verification())

    assert text.startswith("shop: mysql 9.7.0\n")
    assert ["main", "tde_canary.main_encrypted", "yes", "AES-256", "1\u202f000", "56"] in cells(text)
    assert "Pair main is valid." in text
    assert ["component_keyring_file", "degraded", "file", "Active", "3", "1"] in cells(text)
    assert ["table", "pending", "0", "–"] in cells(text)
    assert "Algorithms: AES-256 (12)" in text
    assert "holds data of encrypted objects: redo (1)" in text
    assert "undo" not in text
    assert "Being converted: shop.orders, 34% done" in text
    assert "A conversion has not moved for an hour." in text
    assert "Not all could be read: binary logs: grant REPLICATION CLIENT ON *.*" in text


def test_the_same_for_programs():
    found = verification_dict(verification())

    assert (found["kind"], found["target"], found["flavor"], found["valid"]) == ("verification", "shop", "mysql", True)
    assert found["objects"][0] == {"kind": "table", "state": "encrypted", "objects": 12, "bytes": 4096}
    assert found["objects"][2]["bytes"] is None
    assert found["keystores"][0]["keys_missing"] == 1
    assert found["unprotected"] == {"redo": 1, "undo": 0}
    assert found["conversions"] == {"shop.orders": 0.335}
    assert found["problems"] == list(RICH.problems)


def test_each_problem_of_a_twin_is_said_once_and_unknown_is_a_dash():
    unreadable = [TwinFacts(slot, None, problem="the schema tde_canary cannot be read") for slot in Slot]
    found = verification(*unreadable, state=EncryptionState())
    text = verification_text(found)

    assert ["main", "slot a", "–", "–", "–", "–"] in cells(text)
    assert text.count("the schema tde_canary cannot be read") == 1
    assert "No keystore was seen." in text
    assert not found.valid


def test_a_pair_whose_twins_are_both_fine_and_not_a_pair_says_why():
    other = TwinFacts(Slot.B, False, "", 1000, 55.5, "y", name="tde_canary.main_plain")

    assert "Pair main is not valid: the twins do not hold the same data" in verification_text(verification(b=other))


def test_a_state_that_could_not_be_read_is_null_and_no_empty_list():
    found = verification(state=None, state_problem="grant PROCESS ON *.* (permission)")

    assert "could not be read: grant PROCESS ON *.* (permission)" in verification_text(found)
    told = verification_dict(found)
    assert [told[key] for key in ("keystores", "objects", "algorithms", "unprotected", "conversions")] == [None] * 5
    assert told["problems"] == ["grant PROCESS ON *.* (permission)"]
