"""T4: the secret is what stands in its file, less one line end; each target has its own, and a new one needs no restart.

docker-mariadb#120, docker-netbox#21, exekube#44, fishymetrics#161
"""

import os

from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm, runs
from tests.watched import settings

UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"
MARKER = "S3CR3T-0b7e1f52"


def test_line_ends_are_no_part_of_it_and_blanks_are(everywhere, daemon):
    targets = []
    for watched in everywhere:
        watched.change_password("pass word ")
        for name, content in {
            "bare": b"pass word ",
            "unix": b"pass word \n",
            "dos": b"pass word \r\n",
            "two": b"pass word \n\n",
            "stripped": b"pass word\n",
        }.items():
            secret = watched.folder / f"{name}.secret"
            secret.write_bytes(content)
            target = watched.target(name=f"{watched.engine}-{name}", password={"file": str(secret)})
            targets.append(target | {"operations": ["point_select"]})
    good = [target["name"] for target in targets if target["name"].endswith(("bare", "unix", "dos"))]
    bad = [target["name"] for target in targets if target["name"] not in good]
    exporter = daemon(settings(*targets)).start().serving()
    exporter.until_all(good, lambda page, name: page.value(UP, target=name) == 1, "the right ones to be let in")
    exporter.until_all(
        bad, lambda page, name: page.total(ERRORS, target=name, reason="auth"), "the others to be refused"
    )
    page = exporter.page()
    assert [page.total(ERRORS, target=name, reason="auth") for name in good] == [0] * len(good)
    said = exporter.log.read_text()
    assert "begins or ends with white space, which is kept" in said
    assert "pass word" not in said


def broken(folder):
    """Files that are no secrets, by name."""
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "huge").write_text(MARKER * 10_000)
    (folder / "binary").write_bytes(MARKER.encode() + b"\xff\xfe")
    (folder / "nul").write_bytes(MARKER.encode() + b"\0")
    (folder / "empty").write_text("\n")
    (folder / "loop").symlink_to("loop")
    return [*(path.name for path in folder.iterdir()), "missing"]


def remove(path):
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def test_a_file_that_cannot_be_read_is_named_at_the_start_and_later_costs_its_target_only(everywhere, daemon):
    watched, folder = everywhere[0], everywhere[0].folder / "secrets"
    folder.mkdir()
    names = broken(folder)
    targets = [watched.target(name=name, password={"file": str(folder / name)}) for name in names]
    refused = daemon(settings(HEALTHY, *targets)).start()
    assert refused.process.wait(100) == 1
    said = refused.log.read_text()
    assert [name for name in names if f"secret file {folder / name}" not in said] == []
    assert len(said.splitlines()) == len(names)

    for name in names:
        remove(folder / name)
        (folder / name).write_text(watched.password + "\n")
    exporter = daemon(settings(HEALTHY, *targets, log={"level": "debug"})).start().serving()
    exporter.until_all(names, runs, "all to be measured")
    for name in names:
        remove(folder / name)
    broken(folder)
    watched.kill_sessions()
    exporter.until_all(
        names, lambda page, name: page.total(ERRORS, target=name, reason="auth"), "each to have its reason"
    )
    # A session that somebody ended says so first; what the next one lacks is said when that is opened.
    for name in names:
        exporter.until_said(f"secret file …/{name}: ")
    assert str(folder) not in exporter.get("/").text
    told = exporter.log.read_text()
    assert [name for name in names if f"secret file {folder / name}" not in told] == []
    assert_rhythm(exporter, "healthy", rounds=2)
    said += exporter.get("/").text + exporter.log.read_text() + exporter.get("/metrics").text
    assert MARKER not in said
    assert watched.password not in said
    # Nobody has to start anything anew when it is there again.
    for name in names:
        remove(folder / name)
        (folder / name).write_text(watched.password + "\n")
    exporter.until_all(names, lambda page, name: page.value(UP, target=name) == 1, "all to be let in")
