"""The runbooks: one for each alert, complete, with links that lead somewhere and statements that run and do no harm."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pymysql
import pytest
import yaml

from exporter.bundle.alerts import SETTINGS, with_settings
from exporter.cli import _parser as parser
from exporter.exposition import catalogue
from tests.engines.test_forbidden_sql import FREE, HARM, LICENSED, strip_literals
from tests.servers.server import StartFailed

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "runbooks"
OVERVIEW = ROOT / "docs" / "alerts.md"
PAGES = sorted(FOLDER.glob("*.md"))
SECTIONS = ["Meaning", "Impact", "First three checks", "Usual false causes", "How to tune"]

ALSO_FREE = {"V$SESSION", "V$SESSION_LONGOPS", "V$INSTANCE", "DBA_OBJECTS", "USER_TAB_PRIVS_RECD"}
"""Views that a person looks at and the exporter does not; no option or pack is needed for them."""
READS = re.compile(r"SELECT\b|SHOW (?:GLOBAL |ALL |BINARY |MASTER |SLAVE |REPLICA|GRANTS)")


@cache
def rules() -> dict[str, dict]:
    groups = yaml.safe_load((ROOT / "alerts" / "tde-alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def blocks(page: Path, words: str) -> list[str]:
    """Fenced blocks of a page, by what stands behind the fence."""
    return re.findall(rf"^```{re.escape(words)}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def statements(*words: str) -> Iterator[tuple[str, str]]:
    """(alert, statement), without its end."""
    for page in PAGES:
        for block in (block for each in words for block in blocks(page, each)):
            for statement in re.split(r"(?:;|\\G)\s*(?:\n|$)", block):
                if statement.strip():
                    yield page.stem, " ".join(statement.split())


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_there_is_a_page_for_each_alert_and_none_besides():
    assert [page.stem for page in PAGES] == sorted(rules())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_all_that_belongs_to_it(page):
    text = page.read_text()
    labels = rules()[page.stem]["labels"]
    assert text.startswith(f"# {page.stem}\n\n*Severity `{labels['severity']}`: ")
    assert f"Component `{labels['component']}`." in text
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    checks = text.split("## First three checks")[1].split("## Usual false causes")[0]
    parts = re.split(r"^### ", checks, flags=re.MULTILINE)[1:]
    assert [part[:3] for part in parts] == ["1. ", "2. ", "3. "]
    assert all("```" in part or "`tde-exporter" in part for part in parts), "a check without a command"
    for part in re.split(r"^#+ .+$", text, flags=re.MULTILINE)[1:]:
        assert part.strip() or "## First three" in text


@pytest.mark.parametrize("page", [*PAGES, OVERVIEW], ids=lambda page: page.stem)
def test_links_lead_to_pages_and_headings_that_are_there(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


@pytest.mark.parametrize("page", [*PAGES, OVERVIEW], ids=lambda page: page.stem)
def test_alerts_that_a_page_names_exist(page):
    assert set(re.findall(r"\bTDE[A-Z]\w+", page.read_text())) <= set(rules())


def test_the_rules_link_to_the_pages():
    for alert, rule in rules().items():
        assert (ROOT / rule["annotations"]["runbook_url"]).is_file(), alert


@pytest.mark.parametrize("page", [*PAGES, OVERVIEW], ids=lambda page: page.stem)
def test_metrics_that_a_page_names_exist(page):
    named = set(re.findall(r"(?<![\w./])tde_[a-z0-9_]+", page.read_text()))
    named -= {"tde_canary", "tde_exporter"}  # a schema, an account
    assert [name for name in sorted(named) if name not in catalogue.CATALOGUE] == []


@pytest.mark.parametrize("page", [*PAGES, OVERVIEW], ids=lambda page: page.stem)
def test_what_a_page_sets_can_be_set(page):
    text = page.read_text()
    for name, value in re.findall(r"--set ([a-z_]+)=([^\s`,;]+)", text):
        assert name in SETTINGS
        if value != "NAME":
            texts = [f"{name}={value}"] + [f"{a}={b}" for a, b in re.findall(r"--set (key_age\w+)=(\d+)", text)]
            with_settings(texts)


@pytest.mark.parametrize("page", [*PAGES, OVERVIEW], ids=lambda page: page.stem)
def test_commands_of_the_exporter_exist(page):
    shown = [line for kind in ("sh", "sh embedded") for block in blocks(page, kind) for line in block.splitlines()]
    shown += re.findall(r"`(tde-exporter [^`]+)`", " ".join(page.read_text().split()))
    shown += re.findall(r"^    (tde-exporter .+)$", page.read_text().replace("\\\n", ""), re.MULTILINE)
    for line in shown:
        if line.startswith("tde-exporter "):
            words = shlex.split(line.partition("|")[0].replace("DIR", "dir"), comments=True)[1:]
            with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
                assert parser().parse_args(words).command
            assert not said.getvalue(), line


def test_the_configuration_of_prometheus_that_is_shown_is_sound(tmp_path, promtool):
    shown = re.findall(r"```yaml\n(.*?)```", OVERVIEW.read_text(), re.DOTALL)
    (block,) = [block for block in shown if "rule_files" in block]
    (tmp_path / "prometheus.yml").write_text(block)
    for name in yaml.safe_load(block)["rule_files"]:
        shutil.copy(ROOT / "alerts" / name, tmp_path / name)
    command = [str(promtool), "check", "config", str(tmp_path / "prometheus.yml")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(rules())} rules found" in ran.stdout


# -- statements ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_advises_no_harm(page):
    """Nothing is written, and MariaDB's advice to drop a table whose key is missing is not repeated."""
    kinds = set(re.findall(r"^```(\S.*)$", page.read_text(), re.MULTILINE))
    assert kinds <= {
        "sh",
        "sh embedded",
        "sql oracle",
        *(f"sql {name}{at}" for name in ("mariadb", "mysql") for at in ("", " replica")),
    }
    for name in sorted(kinds - {"sh", "sh embedded"}):
        for alert, statement in statements(name):
            if alert == page.stem:
                assert READS.match(statement), statement
                assert not HARM.search(strip_literals(statement)), statement
    said = " ".join(page.read_text().split())
    assert re.findall(r"(?<!no )(?<!no table, )\bdrop (?:the )?table\b", said, re.IGNORECASE) == []
    assert not re.search(r"\brm -|\bmkfs|>\s*/(?!dev/null)|kill -9|RELOAD KEYRING|ROTATE INNODB", said)


