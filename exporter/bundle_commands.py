"""The commands that write dashboards and alert rules: bundle alerts, bundle dashboards. They connect to nothing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from exporter.bundle import alerts
from exporter.console import table
from exporter.domain.errors import ConfigError
from exporter.record_commands import Command, action, group

_ALERTS_EPILOG = """\
The rules are those in the folder alerts/ of this package, unless --set changes something. Load both
files with rule_files in prometheus.yml, and check them with `promtool check rules DIR/*.yml`.

  tde-exporter bundle alerts --out /etc/prometheus/tde --set overhead_ratio_critical=3 --set standby_lag_for=10m
  tde-exporter bundle alerts --list
"""


def add_to(add: Callable[[str, Command, str], argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add these commands to a command line; `add` makes a parser from name, function and help."""
    actions = group(add, "bundle", "write the dashboards and alert rules that come with this exporter")
    sub = action(actions, common, "alerts", write_alerts, "write recording and alert rules for Prometheus")
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = _ALERTS_EPILOG
    _add_out(sub)
    sub.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="change a threshold, a duration, the job or a link; may be given several times",
    )
    sub.add_argument(
        "--kubernetes", action="store_true", help=f"write the same rules as a PrometheusRule too: {alerts.KUBERNETES}"
    )
    sub.add_argument(
        "--list", action="store_true", dest="listing", help="list what --set can change, and the alerts; write nothing"
    )
    sub = action(
        actions, common, "dashboards", write_dashboards, "write dashboards for Grafana, and how to provision them"
    )
    _add_out(sub)
    sub.add_argument("--path", metavar="DIR", help="where Grafana will find them, for its provisioning file")
    sub.add_argument("--prometheus", metavar="URL", help="address of Prometheus, for the example of a data source")
    sub.add_argument(
        "--kubernetes", action="store_true", help="write ConfigMaps for the sidecar of Grafana's Helm chart, too"
    )


def _add_out(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--out", metavar="DIR", type=Path, help="the folder to write to; it is made if it is missing")


def write_alerts(arguments: argparse.Namespace) -> int:
    """Render the rules, or list what can be set."""
    values = alerts.with_settings(arguments.settings)
    if arguments.listing:
        print(_listing(values))
        return 0
    return _write(alerts.files(values, kubernetes=arguments.kubernetes), arguments.out)


def write_dashboards(arguments: argparse.Namespace) -> int:
    """Render the dashboards."""
    # Only this command needs them.
    from exporter.bundle import dashboards

    files = dashboards.files(
        path=arguments.path or dashboards.PATH,
        prometheus=arguments.prometheus or dashboards.PROMETHEUS,
        config_maps=arguments.kubernetes,
    )
    return _write(files, arguments.out)


def _listing(values: alerts.Thresholds) -> str:
    settings = [
        (one.name, one.written(getattr(values, one.name)), one.range, one.doc) for one in alerts.SETTINGS.values()
    ]
    found = [(rule.name, rule.severity.value, rule.component, _first(rule.summary)) for rule in alerts.alerts(values)]
    return "\n\n".join(
        (
            table(("--set", "now", "may be", "what it is"), settings, left=4),
            table(("alert", "severity", "component", "about"), found, left=4),
        )
    )


def _first(template: str) -> str:
    """A summary without the syntax of templates."""
    return re.sub(r"{{.*?}}", "…", template)


def _write(files: Mapping[str, str], out: Path | None) -> int:
    if out is None:
        raise ConfigError("there is no folder to write to", remedy="Add --out DIR")
    for name, content in files.items():
        path = out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or "it cannot be written"
            raise ConfigError(reason, where=str(path), remedy="Name a folder in --out that you may write to") from error
        print(path)
    return 0
