"""A certificate authority of the tests: a server certificate for this machine, a client's, and a wrong authority."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Pair:
    """The PEM files of a certificate and its key."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Certificates:
    """PEM files.

    Attributes:
        ca: The authority that signed all that follow but the last.
        server: For 127.0.0.1 and localhost.
        client: With the common name `client_name`.
        expired: As `server`, until yesterday.
        other_name: A server certificate of the right authority, for db.example only.
        wrong_ca: An authority that signed none of them.
        wrong_client: A client certificate of that one.
        named_client: A client certificate of the right authority with the alternative name prometheus.example.
    """

    ca: Path
    server: Pair
    client: Pair
    expired: Pair
    other_name: Pair
    wrong_ca: Path
    wrong_client: Pair
    named_client: Pair
    client_name: str = "tde-exporter"


class _Authority:
    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} of the tests")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.cert = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.cert.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file: str, common_name: str, names: list[x509.GeneralName], *, for_client: bool = False, days: int = 30
    ) -> Pair:
        """A certificate with its key, for so many days from now on; for a server when it has names and is not `for_client`,
        else for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _builder(subject, self._name, key.public_key(), days)
        use = ExtendedKeyUsageOID.SERVER_AUTH if names and not for_client else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self.folder / f"{file}.pem", self.folder / f"{file}.key")
        pair.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int = 30
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=3))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def make_certificates(folder: Path) -> Certificates:
    """Make all of them in a folder that exists; takes some milliseconds."""
    right, wrong = _Authority(folder, "ca"), _Authority(folder, "wrong-ca")
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return Certificates(
        ca=right.file,
        server=right.issue("server", "server", list(here)),
        client=right.issue("client", Certificates.client_name, []),
        expired=right.issue("expired", "server", list(here), days=-1),
        other_name=right.issue("other-name", "db.example", [x509.DNSName("db.example")]),
        wrong_ca=wrong.file,
        wrong_client=wrong.issue("wrong-client", Certificates.client_name, []),
        named_client=right.issue("named", "prometheus", [x509.DNSName("prometheus.example")], for_client=True),
    )
