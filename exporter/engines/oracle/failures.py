"""Errors of the database, of the driver and of the network, in our own words.

ORA numbers are the database's, DPY numbers the driver's (`oracledb/errors.py`). The driver wraps what a connect ended in,
so all numbers in a message are looked at, the innermost first.
"""

from __future__ import annotations

import logging
import os
import re
import ssl

import oracledb

from exporter.config.secrets import redact
from exporter.domain.errors import (
    AccountBarred,
    AuthenticationFailed,
    ConnectFailed,
    DeadlineExceeded,
    KeystoreFailed,
    LockTimeout,
    PermissionMissing,
    QueryFailed,
    TargetError,
    TlsFailed,
    Unavailable,
    Unsupported,
)
from exporter.engines.oracle.statements import Statement

log = logging.getLogger(__name__)

LONGEST = 300
"""Characters of the database's own words; a peer that is no database may send anything."""

_NATIVE = (
    "the database demands native network encryption, which the driver has only with Oracle's client libraries; use TCPS"
    " (`tls`) or `driver: thick`"
)
_LOST = "the connection was lost"
_SHUT = "the instance is being shut down"
_RULES: dict[str, tuple[type[TargetError], str]] = {
    # The account.
    "ORA-01005": (AuthenticationFailed, "a password is needed"),
    "ORA-01017": (AuthenticationFailed, "the database refused the user or the password"),
    "ORA-28000": (AccountBarred, "the account is locked"),
    "ORA-28001": (AccountBarred, "the password has expired; set a new one"),
    "ORA-28009": (AuthenticationFailed, "SYS logs in with a privilege only; set `privilege`"),
    "ORA-28273": (AuthenticationFailed, ""),
    "DPY-4001": (AuthenticationFailed, "a user and a password are needed"),
    "DPY-4035": (
        AuthenticationFailed,
        "who answered does not know the password, so it is not the database of this account",
    ),
    "DPY-3015": (Unsupported, "the account has a password verifier (10G) that is too old; set its password anew"),
    "ORA-01045": (PermissionMissing, "GRANT CREATE SESSION to the account"),
    # Grants.
    "ORA-00942": (PermissionMissing, ""),
    "ORA-01031": (PermissionMissing, ""),
    "ORA-41900": (PermissionMissing, ""),  # 23ai, for more than 942 and 1031 tell
    "PLS-00201": (PermissionMissing, ""),  # a package that may not be executed
    "ORA-01950": (PermissionMissing, "the schema has no quota on the tablespace; ALTER USER ... QUOTA ... ON it"),
    "ORA-01536": (
        PermissionMissing,
        "the schema has used up its quota on the tablespace; ALTER USER ... QUOTA ... ON it",
    ),
    # Locks.
    "ORA-00054": (LockTimeout, "another session holds a lock"),
    "ORA-00060": (LockTimeout, "deadlock with another session"),
    "ORA-04021": (LockTimeout, "another session held a lock for too long"),
    "ORA-30006": (LockTimeout, "another session held a lock for too long"),
    # Limits. 1013 is not ours: the driver tells of our own breaks by DPY-4024.
    "DPY-4024": (DeadlineExceeded, "stopped at our time limit"),
    "ORA-01013": (QueryFailed, "somebody stopped the statement"),
    "ORA-00040": (QueryFailed, "the resource manager stopped the statement"),
    # A database that is there and does not serve.
    "ORA-00018": (Unavailable, "the database has no session left (SESSIONS)"),
    "ORA-00020": (Unavailable, "the database has no process left (PROCESSES)"),
    "ORA-02391": (Unavailable, "the account has too many sessions (SESSIONS_PER_USER)"),
    "ORA-01033": (
        Unavailable,
        "the database is starting, stopping or only mounted; there, only SYSDG or SYSDBA may log in",
    ),
    "ORA-01034": (Unavailable, "the instance is not running"),
    "ORA-01035": (Unavailable, "the database is open for administrators only (restricted session)"),
    "ORA-01089": (Unavailable, _SHUT),
    "ORA-01090": (Unavailable, _SHUT),
    "ORA-01109": (Unavailable, "the database is not open"),
    "ORA-01219": (Unavailable, "the database is mounted and not open"),
    "ORA-01507": (Unavailable, "the database is not mounted"),
    "ORA-01653": (Unavailable, "the tablespace has no room left"),
    "ORA-01654": (Unavailable, "the tablespace has no room left"),
    "ORA-01658": (Unavailable, "the tablespace has no room left"),
    "ORA-01691": (Unavailable, "the tablespace has no room left"),
    "ORA-16000": (Unavailable, "the database is open for reading only"),
    "ORA-12505": (Unavailable, "the listener does not know the SID: the instance is down, or the SID is wrong"),
    "ORA-12514": (Unavailable, "the listener does not know the service: the database is down, or the name is wrong"),
    "DPY-6001": (Unavailable, "the listener does not know the service: the database is down, or the name is wrong"),
    "DPY-6003": (Unavailable, "the listener does not know the SID: the instance is down, or the SID is wrong"),
    "ORA-12516": (Unavailable, "the listener has no handler left for the service"),
    "ORA-12519": (Unavailable, "the listener has no handler left for the service"),
    "ORA-12520": (Unavailable, "the listener has no handler left for the service"),
    "ORA-12526": (Unavailable, "the listener admits administrators only (restricted mode)"),
    "ORA-12527": (Unavailable, "the listener admits administrators only (restricted mode)"),
    "ORA-12528": (Unavailable, "the listener blocks new connections: the instance is starting or only mounted"),
    "ORA-65011": (Unavailable, "the pluggable database does not exist"),
    # A connection that is lost, or was none.
    "ORA-00028": (ConnectFailed, "somebody ended the session (ALTER SYSTEM KILL SESSION)"),
    "ORA-00600": (ConnectFailed, "the database had an internal error (ORA-00600), and the session was lost"),
    "ORA-01012": (ConnectFailed, _LOST),
    "ORA-01092": (ConnectFailed, "the instance was stopped"),
    "ORA-02396": (ConnectFailed, "the database ended the session, for it rested too long (IDLE_TIME)"),
    "ORA-02399": (ConnectFailed, "the database ended the session, for it was open too long (CONNECT_TIME)"),
    "ORA-03113": (ConnectFailed, _LOST),
    "ORA-03114": (ConnectFailed, _LOST),
    "ORA-03135": (ConnectFailed, _LOST),
    "ORA-12170": (ConnectFailed, "the server did not answer in time"),
    "ORA-12541": (ConnectFailed, "no listener is at this address"),
    "DPY-1001": (ConnectFailed, _LOST),
    "DPY-4011": (ConnectFailed, _LOST),
    "DPY-6000": (ConnectFailed, ""),
    "DPY-6002": (TlsFailed, "the certificate is not that of the configured name (`server_dn`)"),
    "DPY-6006": (TlsFailed, "the certificate does not name the host"),
    "DPY-4023": (TlsFailed, ""),
    # What the driver cannot do.
    "DPY-3001": (Unsupported, _NATIVE),
    "ORA-12660": (Unsupported, _NATIVE),
    "DPY-3010": (Unsupported, "the database is older than 12.1"),
    # Keys.
    "ORA-28353": (KeystoreFailed, "the keystore cannot be opened"),
    "ORA-28361": (KeystoreFailed, "the keystore has no master key that is in use"),
    "ORA-28362": (KeystoreFailed, "the master key is not in the keystore"),
    "ORA-28365": (KeystoreFailed, "the keystore is not open"),
    "ORA-28367": (KeystoreFailed, "there is no keystore at its place"),
    "ORA-28374": (KeystoreFailed, "the master key that encrypted this is not in the keystore"),
    "ORA-28415": (KeystoreFailed, "the master key is in another keystore than the one that is configured"),
    "ORA-28417": (KeystoreFailed, "the password keystore is not open"),
}
"""Class and words; empty words stand for the database's own."""

