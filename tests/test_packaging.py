"""What is shipped, what is locked, and how an installation heals."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import exporter
from exporter.bundle.data import data_directory
from tests.daemons import Daemon

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {path.stem: path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(lock: str) -> dict[str, set[str]]:
    """Canonical name to its pinned versions (more than one where they depend on the Python version)."""
    pins: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE):
        pins.setdefault(_canonical(name), set()).add(version)
    return pins


def _names(requirements: list[str]) -> set[str]:
    return {_canonical(match[0]) for text in requirements if (match := re.match(r"[A-Za-z0-9._-]+", text))}


def unlocked(lock: str) -> list[str]:
    """Requirements of a lock file that have no version or no hash, and lines that name a place to load from."""
    entries = re.sub(r"#.*", "", lock).replace("\\\n", " ").splitlines()
    return [
        entry.strip()
        for entry in entries
        if entry.strip() and not re.match(r"[A-Za-z0-9._-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry.strip())
    ] + re.findall(r"\S*://\S*|--(?:extra-)?index\S*|--find-links\S*", lock)


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_locks_have_hashes_and_name_no_index(name: str) -> None:
    assert len(_pins(LOCKS[name])) >= 1
    assert unlocked(LOCKS[name]) == []


def test_what_is_not_locked_is_found() -> None:
    assert unlocked("numpy==2.4.6\n") == ["numpy==2.4.6"]
    assert unlocked("numpy>=2 \\\n    --hash=sha256:" + "0" * 64) != []
    assert "--index-url" in unlocked("--index-url x\n")
    assert unlocked("pip==1 \\\n    --hash=sha256:" + "0" * 64 + "\n") == []


def test_locks_hold_what_the_project_asks_for_and_agree() -> None:
    run, test, build = (_pins(LOCKS[name]) for name in ("run", "test", "build"))
    assert _names(PROJECT["project"]["dependencies"]) <= run.keys()
    assert _names(PROJECT["dependency-groups"]["test"]) <= test.keys()
    assert _names(PROJECT["build-system"]["requires"]) <= build.keys()
    assert run.items() <= test.items()
    assert {name: pin for name, pin in build.items() if test.get(name, pin) != pin} == {}


def test_everything_imported_is_declared() -> None:
    imported = set()
    for path in (ROOT / "exporter").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    foreign = imported - sys.stdlib_module_names - {"exporter"}
    distributions = importlib.metadata.packages_distributions()
    # Parts of what is declared: the extra `yaml` of pydantic-settings, and pydantic's other half, pinned by it.
    declared = _names(PROJECT["project"]["dependencies"]) | {"pyyaml", "pydantic-core"}
    assert {name for name in foreign if not {_canonical(found) for found in distributions[name]} & declared} == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"exporter", f"tde_exporter-{exporter.__version__}.dist-info"}
    assert "exporter/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]
    for kind in ("dashboards", "alerts"):
        shipped = {name.removeprefix(f"exporter/bundle/data/{kind}/") for name in names if f"/data/{kind}/" in name}
        present = {str(path.relative_to(ROOT / kind)) for path in (ROOT / kind).rglob("*") if path.is_file()}
        assert present
        assert present == shipped


def test_wheel_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"tde_exporter-{exporter.__version__}.dist-info"
    metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
    assert metadata["Name"] == "tde-exporter"
    assert metadata["Version"] == exporter.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "tde-exporter = exporter.__main__:main" in archive.read(f"{info}/entry_points.txt").decode()
    assert "Apache License" in archive.read(f"{info}/licenses/LICENSE").decode()


def test_installed_package_finds_its_own_data(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = "from exporter.bundle.data import data_directory as d; print(d('dashboards')); print(d('alerts'))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    data = tmp_path / "exporter" / "bundle" / "data"
    assert ran.stdout.split() == [str(data / "dashboards"), str(data / "alerts")]
    assert (data / "dashboards").is_dir()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that holds the wheel, and what it depends on, but not this checkout."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*install, "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    # Paths in a .pth file are added as they are: that of the editable install beside them is not followed.
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_installed_wheel_writes_rules_and_dashboards(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "tde-exporter")
    said = subprocess.run([command, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == f"tde-exporter {exporter.__version__}\n"
    for what in ("alerts", "dashboards"):
        subprocess.run([command, "bundle", what, "--out", what], cwd=tmp_path, check=True, capture_output=True)
    for written in ("alerts/tde-alerts.yml", "alerts/tde-recording.yml", "dashboards/tde-fleet.json"):
        assert (tmp_path / written).read_text() == (ROOT / written).read_text()


def test_installed_wheel_serves(installed: Path, tmp_path: Path) -> None:
    class Installed(Daemon):
        def __init__(self) -> None:
            super().__init__(tmp_path, {"targets": [{"name": "f", "engine": "fake", "pairs": [{"name": "p"}]}]})
            self._command = [str(installed / "tde-exporter"), *self._command[3:]]

    daemon = Installed().start()
    try:
        daemon.ready()
        daemon.until(lambda: daemon.value("tde_target_up", target="f") == 1.0, "the target is up")
        assert daemon.process is not None
        assert str(installed) in Path(f"/proc/{daemon.process.pid}/cmdline").read_text()
        daemon.stop()
    finally:
        daemon.kill()


def test_source_distribution_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    subprocess.run(
        [*build, "-t", "wheel"], cwd=tmp_path / packed.name.removesuffix(".tar.gz"), check=True, capture_output=True
    )
    (again,) = tmp_path.glob("*.whl")
    first, second = (
        {entry.filename: entry.CRC for entry in zipfile.ZipFile(file).infolist()} for file in (wheel, again)
    )
    assert second == first


def test_checkout_finds_its_data_at_the_top_level() -> None:
    assert data_directory("dashboards") == ROOT / "dashboards"
    assert data_directory("alerts").is_dir()


def test_commit_hooks_download_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repository["repo"] for repository in hooks["repos"]] == ["local"]


@pytest.mark.parametrize(
    "script", ["run", "check", ".ci/run", *(f"tools/{p.name}" for p in (ROOT / "tools").glob("*.sh"))]
)
def test_scripts_can_be_started_and_are_plain_sh(script: str) -> None:
    path = ROOT / script
    assert path.read_text().startswith("#!/bin/sh\n")
    assert os.access(path, os.X_OK)
    subprocess.run(["sh", "-n", str(path)], check=True)


STAND_IN = """#!/bin/sh
# A Python whose `venv` and `pip` only take notes; for everything else the real one.
case "$1 $2" in
    "-m venv")
        echo venv >>calls
        rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python
        printf '#!/bin/sh\\necho "started $*"\\n' >.venv/bin/tde-exporter && chmod +x .venv/bin/tde-exporter ;;
    "-m pip")
        [ "$3" = install ] || exit 0
        echo pip >>calls
        [ ! -e kill-it ] || { rm kill-it; kill -9 $PPID; }
        [ ! -e refuse ] || { rm refuse; echo "no network"; exit 1; } ;;
    *) exec REAL "$@" ;;
