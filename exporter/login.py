"""An account named on the command line, in place of the one that is configured: a DBA's, for what a monitor may not do."""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import ValidationError

from exporter.config.schema import TargetSettings
from exporter.config.secrets import SecretSource
from exporter.domain.errors import ConfigError


def add_to(sub: argparse.ArgumentParser) -> None:
    """Add the options that name an account to a command."""
    group = sub.add_argument_group(
        "login", "An account that may make and remove objects, in place of the one that is configured for measuring."
    )
    group.add_argument("--user", metavar="NAME", help="account to log in with")
    secret = group.add_mutually_exclusive_group()
    secret.add_argument("--password-file", metavar="FILE", help="file that holds the password of the account")
    secret.add_argument("--password-env", metavar="NAME", help="environment variable that holds the password")


def given(arguments: argparse.Namespace) -> bool:
    """Whether any of them was used."""
    return any(word is not None for word in (arguments.user, arguments.password_file, arguments.password_env))


def applied(target: TargetSettings, arguments: argparse.Namespace) -> TargetSettings:
    """The target with that account in place of its own; an account named without a password has none.

    Raises ConfigError, also for a password that cannot be read.
    """
    if not given(arguments):
        return target
    if arguments.user is None:
        raise ConfigError("a password is given, but no account", remedy="Add --user NAME")
    if not {"user", "password"} <= type(target).model_fields.keys():
        raise ConfigError(f"the engine {target.engine} knows no accounts", remedy="Leave out --user and --password-*")
    if not arguments.user:
        raise ConfigError("the name of the account is empty", remedy="Write it after --user")
    update = {"user": arguments.user, "password": _secret(arguments)}
    if "reader" in type(target).model_fields and getattr(target, "reader", None) is None:
        # What the DBA's account makes belongs to nobody else, until it is granted.
        update["reader"] = getattr(target, "user", None)
    return target.model_copy(update=update)


def _secret(arguments: argparse.Namespace) -> SecretSource | None:
    if arguments.password_file is None and arguments.password_env is None:
        return None
    file = arguments.password_file
    try:
        # An empty name stays one, to be refused: as a path it would be the folder we are in.
        source = SecretSource(file=Path(file).absolute() if file else file, env=arguments.password_env)
    except ValidationError as error:
        # Its words would hold what was typed, which may be the password itself.
        option = "--password-file" if arguments.password_env is None else "--password-env"
        remedy = "Give the name of what holds the password, never the password itself"
        raise ConfigError(f"{option} has no fit argument", remedy=remedy) from error
    source.read()
    return source
