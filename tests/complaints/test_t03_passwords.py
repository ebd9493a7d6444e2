"""T3: a password of any characters, from a file or a variable, arrives as it is.

mysqld_exporter#458 #761 #376 #211 #296, query-exporter#196, postgres_exporter#664, sql_exporter#104, helm-charts#4130
"""

import string

import pytest

from tests.watched import settings

PASSWORDS = [*(f"p{char}w{char}{char}d" for char in string.punctuation), " p w ", "püß", "x" * 128, string.punctuation]
NASTY = f"{string.punctuation} {{}} %s ${{HOME}} $(id) ü\t"


def accounts(watched):
    """An account for each password; their targets read them from files and variables by turns."""
    targets, environ = [], {}
    for number, password in enumerate(PASSWORDS):
        user = f"{watched.user}_{number}"
        watched.server.query(f"CREATE USER {user}@'%%' IDENTIFIED BY %s", password)
        secret, variable = watched.folder / f"{user}.secret", f"{watched.engine}_{number}".upper()
        secret.write_text(password + "\n" * (number % 4 == 0))
        environ[variable] = password
        source = {"file": str(secret)} if number % 2 == 0 else {"env": variable}
        # Neither twins nor grants: to be connected is all.
        targets.append(watched.target(name=user, user=user, password=source, pairs=[]))
    return targets, environ


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_each_character_in_a_password(everywhere, daemon, kind):
    watched = next(watched for watched in everywhere if watched.engine == kind)
    targets, environ = accounts(watched)
    try:
        exporter = daemon(settings(*targets), environ).start().serving()
        names = {target["name"] for target in targets}

        def up():
            return {
                dict(labels)["target"]
                for (name, labels), value in exporter.samples().items()
                if name == "tde_target_up" and value == 1
            }

        exporter.until(lambda: up() == names, "all targets to be up")
        assert exporter.total("tde_target_connection_errors_total", reason="auth") == 0
        exporter.stop()
    finally:
        for target in targets:
            watched.server.query(f"DROP USER {target['user']}")


def test_the_nastiest_password_measures(everywhere, daemon):
    """TLS as it comes, so that both ways of sending it are tried."""
    for watched in everywhere:
        watched.change_password(NASTY)
        watched.secret.write_text(NASTY + "\n")
        assert watched.command("verify").returncode == 0
    exporter = daemon(settings(*(watched.target(tls={"mode": "preferred"}) for watched in everywhere))).start()
    exporter.serving().until(
        lambda: all(exporter.total("tde_canary_runs_total", target=watched.engine) for watched in everywhere), "runs"
    )
    assert exporter.total("tde_target_connection_errors_total", reason="auth") == 0
