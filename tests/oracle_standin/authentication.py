"""The server's side of the login with a password: the verifier of release 11g, with SHA-1 and AES-192.

The server must know the password in clear, for the client checks that it does: each side sends half of a session key,
encrypted by the hash of the password, and the server's last answer is encrypted by both halves.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VERIFIER_11G = 0x1B25

_ANSWER = b"SERVER_TO_CLIENT"
_BLOCK = 16


def _cipher(key: bytes) -> Cipher[modes.CBC]:
    return Cipher(algorithms.AES(key), modes.CBC(bytes(_BLOCK)))


def _encrypt(key: bytes, data: bytes) -> bytes:
    encryptor = _cipher(key).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def _decrypt(key: bytes, data: bytes) -> bytes:
    decryptor = _cipher(key).decryptor()
    return decryptor.update(data) + decryptor.finalize()


class Challenge:
    """One login, from the challenge to the answer."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._salt = os.urandom(10)
        self._hash = hashlib.sha1(self._password + self._salt).digest() + bytes(4)
        self._ours = os.urandom(48)
        self._combined = b""

    def parameters(self) -> dict[str, tuple[str, int]]:
        """What the client is sent: name, value and flags."""
        return {
            "AUTH_SESSKEY": (_encrypt(self._hash, self._ours).hex().upper(), 0),
            "AUTH_VFR_DATA": (self._salt.hex().upper(), VERIFIER_11G),
        }

    def accepts(self, pairs: Mapping[str, str]) -> bool:
        """Whether the client's answer proves that it knows the password."""
        theirs = _decrypt(self._hash, bytes.fromhex(pairs["AUTH_SESSKEY"]))
        mixed = bytes(self._ours[at] ^ theirs[at] for at in range(16, 40))
        self._combined = (hashlib.md5(mixed[:16]).digest() + hashlib.md5(mixed[16:]).digest())[:24]
        salted = _decrypt(self._combined, bytes.fromhex(pairs["AUTH_PASSWORD"]))
        given = salted[_BLOCK:]
        return given[: -given[-1]] == self._password if given else not self._password

    def answer(self, *, right: bool = True) -> dict[str, tuple[str, int]]:
        """Proves that the server knows the password too; a wrong one is what an impostor would send."""
        text = _ANSWER if right else _ANSWER[::-1]
        plain = os.urandom(_BLOCK) + text + bytes([_BLOCK]) * _BLOCK
        return {"AUTH_SVR_RESPONSE": (_encrypt(self._combined, plain).hex().upper(), 0)}
