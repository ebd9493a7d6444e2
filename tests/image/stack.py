"""The Compose stack on an engine of the tests, with ports that are free on this machine."""

from __future__ import annotations

from typing import Any

import httpx

from tests.daemons import free_port
from tests.image.engine import ROOT, Engine

SERVICES = ("exporter", "prometheus", "alertmanager")


class Stack:
    """Runs commands of Compose, and asks services.

    Args:
        engine: Where it runs.
        environ: Variables of compose.yaml, such as images.
        options: Of every command, such as another file of variables.
    """

    def __init__(self, engine: Engine, environ: dict[str, str], *options: str) -> None:
        self._engine, self._options = engine, options
        self.ports = {name: free_port() for name in SERVICES}
        self._environ = environ | {f"{name.upper()}_PORT": str(port) for name, port in self.ports.items()}
        self._environ["TDE_EXPORTER_PORT"] = str(self.ports["exporter"])

    def compose(self, *arguments: str) -> str:
        file = f"--file={ROOT}/deploy/compose/compose.yaml"
        return self._engine.docker(
            "compose", "--progress=plain", file, *self._options, *arguments, environ=self._environ
        )

    def ask(self, service: str, path: str, **query: str) -> Any:
        answer = httpx.get(f"http://127.0.0.1:{self.ports[service]}{path}", params=query, timeout=10)
        return answer.raise_for_status().json()

    def prometheus(self, path: str, **query: str) -> Any:
        return self.ask("prometheus", f"/api/v1/{path}", **query)["data"]

    def value(self, query: str) -> float | None:
        found = self.prometheus("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None
