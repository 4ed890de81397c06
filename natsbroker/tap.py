"""
C{twistd natsbroker}: options and the service.

The options are checked before twistd leaves the terminal. twistd keeps its own pid file and
signals; reload (HUP), lame duck (USR2) and another opening of the log file (USR1) are added. The
log is the broker's, unless twistd's C{--logger} or C{--syslog} chooses another. The reason for a
failed start is one line of the log or of standard error, with exit code 1.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from twisted.application.service import MultiService, Service
from twisted.cred.strcred import AuthOptionMixin
from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.failure import Failure
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from natsbroker.auth.checkers import SUPPORTED
from natsbroker.auth.plugins import CredPlugin
from natsbroker.broker import Broker
from natsbroker.config.addresses import checkPort
from natsbroker.config.errors import OPEN, ConfigError
from natsbroker.config.files import readText
from natsbroker.config.goflags import FlagValue
from natsbroker.config.model import Settings
from natsbroker.daemon.logs import ProcessLog
from natsbroker.daemon.processfiles import ProcessFiles
from natsbroker.daemon.servicemanager import ServiceManager
from natsbroker.daemon.signals import Signals
from natsbroker.runtime.failures import failureReason
from natsbroker.runtime.process import processesOf
from natsbroker.server.configuration.build import buildDefaults, buildFile
from natsbroker.server.configuration.commandline import configurationFile, takeStreaming
from natsbroker.server.configuration.overrides import overriding

_log = Logger(namespace="natsbroker")


class Options(UsageOptions, AuthOptionMixin):
    """
    The options of C{twistd natsbroker}. Each wins over the configuration file.

    @cvar supportedInterfaces: the kinds of credentials that a checker of C{--auth} may check.
    @ivar clients: descriptions of the endpoints for clients.
    """

    synopsis = "[options]"
    longdesc = (
        "A message broker for NATS clients. The flags of nats-streaming-server, with one dash or "
        "two, turn NATS Streaming on: natsbroker --help lists them."
    )
    optFlags = [
        ["debug", "D", "Log debugging lines."],
        ["trace", "V", "Log the protocol."],
        ["pure", None, "Do not use the compiled lane."],
    ]
    optParameters = [
        ["config", "c", None, "Configuration file, in the language of nats-server.conf."],
        ["http", "m", None, "Port for the monitoring pages, on loopback; -1 for any."],
        ["name", "n", None, "Name of the server."],
        ["user", None, None, "User name that clients log in with."],
        ["pass", None, None, "The user's password."],
        ["token", None, None, "Token that clients log in with."],
        ["workers", None, None, "How many processes are the server, or auto for one on each core."],
        ["ports_file_dir", None, None, "Folder for the file that lists the ports in use."],
    ]
    compData: Any = None
    parent: Any = None
    supportedInterfaces: Any = SUPPORTED

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.clients: list[str] = []
        self.settings = Settings()
        self._flags: dict[str, FlagValue] = {}

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        arguments = sys.argv[1:] if options is None else options
        try:
            self._flags, rest = takeStreaming(arguments)
        except ConfigError as error:
            raise UsageError(str(error)) from error
        super().parseOptions(rest)  # type: ignore[no-untyped-call]

    def opt_client(self, description: str) -> None:
        """
        Endpoint for clients, as tcp:4222:interface=127.0.0.1, ssl:... or unix:/path; may be given
        more than once. By default the address of the configuration.
        """
        self.clients.append(description)

    opt_p = opt_client

    def opt_auth(self, description: str) -> None:
        """
        Check logins with TYPE[:ARGUMENT], a checker that --help-auth lists; may be given again.
        """
        super().opt_auth(description)  # type: ignore[no-untyped-call]

    def postOptions(self) -> None:
        try:
            self.settings = self.read(os.environ)
        except ConfigError as error:
            raise UsageError(str(error)) from error
        authorization = self.settings.authorization
        if self.checkers and (authorization.plugin or authorization.token or authorization.user):
            raise UsageError(
                "--auth decides about logins, so a user, token or plugin has no effect"
            )

    @property
    def checkers(self) -> list[Any]:
        return list(self.get("credCheckers", ()))

    def read(self, environment: Mapping[str, str]) -> Settings:
        path = self.path
        if not path:
            return buildDefaults(self._override).settings
        return buildFile(path, environment, self._override).settings

    @property
    def path(self) -> str:
        return configurationFile({**self._flags, "c": self["config"] or ""})

    def _override(self, settings: Settings) -> Settings:
        given = dict(self._flags)
        for option, flag in _FLAGS.items():
            value = self[option]
            if value == "" and option in ("user", "pass", "token"):
                raise ConfigError(OPEN, f"--{option}")
            if value:
                given[flag] = value if isinstance(value, str) else True
        if "m" in given:
            try:
                given["m"] = checkPort(int(given["m"]))
            except ValueError:
                raise ConfigError(f"invalid port {self['http']}", "--http") from None
        return overriding(given, readText)(settings)


_FLAGS = {
    "debug": "D",
    "trace": "V",
    "pure": "pure",
    "http": "m",
    "name": "n",
    "user": "user",
    "pass": "pass",
    "token": "auth",
    "ports_file_dir": "ports_file_dir",
    "workers": "workers",
}
"""Options -> the flags of the command line that mean the same."""


class TwistdService(MultiService):
    """
    The part of a service that twistd sees. It starts and stops a L{Broker}, or a L{Supervisor
    <natsbroker.workers.supervisor.Supervisor>} of several brokers.
    """

    log: ProcessLog | None = None
    whenReady: Callable[[], Deferred[None]]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)  # type: ignore[no-untyped-call]
        self.twistd: MutableMapping[str, Any] = {}

    def setServiceParent(self, parent: Any) -> None:
        if self.log is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self.log.observer)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]

    def startService(self) -> None:
        """
        Start, or end the process.

        @raise SystemExit: if it fails. twistd would show a traceback for any other exception; its
            handling of those is repeated here.
        """
        try:
            super().startService()  # type: ignore[no-untyped-call]
        except Exception:
            reason = failureReason(Failure())
            _log.critical("{reason}", reason=reason)
            super().stopService()  # type: ignore[no-untyped-call]
            if self.twistd.get("pidfile"):
                Path(self.twistd["pidfile"]).unlink(missing_ok=True)
            self._answerTerminal(_failed(reason))
            raise SystemExit(1) from None
        # twistd would report success to the terminal now, while a store may still be read.
        pipe = self.twistd.pop("statusPipe", None)
        self.whenReady().addCallbacks(
            lambda _: self._answerTerminal(b"0", pipe),
            lambda failure: self._answerTerminal(_failed(failureReason(failure)), pipe),
        )

    def failAfterReactor(self) -> None:
        """End with code 1 after the reactor. By itself, twistd ends with code 0 or by a signal."""
        if self.twistd:
            atexit.register(_exitAsFailed)

    def _answerTerminal(self, answer: bytes, pipe: int | None = None) -> None:
        """
        Answer the process that waits in the terminal for a daemon's start.

        @param answer: C{0}, or the result of L{_failed}.
        @param pipe: to that process, if it was taken from twistd already.
        """
        if pipe is None:
            pipe = self.twistd.pop("statusPipe", None)
        if pipe is not None:
            # The terminal may have been closed meanwhile.
            with suppress(BrokenPipeError):
                os.write(pipe, answer)
            os.close(pipe)


class TwistdBroker(TwistdService, Broker):
    """A broker."""


def _failed(reason: str) -> bytes:
    """The answer for a start that failed: one byte, then the reason, 100 bytes in all."""
    return f"1 {reason}".encode("ascii", "backslashreplace")[:100]


def _exitAsFailed() -> None:
    """End the process with code 1, as no other handler of the interpreter's end can."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