_CODE = re.compile(r"\b(?:ORA|DPY|PLS)-\d{4,5}\b")
_DEAD = frozenset(f"ORA-{number:05}" for number in (28, 600, 1012, 1092, 2396, 2399, 3113, 3114, 3135)) | {
    "DPY-1001",
    "DPY-4011",
}


def codes(error: BaseException) -> list[str]:
    """All numbers in the words of an error and of its causes, in their order: `ORA-00942`, `DPY-4011` ..."""
    found: dict[str, None] = {}
    seen: BaseException | None = error
    while seen is not None:
        for code in _CODE.findall(str(seen)):
            family, _, number = code.partition("-")
            found[f"{family}-{int(number):0{4 if family == 'DPY' else 5}}"] = None
        seen = seen.__cause__ or seen.__context__
    return list(found)


def is_deadly(error: BaseException) -> bool:
    """Whether the session is gone after this error."""
    return not _DEAD.isdisjoint(codes(error))


def explained(error: BaseException, statement: Statement | None = None) -> TargetError:
    """The error of our tree for what the driver raised, while connecting or running `statement`."""
    if isinstance(error, TargetError):
        return error
    found = codes(error)
    for code in reversed(found):
        if code in _RULES:
            return _ruled(code, error, statement)
    if (of_tls := _tls(error)) is not None:
        return of_tls
    if isinstance(error, oracledb.Error) and statement is not None:
        return QueryFailed(said(error))
    if isinstance(error, TimeoutError):
        return DeadlineExceeded("not done in time")
    network = _network(error)
    if not network and not isinstance(error, oracledb.Error):
        # Bytes that the driver stumbled over, or a defect, here or there.
        log.debug("the driver raised what it should not", exc_info=error)
    return ConnectFailed(network or said(error))


def said(error: BaseException) -> str:
    """The words of an error on one line, without secrets and without the driver's links to its help."""
    # The driver's number of the attempt would make every line of a log another one.
    text = re.sub(r"\s*(?:Help: https?://\S+|\(CONNECTION_ID=[^)]*\))", "", redact(str(error)))
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def _ruled(code: str, error: BaseException, statement: Statement | None) -> TargetError:
    kind, words = _RULES[code]
    if kind is PermissionMissing and not words:
        return PermissionMissing(_missing(code, statement))
    return kind(f"{words} ({code})" if words else said(error))


def _missing(code: str, statement: Statement | None) -> str:
    if statement is None:
        return f"the account does not have the privilege that is configured ({code})"
    if not statement.grants:
        return f"the account may not do this: {statement.name} ({code})"
    return f"GRANT {', '.join(statement.grants)} to the account ({code})"


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and seen not in chain:
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    return chain


def _tls(error: BaseException) -> TlsFailed | None:
    for each in _chain(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return TlsFailed(f"the certificate of the server is not accepted: {each.verify_message}")
        if isinstance(each, ssl.SSLError):
            return TlsFailed(f"no TLS with the server: {said(each)}")
    return None


def _network(error: BaseException) -> str:
    for each in _chain(error):
        if isinstance(each, ConnectionRefusedError):
            return "nobody listens at this address"
        if isinstance(each, OSError) and each.errno:
            return os.strerror(each.errno).lower()
    return ""
