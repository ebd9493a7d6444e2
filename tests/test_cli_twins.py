"""provision, verify and drop as an operator types them, on the embedded and the scripted engine."""

import fcntl
import json
import signal
from pathlib import Path

import pytest

from exporter.domain.model import PairFacts, Phase, Slot, TwinFacts
from exporter.engines import registry
from exporter.engines.fake.settings import Target as FakeTarget
from exporter.engines.mysql.settings import Target as MySqlTarget
from exporter.engines.sqlite.settings import Target as SqliteTarget
from exporter.twin_commands import hint
from tests.command_line import CommandLine, assert_one_line

PAIRS = [{"name": "phonebook", "rows": 1000}, {"name": "second", "rows": 1000}]
TWO_PAIRS = {"targets": [{"name": "embedded", "engine": "sqlite", "pairs": PAIRS}]}


@pytest.fixture
def tde(tmp_path):
    return CommandLine(tmp_path)


@pytest.fixture
def embedded(tde):
    """Runs a command on two embedded pairs that have not been made yet."""
    path = tde.config(TWO_PAIRS)
    return lambda *arguments: tde("-c", path, *arguments)


@pytest.fixture
def folder(tde):
    return tde.state / "targets" / "embedded"


def make(folder, *chosen):
    """Make the twins of these pairs, of all without any, as a run before would have."""
    target = SqliteTarget(name="embedded", pairs=PAIRS, directory=folder).resolved(folder)
    session = registry.make(target).open(5.0)
    for pair in target.pairs:
        if not chosen or pair.name in chosen:
            session.provision(pair, lambda _what, _share: None, 30.0)
    session.close()


@pytest.fixture
def names(folder):
    return {
        pair["name"]: [str(folder / f"{pair['name']}.{side}.db") for side in ("encrypted", "plain")] for pair in PAIRS
    }


def scripted(tde, *arguments, **more):
    return tde("-c", tde.config({"targets": [{"name": "scripted", "engine": "fake", **more}]}), *arguments)


def test_provision_names_what_it_made_and_the_second_time_there_is_nothing_to_do(embedded, names):
    first, second = embedded("provision"), embedded("provision")

    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines() == [f"pair {pair}: made {name}" for pair in names for name in names[pair]]
    assert "building the encrypted twin of phonebook" in first.stderr
    assert "\x1b" not in first.stderr
    assert second.returncode == 0
    assert second.stdout.splitlines() == [f"pair {pair}: nothing to do, the twins are there" for pair in names]
    assert second.stderr == ""


def test_provision_says_that_what_is_there_cannot_be_used(embedded, names, folder):
    make(folder)
    with Path(names["second"][1]).open("r+b") as plain:
        plain.seek(4096)
        plain.write(b"\xff" * 8192)
    done = embedded("provision", "--pair", "second")

    assert_one_line(done, "embedded")
    assert embedded("provision", "--pair", "phonebook").returncode == 0


def test_one_pair_alone(embedded, names, folder):
    made = embedded("provision", "embedded", "--pair", "second")

    assert made.stdout.splitlines() == [f"pair second: made {name}" for name in names["second"]]
    assert sorted(str(path) for path in folder.glob("*.db")) == names["second"]
    for command in ("provision", "drop"):
        assert_one_line(embedded(command, "--pair", "third", *["--yes"] * (command == "drop")), "phonebook, second")


def test_verify_shows_what_the_twins_are(embedded, folder):
    make(folder)
    done = embedded("verify")

    assert done.returncode == 0, done.stderr
    rows = {line.split()[1].rsplit("/", 1)[-1]: line.split()[2:] for line in done.stdout.splitlines() if ".db" in line}
    assert rows["phonebook.encrypted.db"][:2] == ["yes", "aes256cbc"]
    assert rows["second.plain.db"][0] == "no"
    assert "Pair phonebook is valid." in done.stdout
    assert "Pair second is valid." in done.stdout
    assert ["key", "open", "file"] in [line.split()[:3] for line in done.stdout.splitlines()]
    assert ["database", "encrypted", "2", "–"] in [line.split() for line in done.stdout.splitlines()]


