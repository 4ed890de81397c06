"""
The command line, with the flags, messages and exit codes of nats-server 2.15: a wrong flag prints
the usage and exits with 0, every other error exits with 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from natsbroker.config.errors import ConfigError, ConfigErrors, NotSupportedYet
from natsbroker.config.files import readText
from natsbroker.config.flags import FLAG_TYPES, STREAMING_FLAGS, TUNING_FLAGS, flagNamed
from natsbroker.config.goflags import FlagError, FlagValue, parseFlags, takeFlags

if TYPE_CHECKING:
    from socket import socket

    from natsbroker.config.model import Settings

SIGNALS = ("reload", "reopen", "stop", "quit", "term", "ldm", "upgrade")


class Action(Enum):
    RUN = "run"
    TEST = "test"
    SIGNAL = "signal"
    VERSION = "version"
    HELP = "help"
    HELP_TLS = "help_tls"


class CommandLineError(ConfigError):
    """A wrong flag or value: print it, and the usage, and exit with L{exitCode}."""

    exitCode = 0


@dataclass(frozen=True)
class Invocation:
    """
    @ivar settings: for L{Action.RUN} and L{Action.TEST}.
    @ivar override: applies the flags to settings; a reload needs it again.
    @ivar signal: one of L{SIGNALS}, for L{Action.SIGNAL}.
    @ivar process: the id of the process to signal, with C{*} at its end for all ids with that
        prefix; empty for the only one that runs.
    @ivar sockets: sockets that listen at addresses of the settings already; see
        L{natsbroker.server.configuration.passedsockets}.
    """

    action: Action
    settings: Settings | None = None
    warnings: tuple[ConfigError, ...] = ()
    override: Callable[[Settings], Settings] | None = None
    signal: str = ""
    process: str = ""
    sockets: Mapping[str, socket] = field(default_factory=dict)


def invocationFrom(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    read: Callable[[str], str] = readText,
    isStreaming: bool = False,
) -> Invocation:
    """
    @param isStreaming: whether NATS Streaming is served by default.
    @raise CommandLineError: for wrong flags.
    @raise ConfigError: for every other error: exit with 1.
    """
    try:
        spelled, rest = parseFlags(arguments, FLAG_TYPES)
    except FlagError as error:
        raise CommandLineError(str(error)) from None
    given = _byFirstName(spelled)
    action = _actionOf(given, rest)
    if action is not None:
        return Invocation(action)
    if given.get("sl"):
        return _signal(str(given["sl"]), read)
    _refuseMissing(given)
    return _runOrTest(given, environment, read, isStreaming)


def takeStreaming(arguments: Sequence[str]) -> tuple[dict[str, FlagValue], list[str]]:
    """Take the flags of NATS Streaming out of arguments; the other arguments follow them."""
    kinds = {name: flag.type for flag in STREAMING_FLAGS + TUNING_FLAGS for name in flag.names}
    try:
        spelled, rest = takeFlags(arguments, kinds)
    except FlagError as error:
        raise CommandLineError(str(error)) from None
    given = _byFirstName(spelled)
    _refuseMissing(given)
    return given, rest


def validReport(program: str, settings: Settings) -> str:
    file, digest = settings.config_file, settings.config_digest
    return f"{program}: configuration file {file} is valid ({digest})"


def _byFirstName(spelled: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    given: dict[str, FlagValue] = {}
    for name, value in spelled.items():
        first = flagNamed(name).names[0]
        given.pop(first, None)
        given[first] = value
    return given


def _actionOf(given: Mapping[str, FlagValue], rest: Sequence[str]) -> Action | None:
    for name, action in (("v", Action.VERSION), ("h", Action.HELP), ("help_tls", Action.HELP_TLS)):
        if given.get(name):
            return action
    if not rest:
        return None
    commands = {"version": Action.VERSION, "help": Action.HELP}
    command = commands.get(rest[0].lower())
    if command is None:
        raise ConfigError(f'unrecognized command: "{rest[0]}"')
    return command


def _signal(text: str, read: Callable[[str], str]) -> Invocation:
    signal, *processes = text.split("=")
    if len(processes) > 1:
        raise ConfigError(f"invalid signal parameters: [{' '.join(processes[1:])}]")
    process = processes[0] if processes else ""
    if process:
        # The path of a file with the process id may stand there as well.
        with suppress(OSError, ValueError):
            process = read(process).strip()
    number = process.removesuffix("*")
    if number and not (number.isascii() and number.isdecimal()):
        raise ConfigError(f"invalid pid: {number}")
    if signal not in SIGNALS:
        raise ConfigError(f'unknown signal "{signal}"')
    return Invocation(Action.SIGNAL, signal=signal, process=process)


def _refuseMissing(given: Mapping[str, FlagValue]) -> None:
    for name, value in given.items():
        flag = flagNamed(name)
        if flag.key and value:
            from natsbroker.config.keys.root import keyAt

            feature = keyAt(flag.key).unsupported
            if feature is not None and not feature.accepts(value):
                raise NotSupportedYet(str(feature), flag.name)


def _runOrTest(
    given: Mapping[str, FlagValue],
    environment: Mapping[str, str],
    read: Callable[[str], str],
    isStreaming: bool,
) -> Invocation:
    # Loaded here, because the version and signals need no settings.
    from natsbroker.server.configuration.build import buildDefaults, buildFile
    from natsbroker.server.configuration.overrides import overriding

    path, testing = configurationFile(given), bool(given.get("t"))
    if testing and not path:
        raise ConfigError("must specify [-c, --config] option to check configuration file syntax")
    override, sockets = overriding(given, read, isStreaming), {}
    if "LISTEN_FDS" in environment and not testing:
        from natsbroker.server.configuration.passedsockets import listeningAt, passedSockets

        sockets = passedSockets(environment, os.getpid())
        override = listeningAt(sockets, override)
    built = buildFile(path, environment, override, read) if path else buildDefaults(override)
    if testing and built.warnings:
        raise ConfigErrors(built.warnings)
    action = Action.TEST if testing else Action.RUN
    return Invocation(action, built.settings, built.warnings, override, sockets=sockets)


def configurationFile(given: Mapping[str, FlagValue]) -> str:
    path, other = str(given.get("c", "")), str(given.get("sc", ""))
    if path and other and path != other:
        raise ConfigError("-c and -sc must name the same configuration file")
    return path or other
