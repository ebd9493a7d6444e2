"""What docs/install.md tells to type exists: files, options, values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.cli import main
from tests.deploy.kit import ROOT, documents, helm

PAGE = (ROOT / "docs" / "install.md").read_text()
COMMANDS = [line.strip() for line in PAGE.replace("\\\n", " ").splitlines() if line.startswith("    ")]


def test_files_that_are_named_are_there() -> None:
    named = re.findall(r"\b((?:deploy|requirements)/[\w./@-]*\w)", "\n".join(COMMANDS))
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_values_that_are_shown_can_be_rendered(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```yaml\n(# shop\.yaml.*?)```", PAGE, re.DOTALL)
    (tmp_path / "shop.yaml").write_text(shown)
    (command,) = (line for line in COMMANDS if line.startswith("helm install"))
    arguments = command.replace("deploy/", f"{ROOT}/deploy/").replace("shop.yaml", f"{tmp_path}/shop.yaml").split()
    ran = helm("template", *arguments[2:])
    assert ran.returncode == 0, ran.stderr
    kinds = {one["kind"] for one in documents(ran.stdout)}
    assert {"StatefulSet", "ServiceMonitor", "PrometheusRule", "ConfigMap"} <= kinds


def test_the_variables_that_are_named_are_those_of_the_stack() -> None:
    stack = (ROOT / "deploy" / "compose" / "compose.yaml").read_text()
    for name in ("GRAFANA_PORT", "ALERTMANAGER_CONFIG", "TDE_EXPORTER_CONFIG"):
        assert name in PAGE
        assert f"${{{name}:-" in stack


@pytest.mark.parametrize("what", ["alerts", "dashboards"])
def test_bundle_is_a_command(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"tde-exporter bundle {what} --out DIR" in PAGE
    assert main(["bundle", what, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert any(tmp_path.iterdir())


def test_options_of_the_container_are_those_that_were_tried() -> None:
    (run,) = (line for line in COMMANDS if line.startswith("docker run"))
    tried = (ROOT / "tests" / "image" / "test_image.py").read_text()
    for option in ("--read-only", "--cap-drop", "--security-opt"):
        assert option in run
        assert option in tried
