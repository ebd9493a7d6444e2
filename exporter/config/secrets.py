"""Secrets come from files or environment variables, are read when they are used, and are never shown.

`redact` is the one place that takes secrets out of text: logs and error output pass through it.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError

from exporter.config.opening import opened
from exporter.config.redactor import MASK, Redactor
from exporter.config.schema import Location, Strict
from exporter.domain.errors import SecretError, SecretOutOfReach

logger = logging.getLogger(__name__)

LARGEST = 64 * 1024
"""Bytes. What is larger is no secret, but the wrong file."""

_PLACE = re.compile(r"(secret file )/(?:[^\n]*?/)?(?=[^/\n]*?: (?:is|does|may|holds|cannot|the) )")
_NO_MEANS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_redactor = Redactor()
_REMEDY = "Write it as `file: /path/of/the/file` or `env: NAME_OF_A_VARIABLE`"


class SecretSource(Strict):
    """Where a secret is read from: a `file`, or an environment variable `env`; exactly one of them."""

    file: Location | None = Field(None, examples=["/run/secrets/password"])
    """File that holds the secret and nothing else. One line end at its end is not part of the secret."""
    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(None, examples=["DATABASE_PASSWORD"])
    """Name of the environment variable that holds the secret."""

    @model_validator(mode="wrap")
    @classmethod
    def _nothing_inline(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, (dict, cls)):
            raise PydanticCustomError("inline_secret", "a secret must not stand in the configuration", {"fix": _REMEDY})
        source = handler(value)
        if (source.file is None) == (source.env is None):
            raise PydanticCustomError(
                "inline_secret", "exactly one of the keys 'file' and 'env' is needed", {"fix": _REMEDY}
            )
        return source

    def __repr__(self) -> str:
        # A value that landed in the wrong place of the configuration might be the secret itself.
        return f"SecretSource({MASK})"

    __str__ = __repr__

    def __repr_args__(self) -> tuple[()]:
        return ()

    def read(self, environ: Mapping[str, str] | None = None) -> str:
        """The secret as it is now, and from now on redacted; byte for byte, less one line end at its end.

        `environ` stands in for the process environment. Raises SecretError, which names the file or
        variable and never the content. Never blocks: what is no regular file is refused.
        """
        if self.file is not None:
            where, text = f"secret file {self.file}", _file_text(self.file)
        else:
            where = f"environment variable {self.env}"
            text = _variable_text(self.env or "", os.environ if environ is None else environ)
        secret = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
        if not secret:
            raise SecretError("is empty", where=where, remedy="Put the secret into it")
        if "\0" in secret:
            raise SecretError("holds NUL characters", where=where, remedy="Write the secret as plain text in UTF-8")
        _redactor.remember(secret)
        if secret != secret.strip() or secret.startswith("\ufeff"):
            logger.warning("%s: the secret begins or ends with white space, which is kept", where)
        return secret


def sources(settings: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], SecretSource]]:
    """Every secret source in a model, with the keys and list positions that lead to it."""
    if isinstance(settings, SecretSource):
        yield path, settings
    elif isinstance(settings, BaseModel):
        for name in type(settings).model_fields:
            yield from sources(getattr(settings, name), (*path, name))
    elif isinstance(settings, dict):
        for key, value in settings.items():
            yield from sources(value, (*path, key))
    elif isinstance(settings, (tuple, list)):
        for position, value in enumerate(settings):
            yield from sources(value, (*path, position))


def _file_text(path: Path) -> str:
    where = f"secret file {path}"
    try:
        with opened(path) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise SecretError("is not a regular file", where=where, remedy="Name the file that holds the secret")
            content = stream.read(LARGEST + 1)
    except FileNotFoundError:
        raise SecretError("does not exist", where=where, remedy="Create it, or correct the path") from None
    except IsADirectoryError:
        raise SecretError("is a directory", where=where, remedy="Name the file that holds the secret") from None
    except PermissionError:
        remedy = "Give the user that runs the exporter the right to read it"
        raise SecretError("may not be read", where=where, remedy=remedy) from None
    except (OSError, ValueError) as error:
        words = (os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "bad path").lower()
        if isinstance(error, OSError) and error.errno in _NO_MEANS:
            remedy = "Raise what this process may have (open files: ulimit -n), or give it fewer targets"
            raise SecretOutOfReach(f"cannot be read now ({words})", where=where, remedy=remedy) from None
        raise SecretError(f"cannot be read ({words})", where=where, remedy="Correct the path") from None
    if len(content) > LARGEST:
        raise SecretError(f"is larger than {LARGEST} bytes", where=where, remedy="Name the file that holds the secret")
    try:
        return content.decode()
    except UnicodeDecodeError:
        # `from None` matters: the decoding error holds the content.
        raise SecretError("is not text in UTF-8", where=where, remedy="Write the secret as UTF-8") from None


def _variable_text(name: str, environ: Mapping[str, str]) -> str:
    where = f"environment variable {name}"
    if name not in environ:
        raise SecretError("is not set", where=where, remedy="Set it, or correct the name")
    try:
        return os.fsencode(environ[name]).decode()
    except UnicodeError:
        raise SecretError("is not text in UTF-8", where=where, remedy="Write the secret as UTF-8") from None


def redact(text: str) -> str:
    """The text with `***` in place of every secret that this process has ever read."""
    return _redactor.redact(text)


def shown(text: str) -> str:
    """The text for a page that strangers may see: redacted, and of a secret's file only the name. The log has its place."""
    return _PLACE.sub(r"\1…/", redact(text))
