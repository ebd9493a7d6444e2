"""What may be changed in the alert rules, and the commands that write them and the dashboards."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from exporter.bundle import alerts, dashboards
from exporter.bundle.alerts import SETTINGS, Thresholds, with_settings
from exporter.bundle.alerts.thresholds import duration
from exporter.domain.errors import ConfigErrors
from tests.command_line import CommandLine


@pytest.fixture
def tde(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def rule(values: Thresholds, name: str) -> dict:
    groups = yaml.safe_load(alerts.files(values)[alerts.ALERTS])["groups"]
    return next(rule for group in groups for rule in group["rules"] if rule["alert"] == name)


def test_everything_but_the_scale_of_tests_can_be_set() -> None:
    assert set(SETTINGS) == {one.name for one in fields(Thresholds)} - {"divisor"}
    assert all(one.doc.endswith(".") and one.unit for one in SETTINGS.values())


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_changes_the_rules(name: str) -> None:
    setting = SETTINGS[name]
    if setting.unit == "text":
        text = "https://other.example"
    else:
        assert isinstance(setting.default, float | int)
        changed = (
            setting.default - (setting.default - setting.least) / 20
            if setting.default > setting.least
            else setting.most
        )
        text = setting.written(changed)
    assert alerts.files(with_settings([f"{name}={text}"])) != alerts.files()


def test_the_defaults_as_they_are_listed_are_the_defaults() -> None:
    assert (
        with_settings(f"{name}={one.written(one.default)}" for name, one in SETTINGS.items() if one.default)
        == Thresholds()
    )


def test_thresholds_appear_where_they_belong() -> None:
    values = with_settings(
        [
            "overhead_ratio=1.5",
            "overhead_ratio_critical=3",
            "standby_lag_for=90s",
            "runbook_base=https://wiki.example/r/",
        ]
    )
    assert 'threshold="1.5"' in rule(values, "TDEOverheadHighP99")["expr"]
    assert "more than 50 % slower" in rule(values, "TDEOverheadHighP99")["annotations"]["summary"]
    assert 'threshold="3.0"' in rule(values, "TDEOverheadCritical")["expr"]
    assert rule(values, "TDEStandbyLagHigh")["for"] == "1m30s"
    assert rule(values, "TDEWatchdog")["annotations"]["runbook_url"] == "https://wiki.example/r/TDEWatchdog.md"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("overhead", "is not NAME=VALUE"),
        ("overhead_ration=1.3", "there is no 'overhead_ration' to set"),
        ("divisor=60", "there is no 'divisor' to set"),
        ("overhead_ratio=fast", "'fast' is no number. Write a number from 1.01 to 10"),
        ("overhead_ratio=0.5", "0.5 is out of range"),
        ("overhead_ratio=nan", "nan is out of range"),
        ("host_cpu_ratio=85", "85 is out of range. Write a number from 0.1 to 1"),
        ("standby_lag_for=5 minutes", "'5 minutes' is no duration. Write a duration from 0ms to 1d, such as 5m"),
        ("standby_lag_for=2d", "out of range"),
        ('job=a"b', "quotes"),
        ("job={{ x }}", "braces"),
        ("overhead_ratio=2.5", "overhead_ratio must be smaller than overhead_ratio_critical"),
        ("key_age_days=300", "key_age_notice_days must be smaller than key_age_days"),
    ],
)
def test_what_cannot_be_is_refused_with_words(text: str, says: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        with_settings([text])
    assert says in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigErrors) as caught:
        with_settings(["a", "b=1", "host_cpu_ratio=2"])
    assert len(caught.value.problems) == 3


@given(st.integers(1, 10**10))
def test_durations_are_exact_to_a_millisecond(milliseconds: int) -> None:
    sizes = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    parts = re.findall(r"(\d+)(ms|[smhd])", duration(milliseconds / 1000))
    assert sum(int(number) * sizes[unit] for number, unit in parts) == milliseconds


def test_kubernetes_gets_the_same_rules() -> None:
    files = alerts.files(kubernetes=True)
    resource = yaml.safe_load(files[alerts.KUBERNETES])
    assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    groups = [group for name in (alerts.RECORDING, alerts.ALERTS) for group in yaml.safe_load(files[name])["groups"]]
    assert resource["spec"]["groups"] == groups


def test_the_command_writes_the_rules(tde: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "new" / "rules"
    done = tde("bundle", "alerts", "--out", str(out), "--set", "host_cpu_ratio=0.7", "--kubernetes")
    assert (done.returncode, done.stderr) == (0, "")
    wanted = alerts.files(Thresholds(host_cpu_ratio=0.7), kubernetes=True)
    assert done.stdout.split() == [str(out / name) for name in wanted]
    assert {name: (out / name).read_text() for name in wanted} == wanted


def test_the_other_command_writes_the_dashboards(tde: CommandLine, tmp_path: Path) -> None:
    options = ("--path", "/srv/boards", "--prometheus", "http://prometheus.example:9090", "--kubernetes")
    done = tde("bundle", "dashboards", "--out", str(tmp_path), *options)
    assert (done.returncode, done.stderr) == (0, "")
    wanted = dashboards.files(path="/srv/boards", prometheus="http://prometheus.example:9090", config_maps=True)
    assert {name: (tmp_path / name).read_text() for name in wanted} == wanted


def test_the_command_lists_what_can_be_set_and_all_alerts(tde: CommandLine, tmp_path: Path) -> None:
    done = tde("bundle", "alerts", "--list", "--set", "overhead_ratio=1.3")
    assert done.returncode == 0
    assert all(re.search(rf"^{name} ", done.stdout, re.MULTILINE) for name in SETTINGS)
    assert all(f"\n{rule.name} " in done.stdout for rule in alerts.alerts(Thresholds()))
    assert re.search(r"^overhead_ratio +1\.3 ", done.stdout, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_to_mend(tde: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, says in (
        ((), "Add --out DIR"),
        (("--out", str(tmp_path / "file")), "Name a folder in --out that you may write to"),
        (("--out", str(tmp_path), "--set", "x=1"), "`tde-exporter bundle alerts --list` names all"),
    ):
        done = tde("bundle", "alerts", *arguments)
        assert done.returncode == 1
        assert says in done.stderr
        assert "Traceback" not in done.stderr
