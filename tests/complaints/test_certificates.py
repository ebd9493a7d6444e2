"""Certificates that expire and are renewed, of a database and of our own page: it is said, and nobody restarts anything."""

import ssl
import time

import httpx
import pytest

from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm
from tests.daemons import ENDS_WITHIN, Page
from tests.servers.certificates import Pair
from tests.watched import Watched, settings

UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"
EXPIRY = "tde_exporter_web_certificate_expiry_timestamp_seconds"


def put(pair, place):
    """As a renewal does: the key first, then the certificate, under the same names."""
    place.key.write_bytes(pair.key.read_bytes())
    place.cert.write_bytes(pair.cert.read_bytes())


def test_the_certificate_of_a_database_expires_and_is_renewed(make_mariadb, certificates, daemon, tmp_path):
    place = Pair(tmp_path / "db.pem", tmp_path / "db.key")
    put(certificates.server, place)
    paths = {"ssl-ca": str(certificates.ca), "ssl-cert": str(place.cert), "ssl-key": str(place.key)}
    server = make_mariadb("11.8", options=paths)
    watched = Watched(server, tmp_path)
    tls = {"mode": "verify_identity", "ca": str(certificates.ca)}
    exporter = daemon(settings(HEALTHY, watched.target(tls=tls))).start().serving()
    exporter.until(lambda: exporter.value(UP, target="mariadb") == 1, "a session over TLS")

    put(certificates.expired, place)
    server.query("FLUSH SSL")
    watched.kill_sessions()
    exporter.until(lambda: exporter.total(ERRORS, target="mariadb", reason="tls") >= 1, "the certificate to be refused")
    exporter.until(lambda: exporter.value(UP, target="mariadb") == 0, "the target to be down")
    exporter.until_said("certificate has expired")
    assert_rhythm(exporter, "healthy", rounds=2)
    assert exporter.total(ERRORS, target="mariadb", reason="auth") == 0

    put(certificates.server, place)
    server.query("FLUSH SSL")
    exporter.until(lambda: exporter.value(UP, target="mariadb") == 1, "the renewed one to be accepted", patience=100)


def test_the_certificate_of_the_page_expires_and_is_renewed(certificates, daemon, tmp_path):
    place = Pair(tmp_path / "web.pem", tmp_path / "web.key")
    put(certificates.expired, place)
    config = tmp_path / "web.yaml"
    config.write_text(f"tls_server_config: {{cert_file: {place.cert}, key_file: {place.key}}}\n")
    exporter = daemon(settings(HEALTHY, web={"config_file": str(config)})).start()
    url = f"https://127.0.0.1:{exporter.port}/metrics"
    careless = httpx.Client(verify=False)
    exporter.until(lambda: careless.get(url).status_code == 200, "a page")
    assert Page(careless.get(url).text).total(EXPIRY) < time.time()
    told = "the certificate of the page has expired; a renewed one is taken without a restart"
    exporter.until(lambda: told in exporter.log.read_text(), "the log to say so")
    trusting = ssl.create_default_context(cafile=str(certificates.ca))
    with pytest.raises(httpx.ConnectError, match="certificate has expired"):
        httpx.get(url, verify=trusting)

    put(certificates.server, place)
    exporter.until(lambda: answers(url, trusting), "the renewed certificate to be shown")
    exporter.until(lambda: Page(careless.get(url).text).total(EXPIRY) > time.time() + 20 * 86400, "the new end")
    assert Page(careless.get(url).text).total("tde_exporter_web_connections_refused_total", reason="tls") >= 1
    assert exporter.log.read_text().count(told) == 1
    careless.close()
    assert exporter.stop() < ENDS_WITHIN


def answers(url, context):
    try:
        return httpx.get(url, verify=context).status_code == 200
    except httpx.ConnectError:
        return False
