"""Every error of this package, as one tree.

::

    TdeExporterError
    ├── ConfigError                 the operator must change something; `remedy` says what
    │   ├── ConfigErrors            several of them, found in one go
    │   └── SecretError             a secret file or variable is missing or unreadable
    │       └── SecretOutOfReach    the system has no means to read it now
    ├── HistoryError                the history file cannot be used
    └── TargetError                 something went wrong with a monitored database
        ├── ConnectFailed           connect        no session could be opened, or the session was lost
        ├── AuthenticationFailed    auth           the server refused the secret
        ├── TlsFailed               tls            the handshake or the certificate failed
        ├── DeadlineExceeded        timeout        the hard deadline passed
        ├── LockTimeout             lock_timeout   another session held a lock for too long
        ├── Unavailable             unavailable    the server answers, but does not serve now
        ├── PermissionMissing       permission     a grant is missing; the message names it
        ├── QueryFailed             query          the server refused the statement
        ├── VerificationFailed      verification   the answer differs from the twin's answer
        ├── KeystoreFailed          keystore       the key is missing, wrong, or the keystore is closed
        ├── Cancelled               cancelled      we stopped it ourselves, on shutdown
        ├── Unsupported             unsupported    this engine or version cannot do that
        └── Blocked                 blocked        refused by our own guards (scratch lock, budget)

The second column is the closed set of the `reason` label (see `Reason`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar


class Reason(StrEnum):
    """The closed set of values of the metric label `reason`."""

    CONNECT = "connect"
    AUTH = "auth"
    TLS = "tls"
    TIMEOUT = "timeout"
    LOCK_TIMEOUT = "lock_timeout"
    UNAVAILABLE = "unavailable"
    PERMISSION = "permission"
    QUERY = "query"
    VERIFICATION = "verification"
    KEYSTORE = "keystore"
    CANCELLED = "cancelled"
    UNSUPPORTED = "unsupported"
    BLOCKED = "blocked"


class TdeExporterError(Exception):
    """Root of the tree. Messages never contain secrets."""


class ConfigError(TdeExporterError):
    """The operator must change something.

    `where` is a file, or file and path inside it; `remedy` is an imperative sentence.
    `str()` gives the one line that is shown to the operator.
    """

    def __init__(self, problem: str, *, where: str = "", remedy: str = "") -> None:
        self.problem, self.where, self.remedy = problem, where, remedy
        line = f"{where}: {problem}" if where else problem
        stop = "" if line.endswith("?") else "."
        super().__init__(f"{line}{stop} {remedy}" if remedy else line)


class ConfigErrors(ConfigError):
    """One or more problems found in one go, in the order of the file; `str()` is one line for each."""

    def __init__(self, problems: Iterable[ConfigError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[ConfigErrors], tuple[tuple[ConfigError, ...]]]:
        return ConfigErrors, (self.problems,)


class SecretError(ConfigError):
    """A secret file or environment variable is missing or unreadable; never holds the content."""


class SecretOutOfReach(SecretError):
    """The system has no means to read a secret at the moment, open files or memory; nothing is wrong with the secret."""


class HistoryError(TdeExporterError):
    """The history file cannot be opened, read or written."""


class TargetError(TdeExporterError):
    """Something went wrong with a monitored database."""

    reason: ClassVar[Reason] = Reason.QUERY


class ConnectFailed(TargetError):
    """No session could be opened, or an open session was lost."""

    reason = Reason.CONNECT


class AuthenticationFailed(TargetError):
    """The server refused the secret."""

    reason = Reason.AUTH


class AccountBarred(AuthenticationFailed):
    """The account may not log in whatever the secret is: locked, or its password has expired. Another login does it no
    harm."""


class TlsFailed(TargetError):
    """The TLS handshake or the certificate check failed."""

    reason = Reason.TLS


class DeadlineExceeded(TargetError):
    """The hard deadline of a call passed."""

    reason = Reason.TIMEOUT


class LockTimeout(TargetError):
    """Another session held a lock for too long."""

    reason = Reason.LOCK_TIMEOUT


class Unavailable(TargetError):
    """The server answers, but does not serve now (starting, mounted, read-only, too many sessions)."""

    reason = Reason.UNAVAILABLE


class PermissionMissing(TargetError):
    """A grant is missing; the message names the grant."""

    reason = Reason.PERMISSION


class QueryFailed(TargetError):
    """The server refused the statement, or the file is damaged."""

    reason = Reason.QUERY


class VerificationFailed(TargetError):
    """The answer of a canary differs from the answer of its twin."""

    reason = Reason.VERIFICATION


class KeystoreFailed(TargetError):
    """The key is missing or wrong, or the keystore is closed."""

    reason = Reason.KEYSTORE


class Cancelled(TargetError):
    """We stopped the call ourselves, on shutdown."""

    reason = Reason.CANCELLED


class Unsupported(TargetError):
    """This engine, version or configuration cannot do that."""

    reason = Reason.UNSUPPORTED


class Blocked(TargetError):
    """Refused by one of our own guards: the scratch lock of another exporter, or a budget."""

    reason = Reason.BLOCKED
