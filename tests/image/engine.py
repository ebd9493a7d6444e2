"""A Docker Engine of the tests' own: in a folder of its own, without a trace in the firewall or on the network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.processes import until

ROOT = Path(__file__).resolve().parents[2]
BASE = "python:3.13-slim-trixie"

Made = TypeVar("Made")

# Without it, a build would look for packages where this machine does not.
PACKAGE_INDEX = re.compile(r"^(?::env:|global|install)\.(index-url|extra-index-url|trusted-host)='(.+)'$", re.MULTILINE)
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def tool(name: str, *arguments: str) -> Path:
    """What a script of tools/ fetches or makes; it says itself what is missing."""
    made = subprocess.run([str(ROOT / "tools" / name), *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return Path(made.stdout.strip())


def at_second_try(make: Callable[[], Made]) -> Made:
    """What depends on a network or on a machine that is busy fails for once; what is wrong fails again."""
    try:
        return make()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        print(f"Tries again after: {error}")
        return make()


class Engine:
    """Started at once; `close` ends it and removes all that it had.

    It touches neither firewall nor routing of the machine: containers use the machine's network or, between
    each other, one without a way out.
    """

    def __init__(self) -> None:
        self._programs = tool("get_docker.sh")
        # Paths of sockets must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="tde-docker-"))
        usr = self._programs / "usr"
        # One folder, with the name of this machine's kind.
        (libraries,) = (usr / "lib").glob("*-linux-gnu*")
        self._socket = f"unix://{self.folder}/docker.sock"
        self.environ = {
            **os.environ,
            "PATH": f"{usr}/sbin:{usr}/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(libraries),
            "XTABLES_LIBDIR": f"{libraries}/xtables",
            "DOCKER_CONFIG": str(self._programs / "client"),
            "DOCKER_HOST": self._socket,
        }
        # Its mounts are seen by itself only; and it does not outlive these tests, however they end.
        command = ["setpriv", "--pdeathsig=TERM", "unshare", "--mount", "--propagation=slave"]
        command += ["dockerd", f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        command += [f"--pidfile={self.folder}/pid", f"--host={self._socket}"]
        command += ["--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none"]
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self.environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        try:
            until(self._answers, "the Docker Engine answers", 60.0)
        except BaseException:
            print(self.log.read_text())
            self.close()
            raise

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        return subprocess.run(["docker", "version"], env=self.environ, capture_output=True, check=False).returncode == 0

    def docker(
        self, *arguments: str, check: bool = True, timeout: float = 600.0, environ: Mapping[str, str] | None = None
    ) -> str:
        """What a command of the client prints, standard error included."""
        ran = subprocess.run(
            ["docker", *arguments],
            env={**self.environ, **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert not check or ran.returncode == 0, f"docker {' '.join(arguments)}:\n{ran.stdout}"
        return ran.stdout

    def inspect(self, name: str) -> dict[str, Any]:
        """What the engine knows of a container, an image or a volume."""
        (found,) = json.loads(self.docker("inspect", name))
        return dict(found)

    def load_base(self) -> None:
        """The stand-in for the official Python image, for machines that reach no registry."""
        tar = tool("get_base_image.sh")
        changes = [
            "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8",
            'CMD ["python3"]',
        ]
        asked = [sys.executable, "-m", "pip", "config", "list"]
        listed = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout
        for name, value in PACKAGE_INDEX.findall(listed):
            changes.append(f'ENV PIP_{name.upper().replace("-", "_")}="{value}"')
        self.docker("import", *(f"--change={change}" for change in changes), str(tar), BASE)

    def build(self, tag: str, *arguments: str, context: Path = ROOT) -> float:
        """Build an image; the seconds that it took."""
        begun = time.monotonic()
        proxies = [f"--build-arg={name}" for name in PROXIES if name in os.environ]
        self.docker("build", "--network=host", "--progress=plain", "--tag", tag, *proxies, *arguments, str(context))
        return time.monotonic() - begun

    def remove(self, containers: Sequence[str]) -> None:
        """Remove containers with their anonymous volumes, running or not."""
        if containers:
            self.docker("rm", "--force", "--volumes", *containers)

    def close(self) -> None:
        """End the engine, and what runs in it, and remove its folder."""
        if self._process.poll() is None:
            self.remove(self.docker("ps", "--all", "--quiet").split())
            # Their bridges would outlive the engine.
            self.docker("network", "prune", "--force")
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