def test_verify_fails_when_one_pair_is_not_valid_and_what_is_unknown_is_no_zero(embedded, folder):
    make(folder, "phonebook")
    done = embedded("verify")
    found = json.loads(embedded("verify", "--json").stdout)

    assert done.returncode == 1
    assert done.stderr == ""
    line = next(line for line in done.stdout.splitlines() if line.startswith("second") and "plain.db" in line)
    assert line.split()[2:] == ["–"] * 4
    assert "Pair phonebook is valid." in done.stdout
    assert sum("is not valid" in line and "is missing" in line for line in done.stdout.splitlines()) == 2
    assert found["valid"] is False
    assert [pair["valid"] for pair in found["pairs"]] == [True, False]
    assert found["pairs"][1]["twins"][0]["rows"] is None
    assert found["objects"][0] == {"kind": "database", "state": "encrypted", "objects": 1, "bytes": None}


def test_a_pair_that_cannot_be_verified_and_a_state_that_cannot_be_read_hide_nothing_else(tde):
    pairs = [{"name": "first"}, {"name": "second"}]
    faults = [
        {"kind": "error", "call": "verify", "last": 1, "reason": "lock_timeout"},
        {"kind": "error", "call": "encryption_state", "reason": "permission"},
    ]
    done = scripted(tde, "verify", pairs=pairs, faults=faults)
    found = json.loads(scripted(tde, "verify", "--json", pairs=pairs, faults=faults).stdout)

    assert done.returncode == 1
    assert "Pair first is not valid: scripted error of verify (lock_timeout)" in done.stdout
    assert "Pair second is valid." in done.stdout
    assert "could not be read: scripted error of encryption_state (permission)" in done.stdout
    assert found["keystores"] is None
    assert found["objects"] is None
    assert found["problems"] == ["scripted error of encryption_state (permission)"]


@pytest.mark.parametrize("command", [("provision",), ("verify",), ("drop", "--yes")])
def test_a_database_that_does_not_answer_is_one_line(tde, command):
    done = scripted(tde, *command, faults=[{"kind": "error", "call": "open", "reason": "auth"}])

    assert_one_line(done, "target scripted: scripted error of open (auth)")


@pytest.mark.parametrize("command", [("provision",), ("verify",), ("drop", "--yes")])
def test_a_target_without_pairs_is_an_error_and_no_success(tde, command):
    assert_one_line(scripted(tde, *command, pairs=[]), "no pairs are configured")


def test_drop_asks_nobody_without_a_terminal_and_removes_nothing(embedded, folder):
    make(folder)
    assert_one_line(embedded("drop"), "Add --yes")

    assert len(list(folder.glob("*.db"))) == 4


def test_drop_names_what_it_removed_and_the_second_time_there_is_nothing(embedded, names, folder):
    make(folder)
    key = (folder / "key").read_bytes()
    first, second = embedded("drop", "--yes"), embedded("drop", "--yes")

    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert lines[:4] == [f"pair {pair}: removed {name}" for pair in names for name in names[pair]]
    assert "make them again" in lines[4]
    assert second.returncode == 0
    assert second.stdout.splitlines() == [f"pair {pair}: there was nothing to remove" for pair in names]
    assert (folder / "key").read_bytes() == key
    assert embedded("provision").returncode == 0


def test_drop_leaves_what_is_not_ours_says_why_and_goes_on(embedded, names, folder):
    make(folder)
    foreign = Path(names["phonebook"][1])
    foreign.write_bytes(b"somebody's notes")
    done = embedded("drop", "--yes")

    assert_one_line(done, f"pair phonebook: {names['phonebook'][1]} is not removed")
    assert [line for line in done.stdout.splitlines() if "removed" in line] == [
        f"pair second: removed {name}" for name in names["second"]
    ]
    assert foreign.read_bytes() == b"somebody's notes"


def test_drop_beside_a_running_exporter_is_refused(embedded, folder):
    make(folder, "second")
    lock = folder / "lock"
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = embedded("drop", "--yes", "--pair", "second")

    assert_one_line(done, "another exporter")
    assert embedded("verify", "--json").returncode == 1
    assert len(list(lock.parent.glob("*.db"))) == 2


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("YES\n", 0), ("\n", 1), ("no\n", 1), ("\x04", 1)])
def test_drop_asks_at_a_terminal_by_name(tde, embedded, names, folder, typed, code):
    make(folder, "second")
    asked: list[str] = []

    def answer(text):
        if "[y/N]" in text and not asked:
            asked.append(text)
            return typed
        return None

    got, text = tde.at_terminal("-c", str(tde.folder / "config.yaml"), "drop", "--pair", "second", answer=answer)

    assert got == code, text
    assert all(name in asked[0] for name in names["second"])
    assert ("Nothing was removed." in text) == (code == 1)
    assert len(list(folder.glob("*.db"))) == (0 if code == 0 else 2)


