"""`selftest` as an operator types it."""

import json

import pytest

from exporter.domain.model import TargetFacts
from exporter.engines.base import StatementOutcome, Verdict
from exporter.selftest import SelfTest, selftest_dict, selftest_text
from tests.command_line import CommandLine, assert_one_line

FACTS = TargetFacts("oracle", "19.24.0.0.0", role="primary", open_mode="read_write")
FINE = StatementOutcome("a.fine", "canary", ("READ ON T",), Verdict.OK, "", 0.0012, 3)
MISSING = StatementOutcome("b.missing", "keys", ("READ ON SYS.V_$KEYS",), Verdict.MISSING_GRANT, "ORA-00942")
OLD = StatementOutcome("c.old", "keys", (), Verdict.NOT_THERE, "ORA-00904", words="no such column")
BROKEN = StatementOutcome("d.broken", "keys", (), Verdict.ERROR, "ORA-00600", words="an internal error")
LEFT = StatementOutcome("e.left", "provision", (), Verdict.NOT_TRIED, words="only `provision` sends it")


@pytest.fixture
def scripted(tmp_path):
    tde = CommandLine(tmp_path)

    def run(*arguments, **more):
        return tde("-c", tde.config({"targets": [{"name": "scripted", "engine": "fake", **more}]}), *arguments)

    return run


def found(*outcomes):
    return SelfTest("oracle", FACTS, (("oracledb", "26.1.0"),), outcomes)


def test_a_table_of_what_was_tried_and_words_for_the_rest():
    text = selftest_text(found(FINE, MISSING, OLD, BROKEN, LEFT))
    lines = text.splitlines()
    assert "oracledb 26.1.0" in lines[0]
    assert lines[1] == "oracle 19.24.0.0.0, primary read_write"
    rows = {line.split()[0]: line for line in lines[3:] if line}
    assert "ok" in rows["a.fine"]
    assert "1.20\u00a0ms" in rows["a.fine"]
    assert "missing grant  ORA-00942" in rows["b.missing"]
    assert rows["b.missing"].endswith("READ ON SYS.V_$KEYS")
    assert "d.broken: an internal error" in text
    assert "Not tried, for only `provision` sends it: e.left" in text
    assert lines[-1] == "1 ok, 1 missing grant, 1 not there, 1 error, 1 not tried"


@pytest.mark.parametrize(
    ("outcomes", "passed"),
    [((FINE,), True), ((FINE, OLD, LEFT), True), ((FINE, MISSING), False), ((FINE, BROKEN), False)],
)
def test_what_is_not_there_is_no_failure(outcomes, passed):
    assert found(*outcomes).passed is passed
    assert selftest_dict(found(*outcomes))["passed"] is passed


def test_the_same_for_programs():
    told = selftest_dict(found(FINE, MISSING))
    assert (told["kind"], told["engine"], told["server_version"], told["drivers"]) == (
        "selftest",
        "oracle",
        "19.24.0.0.0",
        {"oracledb": "26.1.0"},
    )
    assert told["statements"][1] == {
        "statement": "b.missing",
        "collector": "keys",
        "grants": ["READ ON SYS.V_$KEYS"],
        "outcome": "missing grant",
        "code": "ORA-00942",
        "seconds": None,
        "rows": None,
        "words": "",
    }


def test_the_command_prints_a_table_and_says_by_its_code_whether_all_is_well(scripted):
    done = scripted("selftest", "scripted")
    assert done.returncode == 0
    assert "script.read_a  canary" in done.stdout
    assert done.stdout.rstrip().endswith("2 ok")

    done = scripted("selftest", "--json", b={"encrypted": None})
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert [each["outcome"] for each in told["statements"]] == ["ok", "missing grant"]


def test_an_engine_without_a_list_says_so(tmp_path):
    tde = CommandLine(tmp_path)
    assert_one_line(tde("selftest"), "unsupported")


def test_a_database_that_fails_is_one_line(scripted):
    fault = {"kind": "error", "call": "selftest", "reason": "unavailable"}
    assert_one_line(scripted("selftest", faults=[fault]), "unavailable")
