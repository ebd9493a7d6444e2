"""Lengths of packets as they come: whatever the pieces are, nothing is refused that a database says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.engines.oracle.framing import Framing

ACCEPT, DATA, MARKER = 2, 6, 12


def packet(kind, body, *, long):
    length = len(body) + 8
    return (length.to_bytes(4, "big") if long else length.to_bytes(2, "big") + b"\0\0") + bytes([kind, 0, 0, 0]) + body


def accepting(version, size):
    rest = bytes(22) + size.to_bytes(4, "big") + bytes(5) if version >= 315 else bytes(14)
    return packet(ACCEPT, version.to_bytes(2, "big") + rest, long=False)


def conversation(version, before, after):
    accept = accepting(version, 8192)
    return (
        b"".join(packet(DATA, body, long=False) for body in before)
        + accept
        + b"".join(packet(kind, body, long=version >= 315) for kind, body in after)
    )


@given(
    version=st.sampled_from([300, 314, 315, 319]),
    before=st.lists(st.binary(max_size=30), max_size=3),
    after=st.lists(st.tuples(st.sampled_from([DATA, MARKER]), st.binary(max_size=50)), max_size=5),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    bad=st.integers(0, 7),
)
def test_what_a_database_says_is_possible_and_a_packet_shorter_than_its_head_is_not(version, before, after, cuts, bad):
    said = conversation(version, before, after)
    framing, at, turn = Framing(), 0, 0
    while at < len(said):
        size = cuts[turn % len(cuts)]
        assert framing.possible(said[at : at + size])
        at, turn = at + size, turn + 1
    short = bad.to_bytes(4, "big") if version >= 315 else bad.to_bytes(2, "big") + b"\0\0"
    assert not framing.possible(short + bytes([DATA, 0, 0, 0]))


@pytest.mark.parametrize("length", [2 * 2**20 + 1, 2**31 - 1, 2**32 - 1])
def test_a_packet_larger_than_any_that_can_be_agreed_on(length):
    framing = Framing()
    assert framing.possible(conversation(319, [], [(DATA, bytes(8184))]))
    assert not framing.possible(length.to_bytes(4, "big") + bytes([DATA, 0, 0, 0]))


@pytest.mark.parametrize(
    ("size", "possible"),
    [
        (0, False),
        (10, False),
        (511, False),
        (512, True),
        (8192, True),
        (2**21, True),
        (2**21 + 1, False),
        (2**32 - 1, False),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 100])
def test_the_size_that_is_agreed_on(size, possible, piece):
    said = accepting(319, size)
    framing = Framing()
    assert all(framing.possible(said[at : at + piece]) for at in range(0, len(said), piece)) is possible