def test_oracle_is_asked_nothing_that_is_licensed_apart():
    asked = list(statements("sql oracle"))
    assert len(asked) > 30
    for alert, statement in asked:
        sql = strip_literals(statement).upper()
        assert not LICENSED.search(sql), f"{alert}: {statement}"
        views = set(re.findall(r"\b(?:G?V\$|X\$|DBA_|CDB_|ALL_|USER_)[A-Z0-9_$]+", sql))
        assert views, statement
        assert views <= FREE | ALSO_FREE, f"{alert}: {statement}"


def test_each_command_for_the_embedded_engine_runs(tmp_path):
    """In the folder of a real target; whether its standby runs is not asked, for there is no daemon here."""
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: embedded, engine: sqlite, pairs: [{name: phonebook, rows: 2000}]}]"
    )
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TDE_EXPORTER_CONFIG": str(tmp_path / "targets.yaml"),
        "TDE_EXPORTER_STATE_DIRECTORY": str(tmp_path / "state"),
    }
    lines = dict.fromkeys(
        line for page in PAGES for block in blocks(page, "sh embedded") for line in block.splitlines()
    )
    assert len(lines) > 5
    script = ["set -euo pipefail", "tde-exporter provision embedded"]
    script += ["touch state/targets/embedded/standby.local.db"]
    script += [line for line in lines if not line.startswith("pgrep")]
    text = "\n".join(script).replace("/var/lib/tde-exporter", str(tmp_path / "state")).replace("TARGET", "embedded")
    ran = subprocess.run(
        ["bash", "-c", text], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "phonebook.plain.db: SQLite format 3\n" in ran.stdout
    assert "phonebook.encrypted.db: SQLite" not in ran.stdout
    assert "key: 65 bytes, mode 600" in ran.stdout


@pytest.fixture
def asked_of():
    """Runs statements on a server of its own, with the exporter's schema, and says which failed."""

    def run(server, encrypted: str, found: list[tuple[str, str]]) -> list[str]:
        server.query("CREATE DATABASE tde_canary")
        server.query(f"CREATE TABLE tde_canary.main_encrypted (id INT PRIMARY KEY) {encrypted}")
        for name in ("main_plain", "heartbeat"):
            server.query(f"CREATE TABLE tde_canary.{name} (id INT PRIMARY KEY)")
        server.query("CREATE USER tde_exporter")
        failed = []
        for statement in dict.fromkeys(statement for _, statement in found):
            try:
                server.query(statement)
            except pymysql.Error as error:
                failed.append(f"{statement}: {error}, in {[alert for alert, same in found if same == statement]}")
        return failed

    return run


@pytest.mark.parametrize("version", ["10.11", "11.8"])
def test_each_statement_for_mariadb_runs(version, asked_of, make_mariadb):
    found = list(statements("sql mariadb", "sql mariadb replica"))
    assert len(found) > 20
    assert asked_of(make_mariadb(version, binlog=True), "ENCRYPTED=YES", found) == []


def test_each_statement_for_mysql_runs(make_mysql, asked_of):
    found = list(statements("sql mysql", "sql mysql replica"))
    assert len(found) > 20
    assert asked_of(make_mysql(binlog=True), "ENCRYPTION='Y'", found) == []


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_server_without_its_key_says_what_the_page_quotes(kind, make_mariadb, make_mysql):
    """Of one whose redo log is encrypted, and which does not start; and the command of the page finds the words."""
    check = (FOLDER / "TDETargetDown.md").read_text().split("### 3.")[1]
    quoted = re.findall(r"`([^`]{20,})`", " ".join(check.split("```")[0].split()))
    (pattern,) = re.findall(r"grep -i -E '(\S+)'", check)
    server = make_mysql(encrypt_redo=True) if kind == "mysql" else make_mariadb(encrypt_redo=True)
    if kind == "mysql":
        server.query("CREATE TABLE test.needs_a_key (id INT PRIMARY KEY) ENCRYPTION='Y'")
    server.stop()
    server.remove_key()
    before = server.error_log.stat().st_size
    with pytest.raises(StartFailed):
        server.start()
    found = [line for line in server.log(before).splitlines() if re.search(pattern, line, re.IGNORECASE)]
    assert any(words in line for words in quoted for line in found), found


# -- the overview --------------------------------------------------------------------------------------


def rows_of(section: str) -> set[str]:
    """Alerts in the table of a section of the overview."""
    text = re.split(rf"^## {section}$", OVERVIEW.read_text(), flags=re.MULTILINE)[1].split("\n## ")[0]
    return set(re.findall(r"^\| \[(TDE\w+)\]", text, re.MULTILINE))


def test_at_most_eight_alerts_call_somebody_and_the_overview_says_which():
    calls = {alert for alert, rule in rules().items() if rule["labels"]["severity"] == "critical"}
    assert len(calls) <= 8
    assert rows_of("Which alerts call somebody, and why") == calls


def test_the_overview_has_all_others():
    others = {alert for alert, rule in rules().items() if rule["labels"]["severity"] != "critical"}
    assert rows_of("All others") == others
