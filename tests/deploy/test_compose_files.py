"""The Compose stack on paper: sound by the schema, every file is there, and every address leads to a service."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.bundle import alerts
from tests.deploy.kit import ROOT, checker

FOLDER = ROOT / "deploy" / "compose"
STACK = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
CAPABILITIES = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
"""What a service may have besides nothing: what it takes to make files for others, and to become somebody else."""


def plain(text: str) -> str:
    """A value as it is when no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    """Source and place of what is mounted."""
    return [(parts[0], parts[1]) for one in service.get("volumes", []) if (parts := plain(one).split(":"))]


def test_it_is_sound_by_the_schema_of_compose_files(tmp_path: Path) -> None:
    check = ("--builtin-schema", "vendor.compose-spec")
    ran = checker("check_jsonschema", *check, str(FOLDER / "compose.yaml"))
    assert ran.returncode == 0, ran.stdout
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((FOLDER / "compose.yaml").read_text().replace("cap_drop", "cap_drops"))
    assert checker("check_jsonschema", *check, str(wrong)).returncode != 0


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_is_there(name: str) -> None:
    for source, place in mounts(SERVICES[name]):
        assert place.startswith("/")
        if source.startswith("."):
            assert (FOLDER / source).exists(), source
        else:
            assert source in STACK["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_do_little_and_is_open_to_this_machine_only(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", ())) <= CAPABILITIES
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    for port in service.get("ports", ()):
        assert plain(port).startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_images_of_others_are_pinned(name: str) -> None:
    image = plain(SERVICES[name]["image"])
    repository, _, tag = image.partition(":")
    assert repository == "tde-exporter" or re.fullmatch(r"v?\d+(\.\d+)+", tag), image


def addresses() -> list[str]:
    config = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yml").read_text())
    jobs = [*config["scrape_configs"], *config["alerting"]["alertmanagers"]]
    found = [target for job in jobs for static in job["static_configs"] for target in static["targets"]]
    sources = yaml.safe_load((ROOT / "dashboards/provisioning/datasources/tde.yaml").read_text())["datasources"]
    return [*found, *(source["url"].removeprefix("http://") for source in sources)]


@pytest.mark.parametrize("address", addresses())
def test_every_address_is_a_service_and_its_port(address: str) -> None:
    host, _, port = address.partition(":")
    service = SERVICES["prometheus" if host == "127.0.0.1" else host]
    assert port in {plain(one).rsplit(":", 1)[1] for one in service["ports"]}


def test_prometheus_takes_its_configuration_with_our_rules(promtool: Path, tmp_path: Path) -> None:
    text = (FOLDER / "prometheus" / "prometheus.yml").read_text()
    assert "/etc/prometheus/rules/*.yml" in text
    rules = [FOLDER / source for source, place in mounts(SERVICES["prometheus"]) if "/etc/prometheus/rules/" in place]
    assert {rule.name for rule in rules} == {alerts.RECORDING, alerts.ALERTS}
    for rule in rules:
        (tmp_path / rule.name).symlink_to(rule.resolve())
    (tmp_path / "prometheus.conf").write_text(text.replace("/etc/prometheus/rules", str(tmp_path)))
    ran = subprocess.run(
        [str(promtool), "check", "config", str(tmp_path / "prometheus.conf")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("SUCCESS") >= 3
    assert f"job_name: {alerts.Thresholds().job}\n" in text


def test_alertmanager_takes_what_is_mounted(promtool: Path) -> None:
    ((source, _),) = (one for one in mounts(SERVICES["alertmanager"]) if one[1].endswith(".yml"))
    amtool = promtool.with_name("amtool")
    subprocess.run([str(amtool), "check-config", str(FOLDER / source)], check=True, capture_output=True)


def test_grafana_finds_its_dashboards() -> None:
    placed = {place: FOLDER / source for source, place in mounts(SERVICES["grafana"])}
    provisioning = placed["/etc/grafana/provisioning"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "tde.yaml").read_text())["providers"]
    dashboards = placed[provider["options"]["path"]]
    assert {path.name for path in dashboards.glob("*.json")} >= {"tde-fleet.json", "tde-target.json"}
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (dashboards / Path(home).name).is_file()
    assert home.startswith(provider["options"]["path"])


def test_scrape_interval_is_the_one_that_grafana_is_told() -> None:
    config = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yml").read_text())
    (source,) = yaml.safe_load((ROOT / "dashboards/provisioning/datasources/tde.yaml").read_text())["datasources"]
    assert config["global"]["scrape_interval"] == source["jsonData"]["timeInterval"]
