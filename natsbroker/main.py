"""
The console script: nats-server's command line, with its words, streams and exit codes.

Some first words, which nats-server refuses, are commands: C{check} leads to
L{natsbroker.server.checking.cli}, C{top} to L{natsbroker.monitoring.top.cli}, C{spark} to
L{natsbroker.spark.cli}, C{streaming} to L{natsbroker.daemon.streamingcli}, C{config} to
L{natsbroker.config.schema} and C{completion} to L{natsbroker.server.configuration.completion}. Each
action imports what it needs: C{--version}, C{--signal} and C{-t} load neither Twisted nor the
broker, because launchers wait only a few seconds for them.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from natsbroker import NATS_VERSION, __version__
from natsbroker.config.errors import ConfigError
from natsbroker.server.configuration.commandline import (
    Action,
    CommandLineError,
    Invocation,
    invocationFrom,
    validReport,
)

if TYPE_CHECKING:
    from socket import socket

    from natsbroker.config.model import Settings

#: The name that programs look for at the beginning of a line.
_PROGRAM = "nats-server"

#: A command or link of this name serves NATS Streaming, as its namesake does.
_STREAMING = "nats-streaming-server"

#: The program's name in the usage.
_OURS = "natsbroker"

#: The exit code of a program that a closed pipe ends, as shells show it.
_BROKEN_PIPE = 128 + signal.SIGPIPE


def run(argv: Sequence[str] | None = None) -> None:
    """
    @param argv: the arguments without the program; by default those of the process, which then ends
        without the interpreter's cleanup.
    @raise SystemExit: if arguments are given.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        code = main(arguments, os.environ, sys.stdout, sys.stderr, os.path.basename(sys.argv[0]))
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
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    program: str = _OURS,
) -> int:
    """
    Run the command line. C{program} is the name by which it was started: that of
    nats-streaming-server starts NATS Streaming.
    """
    if arguments and arguments[0] == "spark":
        from natsbroker.spark import cli

        return cli.main(arguments[1:], stdout, stderr)
    if arguments and arguments[0] == "streaming":
        from natsbroker.daemon.streamingcli import main as streaming

        return streaming(arguments[1:], environment, stdout, stderr)
    if arguments and arguments[0] == "check":
        from natsbroker.server.checking.cli import main as check

        return check(arguments[1:], environment, stdout, stderr)
    if arguments and arguments[0] == "top":
        from natsbroker.monitoring.top.cli import main as top

        return top(arguments[1:], stdout, stderr)
    if arguments and arguments[0] == "config":
        from natsbroker.config.schema import main as config

        return config(arguments[1:], stdout, stderr)
    if arguments and arguments[0] == "completion":
        from natsbroker.server.configuration.completion import main as completion
        from natsbroker.spark.cli import NAMES

        return completion(arguments[1:], stdout, stderr, NAMES)
    try:
        invocation = invocationFrom(arguments, environment, isStreaming=program == _STREAMING)
    except CommandLineError as error:
        # Below the usage, where it is seen.
        _printUsage(stdout)
        stdout.flush()
        print(f"{_PROGRAM}: {error}", file=stderr)
        return error.exitCode
    except ConfigError as error:
        print(f"{_PROGRAM}: {error}", file=stderr)
        return 1
    return _ACTIONS[invocation.action](_Command(invocation, environment, stdout, stderr))


def _printUsage(stdout: TextIO) -> None:
    from natsbroker.config.flags import usage

    print(usage(_OURS), file=stdout)


@dataclass(frozen=True)
class _Command:
    invocation: Invocation
    environment: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO

    @property
    def settings(self) -> Settings:
        settings = self.invocation.settings
        if settings is None:
            raise ValueError(f"{self.invocation.action} without settings")
        return settings

    def version(self) -> int:
        print(f"{_PROGRAM}: v{NATS_VERSION}", file=self.stdout)
        print(f"natsbroker: v{__version__}", file=self.stdout)
        return 0

    def help(self) -> int:
        _printUsage(self.stdout)
        return 0

    def helpTLS(self) -> int:
        from natsbroker.config.tls import tlsHelp

        print(tlsHelp(), file=self.stdout)
        return 0

    def signal(self) -> int:
        from natsbroker.daemon.processes import SignalError, sendSignal

        try:
            sendSignal(self.invocation.signal, self.invocation.process)
        except SignalError as error:
            print(f"{_PROGRAM}: {error}", file=self.stderr)
            return 1
        return 0

    def test(self) -> int:
        from natsbroker.server.configtest import referenceProblems

        settings = self.settings
        for problem in [
            *(error for _, error in referenceProblems(settings)),
            *_workerProblems(settings),
        ]:
            print(f"{_PROGRAM}: {problem}", file=self.stderr)
            return 1
        print(validReport(_PROGRAM, settings), file=self.stderr)
        return 0

    def serve(self) -> int:
        settings = self.settings
        for problem in _workerProblems(settings):
            print(f"{_PROGRAM}: {problem}", file=self.stderr)
            return 1
        sockets = _openEarly(settings, self.invocation.sockets)
        # Modules are no garbage. The process enables the collector when it has made the broker.
        gc.disable()

        from twisted.internet import reactor

        from natsbroker.daemon.process import ServerProcess
        from natsbroker.daemon.processfiles import programName
        from natsbroker.daemon.syslog import SyslogError

        made: dict[str, Any] = {}
        if _isShared(settings):
            from natsbroker.workers.supervisor import Supervisor

            made["make"] = Supervisor
        process = ServerProcess(
            settings,
            reactor,
            self.stderr,
            programName(sys.argv[0]),
            self._reader(),
            [str(warning) for warning in self.invocation.warnings],
            sockets,
            self.environment,
            **made,
        )
        try:
            return process.run()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            text = f"error opening file: open {error.filename}: {why}"
            print(f"{_PROGRAM}: {text}", file=self.stderr)
            return 1
        except SyslogError as error:
            print(f"{_PROGRAM}: {error}", file=self.stderr)
            return 1
        finally:
            gc.enable()

    def _reader(self) -> Callable[[], Settings] | None:
        path, override = self.settings.config_file, self.invocation.override
        if not path or override is None:
            return None
        from natsbroker.server.configuration.build import buildFile

        return lambda: buildFile(path, self.environment, override).settings


def _isShared(settings: Settings) -> bool:
    """Whether several processes are the server."""
    if settings.workers == 1:
        return False
    from natsbroker.runtime.process import processesOf

    return processesOf(settings.workers) > 1


def _workerProblems(settings: Settings) -> list[str]:
    if not _isShared(settings):
        return []
    from natsbroker.workers.settings import refusals

    return list(refusals(settings))


def _openEarly(settings: Settings, passed: Mapping[str, socket]) -> Mapping[str, socket]:
    """
    Listen for clients first, unless a store is read, which can take longer than a client waits for
    INFO; a refused connection sends it to another server.
    """
    from natsbroker.connections.opensocket import openSocket

    streaming = settings.streaming
    isReady = streaming is None or (streaming.store == "memory" and not streaming.nats_server)
    if "client" in passed or settings.port <= 0 or settings.jetstream.enabled or not isReady:
        return passed
    opened = openSocket(settings.host, settings.port)
    return passed if opened is None else {**passed, "client": opened}


_ACTIONS: dict[Action, Callable[[_Command], int]] = {
    Action.RUN: _Command.serve,
    Action.TEST: _Command.test,
    Action.SIGNAL: _Command.signal,
    Action.VERSION: _Command.version,
    Action.HELP: _Command.help,
    Action.HELP_TLS: _Command.helpTLS,
}
