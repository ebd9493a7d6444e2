"""Grafana dashboards: classic JSON for Grafana 10.4 and later, made from the table of metrics.

Their uids and the ids of their panels never change, for alerts and people link to them.
"""

from __future__ import annotations

from exporter.bundle.dashboards import provisioning
from exporter.bundle.dashboards.board import Board
from exporter.bundle.dashboards.enablement import enablement
from exporter.bundle.dashboards.fleet import fleet
from exporter.bundle.dashboards.health import health
from exporter.bundle.dashboards.target import target

PATH = "/var/lib/grafana/dashboards/tde"
PROMETHEUS = "http://prometheus:9090"


def boards() -> tuple[Board, ...]:
    """The four dashboards, in the order of their menu."""
    return fleet(), target(), enablement(), health()


def files(*, path: str = PATH, prometheus: str = PROMETHEUS, config_maps: bool = False) -> dict[str, str]:
    """Everything to be installed: path below the output folder, and content.

    `path` is where Grafana finds the JSON files, `prometheus` the address in the example of a data source. With
    `config_maps` there is also `kubernetes/tde-dashboards.yaml`, for the sidecar of Grafana's Helm chart.
    """
    dashboards = {f"{board.uid}.json": board.text() for board in boards()}
    found = {
        **dashboards,
        "provisioning/dashboards/tde.yaml": provisioning.provider(path),
        "provisioning/datasources/tde.yaml": provisioning.datasource(prometheus),
    }
    if config_maps:
        found["kubernetes/tde-dashboards.yaml"] = provisioning.config_maps(dashboards)
    return found
