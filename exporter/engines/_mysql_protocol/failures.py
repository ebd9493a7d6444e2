"""Errors of the server, of the driver and of the network, in our own words.

Numbers below 2000 and from 3000 on come from the server, those between from the client library:
MariaDB `sql/share/errmsg-utf8.txt`, MySQL `share/messages_to_clients.txt`, `include/errmsg.h`. Where
MariaDB and MySQL use a number from 4000 on for different things, ours is the one that can happen here.
"""

from __future__ import annotations

import errno
import logging
import re
import ssl
from collections.abc import Callable

import pymysql

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

LONGEST = 300
"""Characters of the server's own words; a peer that is no database may send anything."""


log = logging.getLogger(__name__)


class TableUnreadable(QueryFailed):
    """The server cannot read a table: its key is not available, or its data is damaged.

    MariaDB says the same for both. Whoever knows that the table is encrypted, and that its plain twin can
    be read, raises KeystoreFailed in its place. `table` is `schema.table`, or empty.
    """

    def __init__(self, words: str, table: str = "") -> None:
        self.table = table
        super().__init__(words)


_REFUSED = "the server refused the login"
_DENIED = 1045
_RULES: dict[int, tuple[type[TargetError], str]] = {
    # The account: wrong secret, expired, locked, or kept by a plugin that wants something else.
    _DENIED: (AuthenticationFailed, ""),  # ER_ACCESS_DENIED_ERROR
    1698: (AuthenticationFailed, ""),  # ER_ACCESS_DENIED_NO_PASSWORD_ERROR
    1820: (AccountBarred, "the password has expired; set a new one"),  # ER_MUST_CHANGE_PASSWORD
    1862: (AccountBarred, "the password has expired; set a new one"),  # ER_MUST_CHANGE_PASSWORD_LOGIN
    1873: (AuthenticationFailed, ""),  # ER_ACCESS_DENIED_CHANGE_USER_ERROR
    1524: (AuthenticationFailed, ""),  # ER_PLUGIN_IS_NOT_LOADED: the one that the account is identified by
    3118: (AccountBarred, "the account is locked"),  # ER_ACCOUNT_HAS_BEEN_LOCKED, MySQL
    3955: (AccountBarred, "the account is locked after failed logins"),  # MySQL, FAILED_LOGIN_ATTEMPTS
    4150: (AccountBarred, "the account is locked after failed logins"),  # ER_USER_IS_BLOCKED, MariaDB
    4151: (AccountBarred, "the account is locked"),  # ER_ACCOUNT_HAS_BEEN_LOCKED, MariaDB
    4296: (AuthenticationFailed, f"{_REFUSED}: the proxy privilege is missing"),  # MySQL
    4297: (AuthenticationFailed, f"{_REFUSED}: the proxied user does not exist"),  # MySQL
    1251: (Unsupported, "the account wants a login method that is too old for us"),  # ER_NOT_SUPPORTED_AUTH_MODE
    2059: (Unsupported, ""),  # CR_AUTH_PLUGIN_CANNOT_LOAD
    2061: (Unsupported, ""),  # CR_AUTH_PLUGIN_ERR
    # Grants. 1142, 1143, 1227 and 1370 are told by functions below.
    1044: (PermissionMissing, ""),  # ER_DBACCESS_DENIED_ERROR
    1095: (PermissionMissing, ""),  # ER_KILL_DENIED_ERROR
    1130: (PermissionMissing, "no account of the server admits this machine"),  # ER_HOST_NOT_PRIVILEGED
    3202: (PermissionMissing, ""),  # ER_KEYRING_ACCESS_DENIED_ERROR
    3879: (PermissionMissing, ""),  # ER_DB_ACCESS_DENIED, MySQL
    # Locks.
    1205: (LockTimeout, "another session held a lock for too long"),  # ER_LOCK_WAIT_TIMEOUT
    1213: (LockTimeout, "deadlock with another session"),  # ER_LOCK_DEADLOCK
    3572: (LockTimeout, "another session holds a lock"),  # ER_LOCK_NOWAIT
    # The limits that we set for our own statements. 1317 is not ours: somebody said KILL QUERY.
    1969: (DeadlineExceeded, "stopped by the server at our time limit"),  # ER_STATEMENT_TIMEOUT, MariaDB
    3024: (DeadlineExceeded, "stopped by the server at our time limit"),  # ER_QUERY_TIMEOUT, MySQL
    1317: (QueryFailed, "somebody stopped the statement (KILL QUERY)"),  # ER_QUERY_INTERRUPTED
    # A server that is there and does not serve.
    1021: (Unavailable, "the server's disk is full"),  # ER_DISK_FULL
    1037: (Unavailable, "the server is out of memory"),  # ER_OUTOFMEMORY
    1040: (Unavailable, "the server has too many connections (max_connections)"),  # ER_CON_COUNT_ERROR
    1041: (Unavailable, "the server is out of memory"),  # ER_OUT_OF_RESOURCES
    1053: (Unavailable, "the server is shutting down"),  # ER_SERVER_SHUTDOWN
    1129: (Unavailable, "the server blocks this machine after failed connects; a DBA can unblock it (FLUSH HOSTS)"),
    1203: (Unavailable, "the account has too many connections (max_user_connections)"),
    1226: (Unavailable, ""),  # ER_USER_LIMIT_REACHED
    1792: (Unavailable, "the transactions of this server are read-only"),
    1836: (Unavailable, "the server is read-only"),  # ER_READ_ONLY_MODE
    1874: (Unavailable, "InnoDB is read-only"),  # ER_INNODB_READ_ONLY
    3032: (Unavailable, "the server is offline (offline_mode)"),  # ER_SERVER_OFFLINE_MODE
    3168: (Unavailable, "the server is not available"),  # ER_SERVER_ISNT_AVAILABLE, MySQL
    4312: (Unavailable, "the server is offline (offline_mode)"),  # MySQL
    4313: (Unavailable, "the server is offline (offline_mode)"),  # MySQL
    9001: (Unavailable, "the proxy reaches no server"),  # ProxySQL
    # A connection that is lost, or was none.
    1042: (ConnectFailed, ""),  # ER_BAD_HOST_ERROR
    1043: (ConnectFailed, "the server did not understand our greeting"),  # ER_HANDSHAKE_ERROR
    1158: (ConnectFailed, ""),  # ER_NET_READ_ERROR
    1159: (ConnectFailed, ""),  # ER_NET_READ_INTERRUPTED
    1160: (ConnectFailed, ""),  # ER_NET_ERROR_ON_WRITE
    1161: (ConnectFailed, ""),  # ER_NET_WRITE_INTERRUPTED
    1152: (ConnectFailed, "the server ended the connection"),  # ER_ABORTING_CONNECTION
    1184: (ConnectFailed, "the server ended the connection"),  # ER_NEW_ABORTING_CONNECTION
    1927: (ConnectFailed, "somebody ended the connection (KILL)"),  # ER_CONNECTION_KILLED, MariaDB
    3169: (ConnectFailed, "somebody ended the connection (KILL)"),  # ER_SESSION_WAS_KILLED, MySQL
    2002: (ConnectFailed, ""),  # CR_CONNECTION_ERROR
    2003: (ConnectFailed, ""),  # CR_CONN_HOST_ERROR
    2005: (ConnectFailed, ""),  # CR_UNKNOWN_HOST
    2006: (ConnectFailed, "the connection was lost"),  # CR_SERVER_GONE_ERROR
    2012: (ConnectFailed, ""),  # CR_SERVER_HANDSHAKE_ERR
    2013: (ConnectFailed, "the connection was lost"),  # CR_SERVER_LOST
    2014: (ConnectFailed, "the server answered out of turn"),  # CR_COMMANDS_OUT_OF_SYNC
    2026: (TlsFailed, ""),  # CR_SSL_CONNECTION_ERROR
    3159: (TlsFailed, "the server admits encrypted connections only; set tls.mode"),  # ER_SECURE_TRANSPORT_REQUIRED
    # Keys.
    3185: (KeystoreFailed, "the server does not find the master key in its keyring"),
}
"""Class and words; empty words stand for the server's own."""

