"""Which shard has which target: the same everywhere, evenly, and with as little moving as can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.sharding import WHOLE, Shard, parse_shard, shard_of

NAMES = [f"target-{number}" for number in range(3000)]
VECTORS = {3: [0, 0, 1, 0, 0, 2], 7: [4, 0, 1, 0, 0, 5]}


def test_a_release_never_moves_a_target() -> None:
    names = ["embedded", "shop", "orders", "billing.eu-west-1", "a", "db_7"]
    assert [shard_of(name, 3) for name in names] == VECTORS[3]
    assert [shard_of(name, 7) for name in names] == VECTORS[7]


@pytest.mark.parametrize("count", [2, 3, 5, 16])
def test_shards_are_about_equally_large(count: int) -> None:
    sizes = [sum(shard_of(name, count) == index for name in NAMES) for index in range(count)]
    assert sum(sizes) == len(NAMES)
    fair = len(NAMES) / count
    # Five standard deviations of a fair draw.
    assert all(abs(size - fair) < 5 * fair**0.5 for size in sizes)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_one_shard_more_moves_its_part_and_nothing_else(count: int) -> None:
    moved = [name for name in NAMES if shard_of(name, count) != shard_of(name, count + 1)]
    assert {shard_of(name, count + 1) for name in moved} == {count}
    fair = len(NAMES) / (count + 1)
    assert abs(len(moved) - fair) < 5 * fair**0.5


@given(st.text(min_size=1, max_size=63), st.integers(1, 30))
def test_each_target_has_one_shard(name: str, count: int) -> None:
    assert sum(Shard(index, count).has(name) for index in range(count)) == 1
    assert WHOLE.has(name)


@given(st.integers(1, 1000), st.data())
def test_what_is_written_is_read(count: int, data: st.DataObject) -> None:
    shard = Shard(data.draw(st.integers(0, count - 1)), count)
    assert parse_shard(str(shard)) == shard
    assert parse_shard(f" tde-exporter-{shard} ") == shard
    assert parse_shard(f"a2.b-7-{shard}") == shard


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3/3", "of 3 shards the last is 2/3; they are counted from 0"),
        ("0/0", "there are 1 to 1000 shards"),
        ("0/1001", "there are 1 to 1000 shards"),
        ("pod-12345/20", "of 20 shards the last is 19/20"),
        ("-1/3", "this is no shard"),
        ("+1/3", "this is no shard"),
        ("0.1/3", "this is no shard"),
        ("1/2/3", "this is no shard"),
        ("1", "this is no shard; write 0/3"),
        ("/3", "this is no shard"),
        ("-1/", "this is no shard"),
        ("$(POD_NAME)/3", "this is no shard"),
        ("", "this is no shard"),
    ],
)
def test_what_is_no_shard_says_how_one_is_written(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="shard") as caught:
        parse_shard(text)
    assert str(caught.value).startswith(words)
