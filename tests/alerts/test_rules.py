"""The alert rules: sound on both ends of what is supported, tested one by one, true to the catalogue, and readable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from exporter.bundle import alerts
from exporter.bundle.alerts import Thresholds
from exporter.exposition.catalogue import CATALOGUE
from tests.alerts.promtool import RULES, VERSIONS, expanded, promtool, rules, seconds

TESTS = sorted((RULES / "tests").glob("*.yml"))
ALERTS = {rule["alert"]: rule for rule in rules(alerts.ALERTS)}
RECORDS = {rule["record"]: rule["expr"] for rule in rules(alerts.RECORDING)}

INFRASTRUCTURE = {"job", "instance", "pod"}
FOREIGN = {"up": set(), "node_cpu_seconds_total": {"cpu", "mode", "target"}}


def _cases() -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
    for path in TESTS:
        document = yaml.safe_load(path.read_text())
        for group in document["tests"]:
            for case in group.get("alert_rule_test", ()):
                yield path, {**group, "evaluation_interval": document["evaluation_interval"]}, case


CASES = list(_cases())


def test_committed_rules_are_the_default_rendering() -> None:
    for name, content in alerts.files().items():
        assert (RULES / name).read_text() == content, "run python tools/generate_references.py --write"


@pytest.mark.parametrize("version", VERSIONS)
def test_promtool_finds_no_fault(version: str) -> None:
    ran = promtool(
        version, "check", "rules", "--lint=all", "--lint-fatal", *(str(RULES / name) for name in alerts.files())
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


RUNS = [
    # What takes days to be told is told in the same language as all else: the oldest Prometheus knows it from there.
    pytest.param(
        version,
        path,
        id=f"{version}-{path.stem}",
        marks=[pytest.mark.long] if version == "oldest" and path.stem.endswith("_slow") else [],
    )
    for version in VERSIONS
    for path in TESTS
]


@pytest.mark.parametrize(("version", "path"), RUNS)
def test_unit_tests_pass(version: str, path: Path) -> None:
    ran = promtool(version, "test", "rules", str(path))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_unit_tests_can_fail(tmp_path: Path) -> None:
    text = (RULES / "tests" / "standby.yml").read_text().replace("../tde", f"{RULES}/tde")
    (tmp_path / "wrong.yml").write_text(text.replace("is 3m 20s behind", "is 4m 20s behind"))
    assert promtool("newest", "test", "rules", str(tmp_path / "wrong.yml")).returncode == 1


def test_groups_are_evaluated_in_the_order_of_the_files() -> None:
    values = Thresholds()
    order = [group.name for group in (*alerts.recording_groups(values), *alerts.alert_groups(values))]
    assert {path.name: yaml.safe_load(path.read_text())["group_eval_order"] for path in TESTS} == {
        path.name: order for path in TESTS
    }


def test_every_alert_has_a_test_that_fires_and_one_that_is_silent() -> None:
    firing = {case["alertname"] for _, _, case in CASES if case["exp_alerts"]}
    silent = {case["alertname"] for _, _, case in CASES if not case["exp_alerts"]}
    assert firing == set(ALERTS)
    assert silent == set(ALERTS) - {"TDEWatchdog"}


def test_every_alert_but_the_lasting_ones_is_seen_to_end() -> None:
    fired, ended = set(), set()
    for _, group, case in sorted(CASES, key=lambda entry: seconds(entry[2]["eval_time"])):
        key = (group["name"], case["alertname"])
        if case["exp_alerts"]:
            fired.add(key)
        elif key in fired:
            ended.add(case["alertname"])
    # That old keys are forgotten after a rotation is asked of ALERTS in the same file.
    assert set(ALERTS) - ended == {"TDEWatchdog", "TDEMasterKeyTooOld", "TDEMasterKeyRotationDue"}


# -- what disturbs every alert alike ---------------------------------------------------------------------


def _firing() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The first case of each alert that fires, with its group."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for _, group, case in CASES:
        if case["exp_alerts"]:
            found.setdefault(case["alertname"], (group, case))
    return found


def _needed(expr: str) -> list[dict[str, str]]:
    """The recording rules that an expression reads, those first that others read."""
    found: list[dict[str, str]] = []
    for name, own in RECORDS.items():
        if name in expr:
            found += [one for one in _needed(own) if one not in found] + [{"record": name, "expr": own}]
    return found


def _disturbed(folder: Path, alert: str, disturb: Any, asked: list[dict[str, Any]]) -> str:
    """Run the firing case of an alert with other samples; what promtool says, empty when it is content."""
    group, _ = _firing()[alert]
    rule = ALERTS[alert]
    found = [
        *_needed(rule["expr"]),
        {key: rule[key] for key in ("alert", "expr", "for", "keep_firing_for") if key in rule},
    ]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": found}]}))
    inputs = [{**one, "values": " ".join(disturb(expanded(one["values"])))} for one in group["input_series"]]
    test = {"interval": group["interval"], "input_series": inputs, "promql_expr_test": asked}
    document = {"rule_files": ["rules.yml"], "evaluation_interval": group["evaluation_interval"], "tests": [test]}
    (folder / "test.yml").write_text(yaml.safe_dump(document))
    ran = promtool("newest", "test", "rules", str(folder / "test.yml"))
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def _asks(alert: str, at: float, number: int) -> dict[str, Any]:
    expr = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}} and ALERTS{{alertname="{alert}"}} == 1)'
    return {
        "expr": expr,
        "eval_time": f"{at:.0f}s",
        "exp_samples": [{"labels": "{}", "value": number}] if number else [],
    }


def _times(alert: str) -> tuple[float, float, int]:
    """When the alert fires in its test, the time between its samples, and how many alerts there are."""
    group, case = _firing()[alert]
    return seconds(case["eval_time"]), seconds(group["interval"]), len(case["exp_alerts"])


@pytest.mark.parametrize("alert", [name for name in ALERTS if name not in ("TDEWatchdog", "TDEExporterAbsent")])
def test_what_is_not_a_number_wakes_nobody(alert: str, tmp_path: Path) -> None:
    fires, _, _ = _times(alert)
    asked = [_asks(alert, fires, 0)]
    assert (
        _disturbed(tmp_path, alert, lambda values: ["NaN" if one[0] in "-0123456789" else one for one in values], asked)
        == ""
    )


@pytest.mark.parametrize("alert", [name for name in ALERTS if name not in ("TDEWatchdog", "TDEExporterAbsent")])
def test_what_is_gone_from_the_page_ends_its_alert(alert: str, tmp_path: Path) -> None:
    fires, step, number = _times(alert)

    def removed(values: list[str]) -> list[str]:
        return [*values[: int(fires // step) + 1], "stale"]

    asked = [_asks(alert, fires, number), _asks(alert, fires + 8 * 3600, 0)]
    assert _disturbed(tmp_path, alert, removed, asked) == ""


KEPT = [
    name for name in ALERTS if name not in ("TDEWatchdog", "TDEExporterAbsent", "TDEExporterDown", "TDETargetMissing")
]


@pytest.mark.parametrize("alert", KEPT)
def test_a_restart_of_the_exporter_does_not_end_an_alert(alert: str, tmp_path: Path) -> None:
    fires, step, number = _times(alert)
    place = int(fires // step)

    def restarted(values: list[str]) -> list[str]:
        seen = [one for one in values[: place + 1] if one not in ("_", "stale")]
        # A counter that begins anew grows as it grew before; all else is as it was.
        return [*values[: place + 1], "stale", *[seen[-1] if seen else "_"] * 20]

    evaluated = seconds(_firing()[alert][0]["evaluation_interval"])
    asked = [_asks(alert, (fires // evaluated + part) * evaluated, number) for part in range(1, 7)]
    assert _disturbed(tmp_path, alert, restarted, asked) == ""


# -- what the rules say ----------------------------------------------------------------------------------


def _selectors(node: Any) -> Iterator[Any]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if (child := getattr(node, name, None)) is not None:
            yield from _selectors(child)
    for child in getattr(node, "args", None) or ():
        yield from _selectors(child)


def _grouped(node: Any) -> Iterator[str]:
    """Every label named in by, without, on, ignoring and group_left."""
    modifier = getattr(node, "modifier", None)
    for part in (modifier, getattr(modifier, "matching", None), getattr(modifier, "group_labels", None)):
        yield from getattr(part, "labels", part if isinstance(part, list) else None) or ()
    for name in ("expr", "lhs", "rhs"):
        if (child := getattr(node, name, None)) is not None:
            yield from _grouped(child)
    for child in getattr(node, "args", None) or ():
        yield from _grouped(child)


EXPRESSIONS = {**{name: rule["expr"] for name, rule in ALERTS.items()}, **RECORDS}


def unknown(expr: str) -> set[str]:
    """Metrics and labels of an expression that nothing exposes."""
    parsed = promql_parser.parse(expr)
    found = set()
    for selector in _selectors(parsed):
        if selector.name in RECORDS:
            allowed = {label for metric in CATALOGUE.values() for label in metric.labels}
        elif selector.name in FOREIGN:
            allowed = FOREIGN[selector.name]
        elif selector.name in CATALOGUE:
            allowed = set(CATALOGUE[selector.name].labels)
        else:
            found.add(selector.name)
            continue
        found |= {
            f"{selector.name}{{{one.name}}}"
            for one in selector.matchers.matchers
            if one.name not in allowed | INFRASTRUCTURE
        }
    known = {label for metric in CATALOGUE.values() for label in metric.labels} | INFRASTRUCTURE
    return found | set(_grouped(parsed)) - known


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_metrics_and_labels_exist(name: str) -> None:
    assert unknown(EXPRESSIONS[name]) == set()


def test_what_does_not_exist_is_found() -> None:
    assert unknown("tde_nothing > 0") == {"tde_nothing"}
    assert unknown('sum by (shoe) (rate(tde_canary_runs_total{quantile="0.99"}[5m]))') == {
        "shoe",
        "tde_canary_runs_total{quantile}",
    }
    assert unknown("tde_target_up * on (hat) group_left (coat) tde_target_info") == {"hat", "coat"}
    assert unknown("max_over_time(max without (sock) (tde_gone)[1d:5m])") == {"tde_gone", "sock"}


def test_metrics_in_texts_exist() -> None:
    said = {
        name
        for rule in ALERTS.values()
        for text in rule["annotations"].values()
        for name in re.findall(r"tde_\w+", text)
    }
    assert len(said) > 8
    assert said <= set(CATALOGUE)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_what_is_needed(alert: str) -> None:
    rule = ALERTS[alert]
    assert set(rule["labels"]) == {"severity", "component"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info", "none"}
    assert "{{" not in "".join(rule["labels"].values())
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert rule["annotations"]["runbook_url"].endswith(f"/{alert}.md")
    assert re.search(r"/d/tde-(fleet|target|enablement|exporter)(\?|$)", rule["annotations"]["dashboard_url"])


def test_texts_are_short_and_in_words() -> None:
    for _, _, case in CASES:
        for fired in case["exp_alerts"]:
            texts = fired["exp_annotations"]
            sentences = re.split(r"(?<=[.!?]) +(?=[A-Z`])", texts["description"])
            assert len(sentences) <= 3, texts["description"]
            assert len(texts["summary"]) <= 130, texts["summary"]
            assert len(texts["description"]) <= 520, texts["description"]
            assert not re.search(
                r"\d{6}|e[+-]\d|NaN|Inf|<no value>|%!",
                texts["summary"] + texts["description"],
            )


def test_at_most_eight_alerts_call_somebody() -> None:
    severities = Counter(rule["labels"]["severity"] for rule in ALERTS.values())
    assert severities["critical"] == 8
    assert severities["none"] == 1


def test_overhead_is_decided_by_the_exporter() -> None:
    for name, rule in ALERTS.items():
        if name.startswith("TDEOverheadHigh") or name == "TDEOverheadCritical":
            assert {selector.name for selector in _selectors(promql_parser.parse(rule["expr"]))} == {
                "tde_overhead_breach"
            }


def test_what_is_waited_for_and_counted_follows_the_scale() -> None:
    fast = alerts.files(Thresholds(divisor=60))
    fors = [
        rule["for"]
        for group in yaml.safe_load(fast[alerts.ALERTS])["groups"]
        for rule in group["rules"]
        if "for" in rule
    ]
    assert "5s" in fors
    assert max(map(seconds, fors)) <= 60
    expr = next(
        rule["expr"]
        for group in yaml.safe_load(fast[alerts.ALERTS])["groups"]
        for rule in group["rules"]
        if rule["alert"] == "TDECanaryStale"
    )
    assert "clamp(3 * target_pair_operation_variant:tde_canary_interval:seconds, 15, 1440)" in expr
