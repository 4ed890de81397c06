"""
The console script: nats-server's command line, and what it prints; and C{natsbroker spark}.

Promises: the words, streams and exit codes of nats-server wherever a program reads them. C{spark}
as the first word, which nats-server refuses, leads to L{natsbroker.spark.cli}.
Must never know: how a broker works.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from natsbroker import __version__
from natsbroker.config.build import buildFile
from natsbroker.config.commandline import (
    Action,
    Invocation,
    UsageError,
    invocationFrom,
    validReport,
)
from natsbroker.config.errors import ConfigError
from natsbroker.config.helptext import tlsHelp, usage
from natsbroker.config.model import Settings
from natsbroker.hosting.files import programName
from natsbroker.hosting.identity import NATS_VERSION
from natsbroker.hosting.operators import withOperators
from natsbroker.hosting.process import ServerProcess
from natsbroker.hosting.signals import SignalError, sendSignal

__all__ = ["main", "run"]

#: What programs look for at the beginning of a line.
_PROGRAM = "nats-server"


def run(argv: Sequence[str] | None = None) -> None:
    """
    The console script.

    @param argv: the arguments without the program; by default those of the process.
    @raise SystemExit: always.
    """
    arguments = sys.argv[1:] if argv is None else argv
    sys.exit(main(arguments, os.environ, sys.stdout, sys.stderr))


def main(
    arguments: Sequence[str], environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    """
    Do what the command line asks for.

    @return: the exit code.
    """
    if arguments and arguments[0] == "spark":
        from natsbroker.spark import cli

        return cli.main(arguments[1:], stdout, stderr)
    try:
        invocation = invocationFrom(arguments, environment)
        if invocation.action is Action.SIGNAL:
            sendSignal(invocation.signal, invocation.process)
    except UsageError as error:
        print(error, file=stderr)
        print(usage(_PROGRAM), file=stdout)
        return error.exitCode
    except (ConfigError, SignalError) as error:
        print(f"{_PROGRAM}: {error}", file=stderr)
        return 1
    return _ACTIONS[invocation.action](invocation, environment, stdout, stderr)


def _version(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    print(f"{_PROGRAM}: v{NATS_VERSION}", file=stdout)
    print(f"natsbroker: v{__version__}", file=stdout)
    return 0


def _help(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    print(usage(_PROGRAM), file=stdout)
    return 0


def _helpTLS(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    print(tlsHelp(), file=stdout)
    return 0


def _signalled(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    return 0


def _test(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    settings = _settingsOf(invocation)
    try:
        withOperators(settings)
    except ValueError as error:
        print(f"{_PROGRAM}: {error}", file=stderr)
        return 1
    print(validReport(_PROGRAM, settings), file=stderr)
    return 0


def _serve(
    invocation: Invocation, environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    from twisted.internet import reactor

    settings = _settingsOf(invocation)
    process = ServerProcess(
        settings,
        reactor,
        stderr,
        programName(sys.argv[0]),
        _reader(invocation, environment),
        [str(warning) for warning in invocation.warnings],
    )
    try:
        return process.run()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        print(f"error opening file: open {error.filename}: {why}", file=stderr)
        return 1


def _settingsOf(invocation: Invocation) -> Settings:
    settings = invocation.settings
    if settings is None:
        raise ValueError(f"{invocation.action} without settings")
    return settings


def _reader(
    invocation: Invocation, environment: Mapping[str, str]
) -> Callable[[], Settings] | None:
    """
    What reads the configuration file anew, with the flags of the command line on top.
    """
    path, override = _settingsOf(invocation).config_file, invocation.override
    if not path or override is None:
        return None
    return lambda: buildFile(path, environment, override).settings


_ACTIONS: dict[Action, Callable[[Invocation, Mapping[str, str], TextIO, TextIO], int]] = {
    Action.RUN: _serve,
    Action.TEST: _test,
    Action.SIGNAL: _signalled,
    Action.VERSION: _version,
    Action.HELP: _help,
    Action.HELP_TLS: _helpTLS,
}
