"""Targets are dealt out to processes; those whose driver cannot live with others get one of their own."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.engines.fake.settings import Target as Fake
from exporter.engines.oracle.settings import Target as Oracle
from exporter.probing.dealing import Share, deal


def oracle(name, driver):
    return Oracle(name=name, host="db.example", service="orders", driver=driver)


def target(name, thick):
    return oracle(name, "thick") if thick else Fake(name=name)


def names(shares):
    return {number: share.targets for number, share in shares.items()}


def test_targets_are_dealt_out_evenly_and_no_process_is_without_one():
    targets = [Fake(name=name) for name in "abcde"]

    assert names(deal(targets, 2)) == {0: ("a", "c", "e"), 1: ("b", "d")}
    assert names(deal(targets[:1], 4)) == {0: ("a",)}


def test_the_client_libraries_of_oracle_are_loaded_in_a_process_of_their_own():
    targets = [oracle("a", "thick"), oracle("b", "thin"), Fake(name="c"), oracle("d", "thick")]

    assert names(deal(targets, 2)) == {0: ("b",), 1: ("c",), 2: ("a", "d")}
    assert names(deal(targets[:1], 2)) == {0: ("a",)}


def test_who_is_there_stays_and_who_comes_goes_where_the_fewest_are():
    before = deal([Fake(name=name) for name in "abcde"], 2)

    assert names(deal([Fake(name=name) for name in "acex"], 2, before)) == {0: ("a", "c", "e"), 1: ("x",)}
    assert names(deal([Fake(name=name) for name in "ace"], 2, before)) == {0: ("a", "c", "e")}
    assert names(deal([Fake(name=name) for name in "xyabcde"], 2, before)) == {
        0: ("a", "c", "e", "y"),
        1: ("b", "d", "x"),
    }


def test_a_target_whose_driver_is_another_moves():
    before = deal([oracle("a", "thin"), Fake(name="b")], 1)
    after = deal([oracle("a", "thick"), Fake(name="b")], 1, before)

    assert after == {0: Share("", ("b",)), 1: Share("oracle thick", ("a",))}


sets = st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.booleans(), min_size=1), min_size=1, max_size=6)


@given(sets, st.integers(1, 4))
def test_whatever_came_before_everybody_is_in_one_process_of_its_company(history, processes):
    shares: dict[int, Share] = {}
    for chosen in history:
        targets = [target(name, thick) for name, thick in chosen.items()]
        before, shares = shares, deal(targets, processes, shares)

        assert sorted(name for share in shares.values() for name in share.targets) == sorted(chosen)
        assert all(share.targets for share in shares.values())
        for number, share in shares.items():
            assert {chosen[name] for name in share.targets} == {bool(share.company)}
            stayed = set(before[number].targets) & set(share.targets) if number in before else set()
            assert all(name in share.targets for name in stayed)
        companies = [share.company for share in shares.values()]
        assert companies.count("") <= processes
        assert companies.count("oracle thick") <= 1
        common = {name for name, thick in chosen.items() if not thick}
        assert companies.count("") <= len(common)
        # Whoever has not changed has not moved.
        where = {name: number for number, share in shares.items() for name in share.targets}
        for number, share in before.items():
            for name in share.targets:
                if name in chosen and chosen[name] == bool(share.company):
                    assert where[name] == number