ENDING = frozenset({1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 3169})
"""Numbers after which the server ends the connection."""


def explained(error: BaseException) -> TargetError:
    """What the driver, TLS or the network raised, as an error of our tree; one of ours stays as it is."""
    if isinstance(error, TargetError):
        return error
    if secure := _of_tls(error):
        return secure
    if isinstance(error, pymysql.err.InterfaceError):
        return ConnectFailed("the connection is closed")
    if isinstance(cause := error.__context__, OSError):  # the driver's own errors are raised over those of sockets
        return of_network(cause)
    if isinstance(error, pymysql.err.MySQLError) and error.args and isinstance(error.args[0], int):
        return _of_number(error.args[0], " ".join(str(part) for part in error.args[1:]))
    if isinstance(error, RuntimeError) and "package is required" in str(error):
        return Unsupported("the account wants a login method that needs another Python package: " + said(str(error)))
    if isinstance(error, OSError):
        return of_network(error)
    # Most likely bytes that the driver stumbled over; should it be a defect, here or there, this tells.
    log.debug("the driver raised what it should not", exc_info=error)
    return ConnectFailed(f"the peer does not speak the protocol of MySQL ({type(error).__name__})")


def misheard(error: BaseException, user: str) -> bool:
    """Whether the server refused somebody else than `user`: bytes of our login changed on the way to it.

    One that changed in the password's part, or in the server's greeting, cannot be told from a wrong password.
    """
    if not isinstance(error, pymysql.err.MySQLError) or error.args[:1] != (_DENIED,):
        return False
    found = re.match(r"Access denied for user '([^']*)'", str(error.args[1]))
    # As long as ours: some proxies and plugins write a name in their own way.
    return found is not None and len(found[1]) == len(user) and found[1].casefold() != user.casefold()