esac
"""


class Machine:
    """A checkout in which installing is pretended, so that the set-up script can be tried without a network."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.path = folder / "checkout", folder / "bin"
        self.checkout.mkdir()
        self.path.mkdir()
        for name in ("tools", "requirements"):
            shutil.copytree(ROOT / name, self.checkout / name)
        for name in ("run", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)
        for tool in ("sh", "dirname", "cat", "cksum", "rm", "cp", "mkdir", "chmod", "mktemp", "grep", "tail", "id"):
            (self.path / tool).symlink_to(shutil.which(tool) or tool)
        self.install_python(STAND_IN.replace("REAL", sys.executable))

    def install_python(self, text: str) -> None:
        python = self.path / "python3"
        python.write_text(text)
        python.chmod(0o755)

    def start(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.path), "TMPDIR": str(self.path)}
        return subprocess.run(
            command or ("./run", "--flag"),
            cwd=self.checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> list[str]:
        """What was pretended since the last time this was asked."""
        notes = self.checkout / "calls"
        found = notes.read_text().split() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_first_start_installs_and_the_second_only_starts(machine: Machine) -> None:
    first = machine.start()
    assert (first.returncode, first.stdout) == (0, "started run --flag\n")
    assert "Installing" in first.stderr
    assert machine.calls() == ["venv", "pip", "pip"]
    second = machine.start()
    assert (second.returncode, second.stdout, second.stderr) == (0, "started run --flag\n", "")
    assert machine.calls() == []


def test_changed_lock_is_installed_into_the_same_environment(machine: Machine) -> None:
    machine.start()
    machine.calls()
    with (machine.checkout / "requirements" / "run.txt").open("a") as lock:
        lock.write("# another package\n")
    assert machine.start().returncode == 0
    assert machine.calls() == ["pip", "pip"]


def test_set_up_that_was_killed_heals(machine: Machine) -> None:
    (machine.checkout / "kill-it").touch()
    assert machine.start().returncode != 0
    assert machine.calls() == ["venv", "pip"]
    assert machine.start().stdout == "started run --flag\n"
    assert machine.calls() == ["venv", "pip", "pip"]


def test_update_that_was_killed_does_not_pass_for_ready(machine: Machine) -> None:
    machine.start()
    machine.calls()
    (machine.checkout / "kill-it").touch()
    assert machine.start("tools/setup.sh", "test").returncode != 0
    assert machine.calls() == ["pip"]
    assert machine.start().returncode == 0
    assert machine.calls() == ["venv", "pip", "pip"]


def test_failed_installation_names_the_remedy_and_heals(machine: Machine) -> None:
    (machine.checkout / "refuse").touch()
    failed = machine.start()
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "no network" in failed.stderr
    assert "PIP_INDEX_URL" in failed.stderr.splitlines()[-1]
    assert machine.start().returncode == 0


def test_environment_that_was_moved_is_made_again(machine: Machine) -> None:
    machine.start()
    machine.calls()
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("elsewhere"))
    assert machine.start().returncode == 0
    assert machine.calls() == ["venv", "pip", "pip"]


def test_environment_for_tests_serves_for_running(machine: Machine) -> None:
    assert machine.start("tools/setup.sh", "test").returncode == 0
    machine.calls()
    assert machine.start().returncode == 0
    assert machine.start("tools/setup.sh", "test").returncode == 0
    assert machine.calls() == []


def test_missing_python_is_one_clear_line(machine: Machine) -> None:
    (machine.path / "python3").unlink()
    failed = machine.start()
    assert (failed.returncode, failed.stdout) == (1, "")
    (line,) = failed.stderr.splitlines()
    assert "python3 is missing. Install Python 3.11 or newer" in line


def test_old_python_is_one_clear_line(machine: Machine) -> None:
    machine.install_python('#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.9.2"\nexit 1\n')
    failed = machine.start()
    assert (failed.returncode, failed.stdout) == (1, "")
    (line,) = failed.stderr.splitlines()
    assert "Python 3.9.2 is too old. Install Python 3.11 or newer" in line
