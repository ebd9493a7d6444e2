"""T15: what a daemon really shows while little or nothing is known is held against the rules: nobody is called about a cost.

Of days of measurements, with and without a cost, `tests/alerts/test_replay.py` tells.

ARO-HCP#6449, prometheus#13221, sourcegraph#9834 #14401
"""

import pytest
import yaml

from tests.alerts.promtool import RULES, promtool
from tests.daemons import Page
from tests.watched import settings

STEP, LASTS = 300, 2 * 86400
PLACE = 'job="tde-exporter",instance="a:10161"'
CALLED = 'count(max_over_time(ALERTS{component="overhead",alertstate="firing",severity=~"critical|warning"}[3d]))'


def held_against_the_rules(folder, pages, asked):
    """Show each page as long as the others, two days in all, and ask; what promtool has against the answers."""
    steps = LASTS // STEP // len(pages)
    series: dict[str, list[str]] = {}
    for place, page in enumerate(pages):
        for (name, labels), value in page.samples.items():
            inner = ",".join([PLACE, *(f'{key}="{text}"' for key, text in sorted(labels))])
            shown = series.setdefault(f"{name}{{{inner}}}", ["_" + f"x{place * steps}"] if place else [])
            shown.append(f"{value:g}x{steps - 1}".replace("inf", "Inf").replace("nan", "NaN"))
    ups = " ".join(f"{int(page is not DOWN)}x{steps - 1}" for page in pages)
    document = {
        "rule_files": [str(RULES / "tde-alerts.yml")],
        "evaluation_interval": f"{STEP}s",
        "tests": [
            {
                "interval": f"{STEP}s",
                "input_series": [
                    {"series": f"up{{{PLACE}}}", "values": ups},
                    *({"series": name, "values": " ".join(values)} for name, values in series.items()),
                ],
                "promql_expr_test": [
                    {
                        "expr": expression,
                        "eval_time": f"{(steps * len(pages) - 1) * STEP}s",
                        "exp_samples": [] if number is None else [{"labels": "{}", "value": number}],
                    }
                    for expression, number in asked
                ],
            }
        ],
    }
    path = folder / "alerts.yml"
    path.write_text(yaml.safe_dump(document))
    ran = promtool("newest", "test", "rules", str(path))
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


DOWN = Page("")


def fake(name, **more):
    common = {"engine": "fake", "intervals": {"canary": "1s", "encryption_state": "1s"}, "operations": ["point_select"]}
    return common | {"name": name, "budgets": {"time_share_ratio": 1.0}} | more


def fires(alert):
    return f'count(max_over_time(ALERTS{{alertname="{alert}",alertstate="firing"}}[3d])) > bool 0'


@pytest.mark.long
def test_little_is_known_and_nobody_is_called_about_a_cost(daemon, tmp_path):
    encrypted, plain = {"encrypted": True, "latency": "9ms", "decrypts": 1}, {"encrypted": False, "latency": "1ms"}
    exporter = daemon(
        settings(
            # Nine times as slow, but only five samples of it.
            fake("few", a=encrypted, b=plain, intervals={"canary": "1h", "encryption_state": "1s"}),
            fake("missing-twin", a=encrypted, b=plain, faults=[{"kind": "error", "call": "verify"}]),
            fake("other-data", a=encrypted, b=plain | {"digest": "other"}),
            fake("dead", a=encrypted, b=plain, faults=[{"kind": "error", "call": "open", "reason": "connect"}]),
            fake("both-hang", a=encrypted, b=plain, faults=[{"kind": "hang", "call": "run"}]),
        )
    )
    exporter.start().serving()
    exporter.until(lambda: exporter.value("tde_target_up", target="few") == 1, "few")
    exporter.until(lambda: exporter.value("tde_pair_valid", target="other-data") == 0, "other data")
    exporter.until(lambda: "scripted error of verify" in exporter.get("/").text, "a verification that fails")
    exporter.until(lambda: exporter.total("tde_canary_run_failures_total", target="both-hang") >= 2, "timeouts")
    page = exporter.page()
    assert page.total("tde_overhead_breach") == 0
    assert not [name for name, _ in page.samples if name == "tde_overhead_ratio"]
    assert held_against_the_rules(tmp_path, [page], [(CALLED, None), (fires("TDETargetDown"), 1.0)]) == ""

    # A restart sets the counters to 0 again; an exporter that is gone is a thing of its own.
    exporter.stop()
    exporter.start().serving()
    exporter.until(lambda: exporter.value("tde_pair_valid", target="other-data") == 0, "the same again")
    asked = [(CALLED, None), (fires("TDEExporterDown"), 1.0)]
    assert held_against_the_rules(tmp_path, [page, DOWN, exporter.page()], asked) == ""


def test_it_would_have_shown_an_alert(tmp_path):
    breach = (
        'tde_overhead_breach{target="few",engine="fake",pair="main",operation="point_select",percentile="50",'
        'reference="plain",threshold="2.0"} 1\n'
    )
    assert (
        held_against_the_rules(tmp_path, [Page("# TYPE tde_overhead_breach gauge\n" + breach)], [(CALLED, 1.0)]) == ""
    )
    assert held_against_the_rules(tmp_path, [Page("# TYPE tde_overhead_breach gauge\n" + breach)], [(CALLED, None)])
