"""Targets are dealt out to processes; those whose driver cannot live with others get one of their own."""

from exporter.engines.fake.settings import Target as Fake
from exporter.engines.oracle.settings import Target as Oracle
from exporter.probing.supervisor import share


def oracle(name, driver):
    return Oracle(name=name, host="db.example", service="orders", driver=driver)


def test_targets_are_dealt_out_evenly_and_no_process_is_without_one():
    targets = [Fake(name=name) for name in "abcde"]

    assert share(targets, 2) == [("a", "c", "e"), ("b", "d")]
    assert share(targets[:1], 4) == [("a",)]


def test_the_client_libraries_of_oracle_are_loaded_in_a_process_of_their_own():
    targets = [oracle("a", "thick"), oracle("b", "thin"), Fake(name="c"), oracle("d", "thick")]

    assert share(targets, 2) == [("b",), ("c",), ("a", "d")]
    assert share(targets[:1], 2) == [("a",)]
