"""When a certificate ends, as read from its bytes, and how often it is said."""

from __future__ import annotations

import datetime
import logging
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from exporter.config.web_config import TlsServer
from exporter.domain.errors import ConfigError
from exporter.web.security.expiry import Life, Reminder, life_of
from exporter.web.security.tls import certificate_of
from tests.servers.certificates import _Authority, make_certificates

DAY = 86400.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def ends(path: Path) -> datetime.datetime:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc


def test_the_end_is_the_one_in_the_certificate_and_of_a_chain_the_first(certificates) -> None:
    good, expired = certificates.server.cert, certificates.expired.cert
    assert life_of(good.read_text()).ends == ends(good).timestamp()
    assert life_of(f"words\n{good.read_text()}\n{expired.read_text()}").ends == ends(expired).timestamp()
    begins = x509.load_pem_x509_certificate(good.read_bytes()).not_valid_before_utc
    assert life_of(good.read_text()).begins == begins.timestamp()


def test_a_certificate_beyond_2049_has_its_times_in_another_form(tmp_path: Path, certificates) -> None:
    far = _Authority(tmp_path, "far").issue("far", "far", [], days=40 * 365)
    assert life_of(far.cert.read_text()).ends == ends(far.cert).timestamp()
    assert certificate_of(TlsServer(cert_file=far.cert, key_file=far.key)) == far.cert.read_text()


@given(st.binary(max_size=200))
def test_what_is_no_certificate_is_refused_in_words(junk: bytes) -> None:
    for text in (junk.decode("latin-1"), ssl.DER_cert_to_PEM_cert(junk)):
        with pytest.raises(ConfigError, match="when this certificate ends"):
            life_of(text)


def said(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records if "the certificate of the page" in record.message]


@pytest.mark.parametrize(
    ("life_days", "left_days", "level"),
    [
        (365, 15, None),
        (365, 13, logging.WARNING),
        (365, -1, logging.ERROR),
        (6, 3, None),
        (6, 1.9, logging.WARNING),
    ],
)
def test_it_is_said_in_time_and_once_a_day(caplog, life_days: float, left_days: float, level: int | None) -> None:
    caplog.set_level(logging.INFO)
    reminder, life = Reminder(), Life(0.0, life_days * DAY)
    now = life.ends - left_days * DAY
    for _ in range(3):
        reminder.look(life, Path("web.pem"), now)
    assert said(caplog) == ([] if level is None else [level])


def test_a_renewed_one_is_spoken_of_anew(caplog) -> None:
    caplog.set_level(logging.INFO)
    reminder = Reminder()
    for days in (1, 2, 2, 300):
        reminder.look(Life(0.0, days * DAY), None, 1.9 * DAY)
    reminder.look(None, None, 1e9)
    assert said(caplog) == [logging.ERROR, logging.WARNING]
