"""Several exporters with one configuration: each target is measured by one of them, and each says which are its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import httpx
import yaml

from exporter.domain.sharding import shard_of
from tests.daemons import Daemon

NAMES = ("embedded", "orders", "db_7")


def configured(shard: str, *names: str) -> dict[str, object]:
    """Scripted targets."""
    targets = [
        {"name": name, "engine": "fake", "pairs": [{"name": "scripted"}], "intervals": {"canary": "1s"}}
        for name in names
    ]
    return {"shard": shard, "targets": targets, "probes": {"processes": 1}}


def has_measured(exporter: Daemon, own: set[str]) -> bool:
    page = exporter.page()
    return {name for name in NAMES if page.total("tde_canary_runs_total", target=name)} == own


def test_together_they_measure_everything_once(daemon: Callable[..., Daemon]) -> None:
    exporters = [daemon(configured("0/3", *NAMES), {"TDE_EXPORTER_SHARD": f"watch-{index}/3"}) for index in range(3)]
    for exporter in exporters:
        exporter.start()
    for index, exporter in enumerate(exporters):
        own = {name for name in NAMES if shard_of(name, 3) == index}
        exporter.serving()
        exporter.until(partial(has_measured, exporter, own), f"shard {index}")
        page = exporter.page()
        assert (page.value("tde_exporter_shard"), page.value("tde_exporter_shards")) == (index, 3)
        assert (page.value("tde_exporter_targets"), page.value("tde_exporter_configured_targets")) == (1, 3)
        assert f"Shard {index}/3: 1 of 3 configured targets" in exporter.get("/").text
        discovered = {group["labels"].get("__param_target") for group in exporter.get("/sd").json()}
        assert discovered == {None, *own}
        for name in NAMES:
            answer = exporter.get(f"/probe?target={name}")
            assert answer.status_code == (200 if name in own else 404)
            assert name in own or f"shard {shard_of(name, 3)}/3 measures it" in answer.text


def test_a_shard_without_targets_serves_and_takes_some_up(daemon: Callable[..., Daemon]) -> None:
    exporter = daemon(configured("1/3", "embedded")).start().serving()
    assert exporter.get("/-/ready").status_code == 200
    assert "Shard 1/3: 0 of 1 configured targets" in exporter.get("/").text
    path = exporter.directory / "config.yaml"
    path.write_text(yaml.safe_dump(configured("1/2", "embedded", "orders", "db_7")))
    assert httpx.post(f"{exporter.url}/-/reload", timeout=30).status_code == 200
    own = {name for name in NAMES if shard_of(name, 2) == 1}
    assert own
    exporter.until(partial(has_measured, exporter, own), "its targets")
    assert exporter.page().value("tde_exporter_shards") == 2
