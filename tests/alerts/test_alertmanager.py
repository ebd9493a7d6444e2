"""The Alertmanager example: it is sound, it routes every alert, and it mutes what it should and nothing else.

The rules say which alerts there are and how severe each is; their unit tests say which labels each one carries. So an
alert that is added has to be given a place in `MUTED_BY` below, if only by doing nothing.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, product
from pathlib import Path

import pytest
import yaml

from tests.alerts.alertmanager import NEWEST, OLDEST, Alertmanager, Labels, tool
from tests.processes import until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "alerts" / "alertmanager" / "tde-example.yml"
RECEIVERS = {"critical": "tde-pager", "warning": "tde-tickets", "info": "nowhere", "none": "tde-dead-mans-switch"}

TARGET = ("job", "target")
PAIR = (*TARGET, "pair")
OPERATION = (*PAIR, "operation")
STANDBY = (*TARGET, "standby")
CHANNEL = (*STANDBY, "channel")

CANARIES = ("TDECanaryFailing", "TDECanaryStale")
OVERHEAD = ("TDEOverheadHighP99", "TDEOverheadHighP50", "TDEOverheadBaselineRegression", "TDEEncryptedReadsSlower")
KEYLESS = (*CANARIES, "TDEPairInvalid", "TDEOverheadCritical", *OVERHEAD)
STATE = (("collector", "encryption_state"),)
LAGS = ("TDEStandbyLagHigh", "TDEStandbyLagUnknown")


@dataclass(frozen=True)
class Mute:
    """While `source` fires, with these labels if any are given, `targets` that agree in the labels `equal` are silent; of
    these only such that have the labels in `having`."""

    source: str
    targets: tuple[str, ...]
    equal: tuple[str, ...]
    given: tuple[tuple[str, str], ...] = ()
    having: tuple[tuple[str, str], ...] = ()

    def holds(self, one: Labels, other: Labels) -> bool:
        named = one["alertname"] == self.source and other["alertname"] in self.targets
        fit = set(self.given) <= set(one.items()) and set(self.having) <= set(other.items())
        return named and fit and all(one.get(n) == other.get(n) for n in self.equal)


MUTES = (
    Mute("TDEKeystoreNotOpen", ("TDEEncryptedSideFailing", *KEYLESS), TARGET),
    Mute("TDEKeysMissing", ("TDEEncryptedSideFailing", *KEYLESS), TARGET),
    Mute("TDEKeystoreNotOpen", ("TDECollectorFailing",), TARGET, having=STATE),
    Mute("TDEKeysMissing", ("TDECollectorFailing",), TARGET, having=STATE),
    Mute("TDEEncryptedSideFailing", KEYLESS, PAIR),
    Mute("TDETargetDown", ("TDECanaryFailing", "TDEStandbyLagUnknown", "TDEStandbyTransportStopped"), TARGET),
    Mute("TDETargetLoginRefused", ("TDECanaryFailing", "TDEStandbyLagUnknown"), TARGET),
    Mute("TDECollectorFailing", ("TDEStandbyLagUnknown",), TARGET, (("collector", "standby"),)),
    Mute("TDECollectorFailing", ("TDEStandbyLagUnknown",), TARGET, (("collector", "heartbeat"),)),
    Mute("TDEScratchLockElsewhere", ("TDECollectorFailing",), TARGET, having=(("collector", "heartbeat"),)),
    Mute("TDEScratchLockElsewhere", ("TDEStandbyLagUnknown",), TARGET),
    Mute("TDEProbeProcessDown", ("TDECanaryStale",), ("job",)),
    Mute("TDEExporterDown", ("TDETargetMissing",), ("job",)),
    Mute("TDEPairInvalid", (*CANARIES, *OVERHEAD), PAIR),
    Mute("TDECanaryBlind", OVERHEAD, PAIR),
    Mute("TDECanaryFailing", ("TDECanaryStale",), (*OPERATION, "variant")),
    Mute("TDEHostCPUSaturated", ("TDEOverheadBaselineRegression", "TDEEncryptedReadsSlower"), TARGET),
    Mute("TDEOverheadCritical", ("TDEOverheadHighP99", "TDEOverheadHighP50"), (*OPERATION, "percentile")),
    Mute("TDEOverheadCritical", ("TDEEncryptedReadsSlower",), OPERATION),
    Mute("TDEOverheadHighP50", ("TDEEncryptedReadsSlower", "TDEOverheadHighP99"), OPERATION),
    Mute("TDEStandbyLagCritical", ("TDEStandbyLagHigh",), CHANNEL),
    Mute("TDEStandbyKeyMismatch", ("TDEStandbyApplyStopped", *LAGS), STANDBY),
    Mute("TDEStandbyTransportStopped", LAGS, CHANNEL),
    Mute("TDEStandbyApplyStopped", LAGS, CHANNEL),
    Mute("TDEStandbyGap", LAGS, CHANNEL),
)
"""All that mutes anything. Every other two alerts leave each other alone."""


@dataclass(frozen=True)
class Case:
    """Two alerts that fire at the same time and share the values of all labels that both have, but for one at most."""

    first: dict[str, str]
    second: dict[str, str]

    def silent(self, which: int) -> bool:
        one, other = (self.first, self.second)[:: 1 if which else -1]
        return any(mute.holds(one, other) for mute in MUTES)


@cache
def severities() -> dict[str, str]:
    """Severity by alert, from all rule files."""
    found = {}
    for file in sorted((ROOT / "alerts").glob("*.yml")):
        for group in yaml.safe_load(file.read_text()).get("groups", ()):
            found.update({rule["alert"]: rule["labels"]["severity"] for rule in group["rules"] if "alert" in rule})
    return found


@cache
def shapes() -> dict[str, list[dict[str, str]]]:
    """Labels by alert, as the unit tests of the rules see them fire; one of each set of names."""
    found: dict[str, dict[frozenset[str], dict[str, str]]] = {}
    for file in sorted((ROOT / "alerts" / "tests").glob("*.yml")):
        for test in yaml.safe_load(file.read_text())["tests"]:
            for moment in test.get("alert_rule_test", ()):
                for fired in moment.get("exp_alerts") or ():
                    labels = fired["exp_labels"]
                    found.setdefault(moment["alertname"], {}).setdefault(frozenset(labels), labels)
    return {alert: list(kinds.values()) for alert, kinds in found.items()}


ALERTS = sorted(severities())


def example():
    return yaml.safe_load(EXAMPLE.read_text())


def amtool(*arguments: str, fetched: Path = NEWEST) -> str:
    ran = subprocess.run([str(tool("amtool", fetched)), *arguments], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def receiver(config: Path = EXAMPLE, /, **labels: str) -> str:
    given = [f"{name}={value}" for name, value in labels.items()]
    return amtool("config", "routes", "test", f"--config.file={config}", *given).strip()


# -- the file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fetched", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_it_is_sound(fetched):
    assert "SUCCESS" in amtool("check-config", str(EXAMPLE), fetched=fetched)


def test_it_holds_no_secret_and_no_address_of_anybody():
    urls = re.findall(r"https?://([^/\s\"']+)", EXAMPLE.read_text())
    assert urls
    assert [url for url in urls if not url.endswith(".invalid")] == []
    for each in example()["receivers"]:
        for webhook in each.get("webhook_configs", ()):
            assert set(webhook) <= {"url", "send_resolved"}
        assert set(each) <= {"name", "webhook_configs"}


def test_each_part_says_why():
    """A comment stands right above each route and each inhibition."""
    lines = EXAMPLE.read_text().splitlines()
    parts = [n for n, line in enumerate(lines) if re.match(r"\s*- (?:matchers|source_matchers):", line)]
    assert len(parts) > 10
    assert [lines[n] for n in parts if not lines[n - 1].lstrip().startswith("#")] == []


# -- routes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_goes_where_its_severity_says(alert):
    for labels in shapes()[alert]:
        assert receiver(**{**labels, "alertname": alert}) == RECEIVERS[severities()[alert]]


def test_others_alerts_and_unknown_severities_are_not_lost():
    assert receiver(alertname="SomebodyElses", severity="critical") == "everything-else"
    assert receiver(alertname="TDESomethingNew", severity="strange") == "tde-tickets"


def test_the_routes_that_the_documentation_adds_work(tmp_path):
    """They are put before the others, as it says, with their receivers."""
    shown = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "alerts.md").read_text(), re.DOTALL)
    (added,) = [yaml.safe_load(block) for block in shown if "receiver:" in block]
    config = example()
    ours = config["route"]["routes"][0]["routes"]
    ours[:0] = added
    known = {each["name"] for each in config["receivers"]}
    config["receivers"] += [{"name": name} for name in sorted({route["receiver"] for route in added} - known)]
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    key = {"alertname": "TDEKeystoreNotOpen", "component": "keystore", "severity": "critical"}
    assert receiver(file, **key) == "security-team,tde-pager"
    assert receiver(file, alertname="TDEPairInvalid", severity="warning", target="erp") == "erp-team"
    assert receiver(file, alertname="TDEObjectsPlain", severity="info", component="coverage") == "tde-tickets"


# -- inhibitions ---------------------------------------------------------------------------------------


FIXED = {"severity", "component", "collector"}


def labelled(alert: str, labels: Labels, number: int) -> dict[str, str]:
    """The same labels with values that only one case has; what rules and the example look at stays."""
    values = {name: value if name in FIXED else f"{name}-{number}" for name, value in labels.items()}
    return {**values, "alertname": alert}


def every() -> Iterator[tuple[str, Labels]]:
    """Each alert with each set of labels that it may carry, and with those that a row of the table asks for."""
    for alert in ALERTS:
        for labels in shapes()[alert]:
            yield alert, labels
            if "standby" in labels:
                yield alert, {**labels, "channel": "named"}
            yield from (
                (alert, {**labels, **dict(mute.given)}) for mute in MUTES if mute.source == alert and mute.given
            )


def cases() -> Iterator[Case]:
    numbers = count()
    for (one, its), (other, others) in product(every(), every()):
        number = next(numbers)
        first, second = labelled(one, its, number), labelled(other, others, number)
        if first != second and one <= other:
            yield Case(first, second)
    # One label that must agree does not.
    for mute, (alert, labels), (other, others) in product(MUTES, every(), every()):
        if alert == mute.source and other in mute.targets:
            for label in (name for name in mute.equal if name in others):
                number = next(numbers)
                first, second = labelled(alert, labels, number), labelled(other, others, number)
                yield Case(first, {**second, label: "another"})


def key(labels: Labels) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


@pytest.fixture(scope="module", params=[NEWEST, OLDEST], ids=["newest", "oldest"])
def alertmanager(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    with Alertmanager(tmp_path_factory.mktemp("alertmanager"), EXAMPLE, request.param) as running:
        yield running


def test_the_table_names_alerts_that_there_are():
    assert {mute.source for mute in MUTES} | {target for mute in MUTES for target in mute.targets} <= set(ALERTS)


def test_no_ticket_mutes_a_call():
    calls = {alert for alert, severity in severities().items() if severity == "critical"}
    assert [mute for mute in MUTES if mute.source not in calls and calls & set(mute.targets)] == []


def test_each_two_alerts_are_muted_or_not_as_the_table_says(alertmanager):
    tried = list(cases())
    assert sum(case.silent(1) or case.silent(0) for case in tried) > len(MUTES)
    # Alerts are taken up in their order: when the last ones are, all are.
    mute = MUTES[0]
    last = Case(*(labelled(alert, shapes()[alert][0], len(ALERTS) ** 3) for alert in (mute.source, mute.targets[0])))
    alertmanager.post(labels for case in (*tried, last) for labels in (case.first, case.second))

    def silent() -> dict[frozenset[tuple[str, str]], bool]:
        return {key(alert["labels"]): bool(alert["status"]["inhibitedBy"]) for alert in alertmanager.alerts()}

    until(lambda: silent().get(key(last.second)), "the last alert to be silent")
    found = silent()
    wrong = [
        f"{labels} beside {beside}: {'silent' if found[key(labels)] else 'not silent'}"
        for case in tried
        for which, labels, beside in ((0, case.first, case.second), (1, case.second, case.first))
        if found[key(labels)] != case.silent(which)
    ]
    assert wrong == []


def test_a_page_is_one_for_each_target(alertmanager):
    """Two critical alerts of one target come as one notification; those of another target as another."""
    paging = [alert for alert in ALERTS if severities()[alert] == "critical" and "target" in shapes()[alert][0]]
    made = [
        {**labelled(alert, shapes()[alert][0], 0), "job": "grouped", "target": target}
        for alert in paging
        for target in ("here", "there")
    ]
    alertmanager.post(made)

    def groups() -> list[tuple[dict[str, str], set[str]]]:
        return [
            (group["labels"], {alert["labels"]["alertname"] for alert in group["alerts"]})
            for group in alertmanager.groups()
            if group["receiver"]["name"] == "tde-pager" and group["labels"].get("job") == "grouped"
        ]

    until(lambda: sum(len(names) for _, names in groups()) == len(made), "all alerts to be grouped")
    assert sorted(labels["target"] for labels, _ in groups()) == ["here", "there"]
