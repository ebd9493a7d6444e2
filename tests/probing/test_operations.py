from exporter.domain.model import Operation
from exporter.engines import registry
from exporter.probing.operations import CATALOGUE, markdown


def test_every_operation_says_what_it_does_and_proves():
    assert set(CATALOGUE) == set(Operation)
    for facts in CATALOGUE.values():
        assert facts.does
        assert facts.proves
        assert facts.proves_nothing_when
        assert facts.warm_ups >= 1


def test_the_reference_names_every_operation_and_who_offers_it():
    offered = {name: registry.engine_type(name).operations for name in registry.names()}
    lines = {line.split("`")[1]: line for line in markdown(offered).splitlines() if line.startswith("| `")}

    assert set(lines) == set(Operation)
    assert "`sqlite`" in lines["checkpoint"]
    assert "`sqlite`" not in lines["lob_read"]