def of_network(error: OSError) -> TargetError:
    """What a socket raised."""
    if isinstance(error, TimeoutError):
        return DeadlineExceeded("no answer in time")
    if error.errno == errno.EAGAIN:  # of a Unix socket with a full queue
        return ConnectFailed("the server does not accept connections at the moment")
    return ConnectFailed(said(error.strerror or str(error)).lower() or type(error).__name__)


def said(text: str) -> str:
    """What somebody else said, fit for a message: one line, no secret, no address, no advice."""
    # First of all: a secret that was changed or cut would not be found any more.
    line = " ".join("".join(char if char.isprintable() else " " for char in redact(text)).split())
    line = re.sub(r"(['\"`][^'\"`]*['\"`])@['\"`][^'\"`]*['\"`]", r"\1", line)
    # What a server advises may destroy data: for a missing key MariaDB says to drop the table.
    line = re.sub(r"\W*\b(please|try to|consider|you (should|can|may))\b.*", "", line, flags=re.IGNORECASE)
    return line[:LONGEST].rstrip(" .")


def _of_tls(error: BaseException) -> TlsFailed | None:
    """The driver wraps what TLS raised into errors of its own, twice sometimes."""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None or isinstance(seen, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return None  # the peer hung up, which says nothing about TLS
        if isinstance(seen, ssl.SSLCertVerificationError):
            return TlsFailed(f"the server's certificate is refused: {said(seen.verify_message)}")
        if isinstance(seen, ssl.SSLError):
            return TlsFailed(
                f"TLS failed: {said(getattr(seen, 'reason', None) or str(seen)).lower().replace('_', ' ')}"
            )
        seen = seen.__context__ or seen.__cause__ or getattr(seen, "original_exception", None)
    return None


def _of_number(number: int, message: str) -> TargetError:
    if special := _SPECIAL.get(number):
        found = special(message)
        if found is not None:
            return found
    kind, words = _RULES.get(number, (QueryFailed, ""))
    return kind(f"{words or said(message) or 'the server refused it'} (error {number})")


def _command_denied(message: str) -> TargetError:
    found = re.match(r"(.+?) command denied to user .*? for (?:column '([^']*)' in )?(table|routine) (\S+)", message)
    if not found:
        return PermissionMissing(said(message) or "a grant is missing")
    command, column, kind, name = found.groups()
    name = name.rstrip(".").replace("'", "`")
    where = f"{name}, column `{column}`" if column else name
    return PermissionMissing(
        said(f"the grant of {command} on {'' if kind == 'table' else 'the routine '}{where} is missing")
    )


def _privilege_denied(message: str) -> TargetError:
    found = re.search(r"you need (?:\(at least one of\) the )?(.+?) privilege", message)
    if not found:
        return PermissionMissing(said(message) or "a grant is missing")
    several = "one of the privileges" if re.search(r",| or ", found[1]) else "the privilege"
    return PermissionMissing(said(f"{several} {found[1]} is missing"))


def _unreadable(message: str) -> TargetError:
    found = re.search(r"[Tt]able [`']?([^`'.]+?)[`']?\.[`']?([^`'.]+?)[`']? (?:is|doesn't)", message)
    table = said(f"{found[1]}.{found[2]}") if found else ""
    name = f"the table {table}" if table else "a table"
    return TableUnreadable(f"the server cannot read {name}: its key is not available, or its data is damaged", table)


def _engine_error(message: str) -> TargetError | None:
    # 192 is HA_ERR_DECRYPTION_FAILED of MariaDB.
    if re.search(r"error:? 192\b", message):
        return KeystoreFailed("the server cannot decrypt: the key is missing or wrong (error 192)")
    return None


def _prevented(message: str) -> TargetError | None:
    return Unavailable("the server is read-only (error 1290)") if "read-only" in message else None


def _unknown_command(message: str) -> TargetError | None:
    # Galera, of a node that has not joined or has lost its cluster.
    return Unavailable("the node is not part of its cluster (error 1047)") if "WSREP" in message else None


_SPECIAL: dict[int, Callable[[str], TargetError | None]] = {
    1030: _engine_error,  # ER_GET_ERRNO
    1047: _unknown_command,  # ER_UNKNOWN_COM_ERROR
    1142: _command_denied,  # ER_TABLEACCESS_DENIED_ERROR
    1143: _command_denied,  # ER_COLUMNACCESS_DENIED_ERROR
    1227: _privilege_denied,  # ER_SPECIFIC_ACCESS_DENIED_ERROR
    1290: _prevented,  # ER_OPTION_PREVENTS_STATEMENT
    1296: _engine_error,  # ER_GET_ERRMSG
    1370: _command_denied,  # ER_PROCACCESS_DENIED_ERROR
    1877: _unreadable,  # ER_TABLE_CORRUPT
    1932: _unreadable,  # ER_NO_SUCH_TABLE_IN_ENGINE, which older MariaDBs say without a key
    3630: _privilege_denied,  # MySQL
    4208: _privilege_denied,  # MySQL
}
