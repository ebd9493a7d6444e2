"""Errors of the driver and of the file system, in our own words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from exporter.domain.errors import (
    KeystoreFailed,
    LockTimeout,
    PermissionMissing,
    QueryFailed,
    TargetError,
    Unavailable,
)

_UNAVAILABLE = (
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.ProtocolError,
)
_LOCKED = (apsw.BusyError, apsw.LockedError)
_DENIED = (errno.EACCES, errno.EPERM)


def _of_driver(error: apsw.Error, what: str) -> TargetError:
    words = f"{what}: {error}"
    if isinstance(error, _LOCKED):
        return LockTimeout(words)
    if isinstance(error, apsw.NotADBError):
        return KeystoreFailed(f"{what}: the key does not open it, or it is no database")
    if isinstance(error, (apsw.PermissionsError, apsw.AuthError)):
        return PermissionMissing(words)
    if isinstance(error, _UNAVAILABLE):
        return Unavailable(words)
    return QueryFailed(words)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raises errors of the driver and of the file system as errors of our tree; `what` begins the message.

    An interrupted statement (`apsw.InterruptError`) passes: only the caller knows who interrupted it.
    """
    try:
        yield
    except apsw.InterruptError:
        raise
    except apsw.Error as error:
        raise _of_driver(error, what) from error
    except OSError as error:
        words = f"{what}: {error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        raise (PermissionMissing(words) if error.errno in _DENIED else Unavailable(words)) from error
    except MemoryError as error:
        raise Unavailable(f"{what}: out of memory") from error
    except UnicodeDecodeError as error:
        raise QueryFailed(f"{what}: text in the database is damaged") from error
