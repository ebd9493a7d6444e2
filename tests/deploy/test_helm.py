"""The chart, rendered by Helm: sound by the schemas of Kubernetes, and wired to what the exporter really reads."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import exporter
from exporter.config.loader import load
from exporter.domain.sharding import Shard
from exporter.engines.registry import target_types
from tests.deploy.kit import KUBERNETES, ROOT, checker, documents, helm

CHART = ROOT / "deploy" / "helm" / "tde-exporter"
EVERYTHING = Path(__file__).with_name("everything.yaml")
VALUES = {
    "defaults": (),
    "everything": (f"--values={EVERYTHING}",),
    "certificates": ("--set=web.secretName=w,web.scheme=HTTPS,web.clientCertificates=true",),
    "no volume": ("--set=persistence.enabled=false,networkPolicy.enabled=false,serviceAccount.create=false",),
}


@cache
def rendered(name: str) -> str:
    ran = helm("template", "tried", str(CHART), "--namespace=monitoring", *VALUES[name])
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@cache
def by_kind(name: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for document in documents(rendered(name)):
        found.setdefault(document["kind"], []).append(document)
    return found


def pod(name: str) -> dict[str, Any]:
    (stateful,) = by_kind(name)["StatefulSet"]
    return dict(stateful["spec"]["template"]["spec"])


def environment(name: str) -> dict[str, str]:
    """As the container would have it, were it that of the first pod."""
    (stateful,) = by_kind(name)["StatefulSet"]
    first = f"{stateful['metadata']['name']}-0"
    env = pod(name)["containers"][0]["env"]
    return {one["name"]: one.get("value", first).replace("$(POD_NAME)", first) for one in env}


@pytest.mark.parametrize("name", VALUES)
def test_lint_finds_nothing(name: str) -> None:
    ran = helm("lint", "--strict", str(CHART), *VALUES[name])
    assert ran.returncode == 0, ran.stdout
    assert "WARNING" not in ran.stdout


@pytest.mark.parametrize("version", KUBERNETES)
def test_manifests_are_what_kubernetes_takes(version: str, tmp_path: Path) -> None:
    files = []
    for name in VALUES:
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(rendered(name))
    ran = checker("kubernetes_validate", "--strict", "-k", version, *map(str, files))
    assert ran.returncode == 0, ran.stdout
    unknown = [line for line in ran.stdout.splitlines() if "Couldn't find schema" in line]
    # Those of the Prometheus Operator are looked at below.
    assert {line.split("for kind ")[1].split()[0] for line in unknown} == {"PrometheusRule", "ServiceMonitor"}
    assert ran.stdout.count("passed for resource statefulset") == len(VALUES)


def test_a_manifest_that_kubernetes_would_refuse_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(rendered("defaults").replace("enableServiceLinks", "enableServicelinks"))
    assert checker("kubernetes_validate", "--strict", str(file)).returncode != 0


@pytest.mark.parametrize(
    "wrong",
    [
        "replicas=2",
        "image.tags=x",
        "image.digest=sha256:12",
        "logLevel=loud",
        "web.scheme=https",
        "persistence.accessModes[0]=ReadOnlyMany",
        "secrets[0].name=a",
        "service.port=0",
        "shards=0",
        "extraEnv[0].name=TDE_EXPORTER_WEB__PORT",
    ],
)
def test_values_that_would_do_nothing_or_harm_are_refused(wrong: str) -> None:
    ran = helm("template", "tried", str(CHART), f"--set={wrong}")
    assert ran.returncode != 0
    assert "values don't meet the specifications of the schema" in ran.stderr


def test_every_value_is_in_the_schema_and_used() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert {name for name in values if f".Values.{name}" not in templates} == set()
    assert set(yaml.safe_load(EVERYTHING.read_text())) | {"nameOverride", "resources"} == set(values)


def test_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (exporter.__version__, exporter.__version__)
    assert pod("defaults")["containers"][0]["image"] == f"tde-exporter:{exporter.__version__}"


@pytest.mark.parametrize("name", VALUES)
def test_pod_is_locked_down(name: str) -> None:
    spec = pod(name)
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    # Or a service named tde-exporter would set TDE_EXPORTER_PORT, and so forth.
    assert spec["enableServiceLinks"] is False
    assert "cpu" not in container["resources"]["limits"]


def test_configuration_is_one_that_the_exporter_takes(tmp_path: Path) -> None:
    (config,) = (one for one in by_kind("everything")["ConfigMap"] if "config.yaml" in one["data"])
    spec, environ = pod("everything"), environment("everything")
    mounts = {one["mountPath"]: one for one in spec["containers"][0]["volumeMounts"]}
    assert environ["TDE_EXPORTER_CONFIG"] in mounts
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    assert volumes["secret-shop"]["secret"]["secretName"] == "shop-tde-exporter"
    assert {one["name"] for one in mounts.values()} == {*volumes, "state"}
    secret = tmp_path / "password"
    secret.write_text("for-the-test")
    file = tmp_path / "config.yaml"
    file.write_text(config["data"]["config.yaml"].replace("/etc/tde-exporter/secrets/shop/password", str(secret)))
    assert str(secret) in file.read_text()
    ours = {name: value for name, value in environ.items() if name != "TDE_EXPORTER_CONFIG"}
    assert ours["TDE_EXPORTER_SHARD"] == "watch-0/3"
    settings = load(file, target_types=target_types(), environ={"HOME": str(tmp_path), **ours})
    assert [target.name for target in settings.targets] == ["shop"]
    assert settings.own_shard == Shard(0, 3)
    assert settings.log.level == "debug"
    assert str(settings.web.config_file) == "/etc/tde-exporter/web/web.yaml"


def test_there_is_a_pod_with_a_volume_for_each_shard() -> None:
    for name, shards in (("defaults", 1), ("everything", 3)):
        (stateful,) = by_kind(name)["StatefulSet"]
        assert stateful["spec"]["replicas"] == shards
        assert [claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]] == ["state"]
        (named,) = (one for one in pod(name)["containers"][0]["env"] if one["name"] == "POD_NAME")
        assert named["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_without_configuration_none_is_named() -> None:
    assert "TDE_EXPORTER_CONFIG" not in environment("defaults")
    assert "ConfigMap" not in by_kind("defaults")


def test_a_changed_configuration_starts_the_pod_anew() -> None:
    def checksum(*options: str) -> str:
        ran = helm("template", "tried", str(CHART), *options)
        (stateful,) = (one for one in documents(ran.stdout) if one["kind"] == "StatefulSet")
        return str(stateful["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum("--set=config.log.level=info") != checksum("--set=config.log.level=debug")


def test_probes_ask_for_health_as_the_web_configuration_allows() -> None:
    for name, scheme in (("defaults", "HTTP"), ("everything", "HTTPS")):
        container = pod(name)["containers"][0]
        for probe in ("livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"] == {"path": "/-/healthy", "port": "http", "scheme": scheme}
    container = pod("certificates")["containers"][0]
    assert container["livenessProbe"]["exec"] == {"command": ["tde-exporter-healthy"]}


def test_network_policy_lets_in_one_port_and_out_to_the_databases() -> None:
    (policy,) = by_kind("everything")["NetworkPolicy"]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (ingress,) = policy["spec"]["ingress"]
    assert ingress["ports"] == [{"port": "http", "protocol": "TCP"}]
    assert len(ingress["from"]) == 1
    assert [rule["ports"][0]["port"] for rule in policy["spec"]["egress"]] == [53, 3306]
    (policy,) = by_kind("defaults")["NetworkPolicy"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_everything_selects_the_pods_of_this_release() -> None:
    kinds = by_kind("everything")
    (stateful,) = kinds["StatefulSet"]
    labels = stateful["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        stateful["spec"]["selector"]["matchLabels"],
        kinds["Service"][0]["spec"]["selector"],
        kinds["NetworkPolicy"][0]["spec"]["podSelector"]["matchLabels"],
        kinds["PodDisruptionBudget"][0]["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels
    assert stateful["spec"]["serviceName"] == kinds["Service"][0]["metadata"]["name"]
    (monitor,) = kinds["ServiceMonitor"]
    service = kinds["Service"][0]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["scheme"] == "https"
    assert {"targetLabel": "job", "replacement": "tde-exporter"} in endpoint["relabelings"]
    assert endpoint["tlsConfig"]["serverName"] == "tde-exporter"


def test_rules_are_those_of_the_files(promtool: Path, tmp_path: Path) -> None:
    (rule,) = by_kind("everything")["PrometheusRule"]
    written = [
        group
        for name in ("tde-recording.yml", "tde-alerts.yml")
        for group in yaml.safe_load((ROOT / "alerts" / name).read_text())["groups"]
    ]
    assert rule["spec"]["groups"] == written
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump(rule["spec"]))
    subprocess.run([str(promtool), "check", "rules", str(file)], check=True, capture_output=True)


def test_dashboards_are_those_of_the_files() -> None:
    found = {
        name: json.loads(content)
        for one in by_kind("everything")["ConfigMap"]
        if one["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, content in one["data"].items()
    }
    assert found == {path.name: json.loads(path.read_text()) for path in (ROOT / "dashboards").glob("*.json")}


def test_a_packed_chart_holds_rules_and_dashboards(tmp_path: Path) -> None:
    assert helm("package", str(CHART), f"--destination={tmp_path}").returncode == 0
    (packed,) = tmp_path.glob("*.tgz")
    ran = helm("template", "tried", str(packed), f"--values={EVERYTHING}")
    assert ran.returncode == 0, ran.stderr
    assert documents(ran.stdout) == documents(helm("template", "tried", str(CHART), f"--values={EVERYTHING}").stdout)
