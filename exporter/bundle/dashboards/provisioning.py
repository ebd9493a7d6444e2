"""Files that make Grafana load the dashboards by itself: provisioning, and Kubernetes ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping

FOLDER = "TDE"


def provider(path: str) -> str:
    """Dashboard provider of Grafana; `path` is where the JSON files lie on its machine."""
    return f"""\
# Belongs into provisioning/dashboards/ of Grafana.
apiVersion: 1
providers:
  - name: tde
    orgId: 1
    folder: {FOLDER}
    folderUid: tde
    type: file
    disableDeletion: true
    allowUiUpdates: false
    updateIntervalSeconds: 30
    options:
      path: {path}
"""


def datasource(url: str) -> str:
    """An example of a data source, for those who have none yet."""
    return f"""\
# An example: belongs into provisioning/datasources/ of Grafana, if your Prometheus is not there yet.
# The dashboards take any Prometheus data source; it is chosen at their top.
apiVersion: 1
datasources:
  - name: Prometheus
    uid: tde-prometheus
    type: prometheus
    access: proxy
    url: {url}
    jsonData:
      httpMethod: POST
      # Must be the scrape interval: rates are taken over four of it, and are empty when it is too short.
      timeInterval: 15s
      prometheusType: Prometheus
      manageAlerts: true
"""


def config_maps(dashboards: Mapping[str, str]) -> str:
    """One ConfigMap for each dashboard (file name to JSON), with the label that Grafana's sidecar looks for."""
    documents = []
    for name, content in dashboards.items():
        stem = name.removesuffix(".json")
        body = "".join(f"    {line}\n" for line in content.splitlines())
        documents.append(
            "apiVersion: v1\n"
            "kind: ConfigMap\n"
            "metadata:\n"
            f"  name: {stem}-dashboard\n"
            "  labels:\n"
            '    grafana_dashboard: "1"\n'
            "  annotations:\n"
            f"    grafana_folder: {FOLDER}\n"
            "data:\n"
            f"  {name}: |\n{body}"
        )
    return "---\n".join(documents)