def test_at_a_terminal_progress_is_one_line_that_is_gone_in_the_end(tde, names):
    code, text = tde.at_terminal("-c", tde.config(TWO_PAIRS), "provision", answer=lambda _text: None)

    assert code == 0
    assert "\r\x1b[Kbuilding the encrypted twin of phonebook" in text
    # What stands there in the end: what comes after the line was last cleared.
    lines = [line.rsplit("\x1b[K", 1)[-1] for line in text.split("\n")]
    assert lines == [f"pair {pair}: made {name}" for pair in names for name in names[pair]] + [""]


def test_ctrl_c_stops_a_build_which_the_same_command_completes(tde, folder):
    path = tde.config(
        {"targets": [{"name": "embedded", "engine": "sqlite", "pairs": [{"name": "large", "rows": 200_000}]}]}
    )
    with tde.start("-c", path, "provision") as process:
        assert "building" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=100)

    assert process.returncode == 130, complained
    assert said == ""
    assert complained.splitlines()[-1] == "tde-exporter: stopped; the same command goes on from here"
    assert "Traceback" not in complained
    assert not list(folder.glob(".*.tmp*"))
    assert len(list(folder.glob("*.db"))) < 2
    assert tde("-c", path, "provision").returncode == 0
    assert tde("-c", path, "verify").returncode == 0


@pytest.mark.parametrize("kind", ["hang", "wedge"])
def test_ctrl_c_ends_a_call_that_would_not(tde, kind):
    faults = [{"kind": kind, "call": "verify"}]
    path = tde.config({"targets": [{"name": "scripted", "engine": "fake", "faults": faults}]})
    with tde.start("-c", path, "provision") as process:
        assert "complete" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)

    assert process.returncode == 130


def test_the_script_goes_to_standard_output_and_connects_to_nothing(tde):
    done = scripted(tde, "provision", "--print", faults=[{"kind": "error", "call": "open"}])

    assert done.returncode == 0
    assert done.stdout == "-- There is no database: nothing has to be run.\n"
    assert done.stderr == ""


def test_an_engine_without_a_script_says_so(embedded):
    assert_one_line(embedded("provision", "--print"), "target embedded: the embedded engine needs nobody's SQL")


MYSQL = {"targets": [{"name": "shop", "engine": "mysql"}]}
LOGINS = {
    "no account": (["--password-env", "SECRET"], "Add --user NAME"),
    "an empty account": (["--user", ""], "the name of the account is empty"),
    "a variable that is not set": (["--user", "root", "--password-env", "NOT_SET"], "NOT_SET: is not set"),
    "no name of a variable": (["--user", "root", "--password-env", "hunter2!"], "never the password itself"),
    "an empty name of a file": (["--user", "root", "--password-file", ""], "never the password itself"),
    "a missing file": (["--user", "root", "--password-file", "absent"], "does not exist"),
    "nothing to log in to": (["--user", "root", "--print"], "--print connects to nothing"),
}


@pytest.mark.parametrize("case", LOGINS)
def test_a_login_that_cannot_be_is_one_line(tde, case):
    options, named = LOGINS[case]
    done = tde("-c", tde.config(MYSQL), "provision", *options)

    assert_one_line(done, named)
    assert "hunter2" not in done.stderr


def test_an_engine_without_accounts_refuses_a_login(embedded):
    assert_one_line(embedded("provision", "--user", "root"), "the engine sqlite knows no accounts")


def facts(*twins):
    return PairFacts("main", Phase.ENABLED, *twins)


MISSING = TwinFacts(Slot.A, None, problem="main_encrypted is missing")
PLAIN = TwinFacts(Slot.B, False, rows=10, digest="same")
ENCRYPTED = TwinFacts(Slot.A, True, rows=10, digest="same")


def test_missing_twins_are_answered_with_the_command_that_makes_them():
    shop = MySqlTarget(name="shop")

    assert hint(shop, [facts(MISSING, PLAIN)]).endswith("(main) are made by: tde-exporter provision shop")
    assert hint(shop, [facts(ENCRYPTED, PLAIN)]) == ""
    assert hint(shop, []) == ""
    # What makes its twins itself needs no command.
    assert hint(FakeTarget(name="scripted"), [facts(MISSING, PLAIN)]) == ""