class SignalService(Service):
    name = "signals"

    def __init__(
        self,
        reactor: Any,
        broker: Any,
        reload: Callable[[], object],
        log: ProcessLog | None,
    ) -> None:
        self._broker = broker
        answers = {signal.SIGHUP: reload, signal.SIGUSR2: self._lameDuck}
        if log is not None:
            answers[signal.SIGUSR1] = log.reopen
        if not isinstance(broker, Broker):
            answers[signal.SIGURG] = broker.upgrade
        self._signals = Signals(reactor, answers)
        self._reactor = reactor

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._signals.install()
        # An error that is known at once is raised to twistd before the reactor runs.
        self._reactor.callWhenRunning(self._watch)

    def _watch(self) -> None:
        self._broker.whenReady().addErrback(self._giveUp)

    def _giveUp(self, failure: Failure) -> None:
        _log.critical("{reason}", reason=failureReason(failure))
        self._broker.failAfterReactor()
        self._stop()

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        self._signals.uninstall()

    def _lameDuck(self) -> None:
        if not self._broker.isLameDuck:
            self._broker.lameDuck().addCallback(lambda _: self._stop())

    def _stop(self) -> None:
        if self.running:
            self._reactor.stop()


def makeService(options: Options, reactor: Any = None, stdout: TextIO | None = None) -> Any:
    """
    @param stdout: takes the log if twistd stays in the foreground; by default standard output.
    @raise SystemExit: if the broker cannot be composed, or its log file cannot be opened; the code
        is the reason, which the interpreter prints.
    """
    authorizer = CredPlugin(options.checkers) if options.checkers else None
    log = _logFor(options, stdout or sys.stdout)
    try:
        broker = _serviceFor(options, reactor, authorizer)
        if log is not None:
            log.open()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SystemExit(f"error opening file: open {error.filename}: {why}") from None
    except Exception:
        reason = failureReason(Failure())
        raise SystemExit(f"natsbroker: {reason}") from None
    if options.parent is not None:
        broker.twistd = options.parent
    if log is not None:
        broker.log = log
        broker.reactor.addSystemEventTrigger("after", "shutdown", log.close)
        broker.addPlanner(log.plan)
    read = (lambda: options.read(os.environ)) if options.path else None
    processFiles = ProcessFiles(broker, "natsbroker", read)
    processFiles.setServiceParent(broker)  # type: ignore[no-untyped-call]
    manager = ServiceManager(broker, processFiles.reload, os.environ)
    manager.setServiceParent(broker)  # type: ignore[no-untyped-call]
    signals = SignalService(broker.reactor, broker, manager.reload, log)
    signals.setServiceParent(broker)  # type: ignore[no-untyped-call]
    return broker


def _serviceFor(options: Options, reactor: Any, authorizer: CredPlugin | None) -> Any:
    settings = options.settings
    if processesOf(settings.workers) == 1:
        return TwistdBroker(
            settings, reactor=reactor, endpoints=options.clients or None, authorizer=authorizer
        )
    from natsbroker.workers.settings import refusals
    from natsbroker.workers.supervisor import Supervisor

    class TwistdSupervisor(TwistdService, Supervisor):
        """Several brokers."""

    for option, isGiven in (("--client", options.clients), ("--auth", options.checkers)):
        if isGiven:
            raise ValueError(
                f"{option}: endpoints and checkers work in one process only; use one worker"
            )
    for problem in refusals(settings):
        raise ValueError(problem)
    return TwistdSupervisor(settings, reactor=reactor)


def _logFor(options: Options, stdout: TextIO) -> ProcessLog | None:
    parent = options.parent
    if parent is None or parent.get("logger") or parent.get("syslog"):
        return None
    named = str(parent.get("logfile") or "")
    if not named and not parent.get("nodaemon"):
        named = "twistd.log"
    return ProcessLog(stdout, options.settings.logging, "" if named == "-" else named)
