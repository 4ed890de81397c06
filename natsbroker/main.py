"""
The console script: nats-server's command line, with its words, streams and exit codes.

C{spark} as the first word, which nats-server refuses, leads to L{natsbroker.spark.cli}, and
C{streaming} to L{natsbroker.streaming.cli}. Each action imports what it needs: C{--version},
C{--signal} and C{-t} load neither Twisted nor the broker, because launchers wait only a few
seconds for them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from natsbroker import NATS_VERSION, __version__
from natsbroker.config.commandline import (
    Action,
    CommandLineError,
    Invocation,
    invocationFrom,
    validReport,
)
from natsbroker.config.errors import ConfigError

if TYPE_CHECKING:
    from socket import socket

    from natsbroker.config.model import Settings

#: What programs look for at the beginning of a line.
_PROGRAM = "nats-server"

#: What the usage calls the program.
_OURS = "natsbroker"

#: The exit code of a program that a closed pipe ends, as shells show it.
_BROKEN_PIPE = 128 + signal.SIGPIPE


def run(argv: Sequence[str] | None = None) -> None:
    """
    @param argv: the arguments without the program; by default those of the process, which then ends
        without taking the interpreter apart.
    @raise SystemExit: if arguments are given.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        code = main(arguments, os.environ, sys.stdout, sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        # C{natsbroker --help | head}. The interpreter flushes once more when it exits, and that
        # must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _BROKEN_PIPE
    if argv is None and arguments[:1] != ["spark"]:
        # Everything that must be closed has been. Python takes 50 ms for its own end, in which
        # clients find other servers while the launcher still waits for this one.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(
    arguments: Sequence[str], environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    """
    @raise BrokenPipeError: if C{stdout} has no reader any more.
    """
    if arguments and arguments[0] == "spark":
        from natsbroker.spark import cli

        return cli.main(arguments[1:], stdout, stderr)
    if arguments and arguments[0] == "streaming":
        from natsbroker.streaming.cli import main as streaming

        return streaming(arguments[1:], environment, stdout, stderr)
    try:
        invocation = invocationFrom(arguments, environment)
    except CommandLineError as error:
        print(error, file=stderr)
        _printUsage(stdout)
        return error.exitCode
    except ConfigError as error:
        print(f"{_PROGRAM}: {error}", file=stderr)
        return 1
    return _ACTIONS[invocation.action](invocation, environment, stdout, stderr)


def _printUsage(stdout: TextIO) -> None:
    from natsbroker.config.flags import usage

    print(usage(_OURS), file=stdout)


def _version(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    print(f"{_PROGRAM}: v{NATS_VERSION}", file=stdout)
    print(f"natsbroker: v{__version__}", file=stdout)
    return 0


def _help(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    _printUsage(stdout)
    return 0


def _helpTLS(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    from natsbroker.config.tls import tlsHelp

    print(tlsHelp(), file=stdout)
    return 0


def _signal(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    from natsbroker.server.processes import SignalError, sendSignal

    try:
        sendSignal(invocation.signal, invocation.process)
    except SignalError as error:
        print(f"{_PROGRAM}: {error}", file=stderr)
        return 1
    return 0


def _test(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    from natsbroker.errors import BrokerError
    from natsbroker.server.configtest import checkReferences

    settings = _settingsOf(invocation)
    try:
        _checkOperators(settings)
        checkReferences(settings)
    except (BrokerError, ValueError) as error:
        print(f"{_PROGRAM}: {error}", file=stderr)
        return 1
    print(validReport(_PROGRAM, settings), file=stderr)
    return 0


def _checkOperators(settings: Settings) -> None:
    """
    Check the JWTs of operators, if the settings name any.

    @raise ValueError: if they cannot be served.
    """
    if settings.operator.isOn:
        from natsbroker.auth.operator.operators import operatorsIn

        operatorsIn(settings)


def _serve(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    settings = _settingsOf(invocation)
    clientSocket = _openEarly(settings)
    from twisted.internet import reactor

    from natsbroker.server.process import ServerProcess
    from natsbroker.server.processfiles import programName

    process = ServerProcess(
        settings,
        reactor,
        stderr,
        programName(sys.argv[0]),
        _reader(invocation, environment),
        [str(warning) for warning in invocation.warnings],
        clientSocket,
    )
    try:
        return process.run()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        print(f"error opening file: open {error.filename}: {why}", file=stderr)
        return 1


def _openEarly(settings: Settings) -> socket | None:
    """
    Listen for clients before everything else is loaded, unless a store is read first: that can take
    longer than a client waits for INFO, and a refused connection sends it to another server.
    """
    from natsbroker.connections.opensocket import openSocket

    streaming = settings.streaming
    isReady = streaming is None or (streaming.store == "memory" and not streaming.nats_server)
    return openSocket(settings.host, settings.port) if settings.port > 0 and isReady else None


def _settingsOf(invocation: Invocation) -> Settings:
    settings = invocation.settings
    if settings is None:
        raise ValueError(f"{invocation.action} without settings")
    return settings


def _reader(
    invocation: Invocation, environment: Mapping[str, str]
) -> Callable[[], Settings] | None:
    """
    @return: reads the configuration file again and applies the flags; C{None} without a file.
    """
    path, override = _settingsOf(invocation).config_file, invocation.override
    if not path or override is None:
        return None
    from natsbroker.config.build import buildFile

    return lambda: buildFile(path, environment, override).settings


_ACTIONS: dict[Action, Callable[[Invocation, Mapping[str, str], TextIO, TextIO], int]] = {
    Action.RUN: _serve,
    Action.TEST: _test,
    Action.SIGNAL: _signal,
    Action.VERSION: _version,
    Action.HELP: _help,
    Action.HELP_TLS: _helpTLS,
}
