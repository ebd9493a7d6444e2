"""Targets in the form of Prometheus' HTTP service discovery: one scrape for each, and one of the exporter itself.

The form: https://prometheus.io/docs/prometheus/latest/http_sd/
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?")

Group = dict[str, list[str] | dict[str, str]]


def discovered(host: str, targets: Mapping[str, str]) -> list[Group]:
    """What to scrape; `host` is the address that the client reached us at, as it says itself, `targets` names engines.

    Empty when the client does not say it in a form that could be one.
    """
    if not _HOST.fullmatch(host):
        return []
    groups = [_group(host, "/metrics", {"__param_only": "exporter"})]
    for name, engine in targets.items():
        labels = {"__param_target": name, "__meta_tde_target": name, "__meta_tde_engine": engine, "instance": name}
        groups.append(_group(host, "/probe", labels))
    return groups


def _group(host: str, path: str, labels: dict[str, str]) -> Group:
    return {"targets": [host], "labels": {"__metrics_path__": path, **labels}}
