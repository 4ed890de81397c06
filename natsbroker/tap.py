"""
C{twistd natsbroker}: options and the service.

Promises: the options are checked before twistd leaves the terminal; twistd keeps its own pid file,
log and signals, to which reload (HUP) and lame duck (USR2) are added.
Must never know: how a broker works.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from twisted.application.service import Service
from twisted.cred.strcred import AuthOptionMixin
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from natsbroker.auth.checkers import SUPPORTED
from natsbroker.broker import Broker
from natsbroker.config.addresses import checkPort
from natsbroker.config.build import buildDefaults, buildFile
from natsbroker.config.errors import ConfigError
from natsbroker.config.flags import KINDS, STREAMING_FLAGS
from natsbroker.config.goflags import FlagError, FlagValue, parseFlags
from natsbroker.config.model import Settings
from natsbroker.config.overrides_streaming import withStreaming
from natsbroker.errors import BrokerError
from natsbroker.hosting.authorizers import CredPlugin
from natsbroker.hosting.signals import Signals
from natsbroker.hosting.surroundings import Surroundings

__all__ = ["Options", "makeService"]

_log = Logger(namespace="natsbroker")


class Options(UsageOptions, AuthOptionMixin):
    """
    The options of C{twistd natsbroker}. Each wins over what the configuration file says.

    @cvar supportedInterfaces: the kinds of credentials that a checker of C{--auth} may check.
    @ivar clients: descriptions of the endpoints where clients can connect.
    @ivar settings: what all of it comes to; there when the options were parsed.
    """

    synopsis = "[options]"
    longdesc = "A message broker for NATS clients."
    optFlags = [
        ["debug", "D", "Log debugging lines."],
        ["trace", "V", "Log the protocol."],
        ["pure", None, "Do not use the compiled fast lane."],
        ["replace_durable", None, "Replace an active durable subscription, do not refuse."],
        ["streaming", None, "Serve NATS Streaming, with its defaults."],
    ]
    optParameters = [
        ["config", "c", None, "Configuration file, in the language of nats-server.conf."],
        ["http", "m", None, "Port for the monitoring pages, on loopback; -1 for any."],
        ["name", "n", None, "Name of the server."],
        ["user", None, None, "User that clients must be."],
        ["pass", None, None, "The user's password."],
        ["token", None, None, "Token that clients must bring."],
        ["ports_file_dir", None, None, "Folder for the file that lists the ports in use."],
        ["cluster_id", None, None, "Id of a NATS Streaming cluster; turns NATS Streaming on."],
        ["cid", None, None, "The same."],
        ["store", None, None, "Where its channels are: memory, file, or a plugin's name."],
        ["dir", None, None, "Folder for a store on disk."],
        ["max_channels", None, None, "Channels; 0 for any number."],
        ["max_subs", None, None, "Subscriptions of a channel; 0 for any number."],
        ["max_msgs", None, None, "Messages of a channel; 0 for any number."],
        ["max_bytes", None, None, "Bytes of a channel; 0 for any number."],
        ["max_age", None, None, "How long a message is kept; 0s for ever."],
        ["max_inactivity", None, None, "When a channel that nobody uses is deleted."],
        ["hb_interval", None, None, "Time between heartbeats of a client."],
        ["hb_timeout", None, None, "Time to answer one."],
        ["hb_fail_count", None, None, "How many a client may leave unanswered."],
    ]
    compData: Any = None
    supportedInterfaces: Any = SUPPORTED

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.clients: list[str] = []
        self.settings = Settings()

    def opt_client(self, description: str) -> None:
        """
        Endpoint for clients, as tcp:4222:interface=127.0.0.1, ssl:... or unix:/path; may be given
        more than once. By default what the configuration says.
        """
        self.clients.append(description)

    opt_p = opt_client

    def opt_auth(self, description: str) -> None:
        """
        Check logins with TYPE[:ARGUMENT], a checker that --help-auth lists; may be given again.
        """
        super().opt_auth(description)  # type: ignore[no-untyped-call]

    def postOptions(self) -> None:
        """
        Read the configuration.

        @raise UsageError: if it is not right.
        """
        try:
            self.settings = self.read(os.environ)
        except ConfigError as error:
            raise UsageError(str(error)) from error
        authorization = self.settings.authorization
        if self.checkers and (authorization.plugin or authorization.token or authorization.user):
            raise UsageError(
                "--auth decides who is let in; a user, token or plugin beside it would not count"
            )

    @property
    def checkers(self) -> list[Any]:
        """
        The checkers of C{--auth}, in order.
        """
        return list(self.get("credCheckers", ()))

    def read(self, environment: Mapping[str, str]) -> Settings:
        """
        Read the configuration file, if there is one, and put the options on top.

        @raise ConfigError: if it is not right.
        """
        path = self["config"]
        if path is None:
            return buildDefaults(self._override).settings
        return buildFile(path, environment, self._override).settings

    def _override(self, settings: Settings) -> Settings:
        logging, authorization = settings.logging, settings.authorization
        if self["debug"] or self["trace"]:
            logging = replace(
                logging,
                debug=logging.debug or bool(self["debug"]),
                trace=logging.trace or bool(self["trace"]),
            )
        for option, name in (("user", "user"), ("pass", "password"), ("token", "token")):
            if self[option] is not None:
                given: Any = {name: self[option], "defined": True}
                authorization = replace(authorization, **given)
        return replace(
            withStreaming(settings, self._streaming()),
            logging=logging,
            authorization=authorization,
            monitoring=self._monitoring(settings),
            server_name=self["name"] or settings.server_name,
            ports_file_dir=self["ports_file_dir"] or settings.ports_file_dir,
            fast_lane=settings.fast_lane and not self["pure"],
        )

    def _streaming(self) -> dict[str, FlagValue]:
        """
        The options of NATS Streaming, under the first spelling of their flags.
        """
        given: dict[str, FlagValue] = {}
        for flag in STREAMING_FLAGS:
            for name in flag.names:
                if self.get(name) not in (None, 0):
                    try:
                        found, _ = parseFlags([f"--{name}={self[name]}"], KINDS)
                    except FlagError as error:
                        raise ConfigError(str(error)) from None
                    given[flag.names[0]] = found[name]
        return given

    def _monitoring(self, settings: Settings) -> Any:
        if self["http"] is None:
            return settings.monitoring
        try:
            return replace(settings.monitoring, http_port=checkPort(int(self["http"])))
        except ValueError:
            raise ConfigError(f"invalid port {self['http']}", "--http") from None


class SignalService(Service):
    """
    Reload and lame duck by signal, for a broker in a process that is not ours alone; its end if the
    broker cannot start.
    """

    name = "signals"

    def __init__(self, reactor: Any, broker: Broker, surroundings: Surroundings) -> None:
        self._broker = broker
        self._signals = Signals(
            reactor, {signal.SIGHUP: surroundings.reload, signal.SIGUSR2: self._lameDuck}
        )
        self._reactor = reactor

    def startService(self) -> None:
        """
        Answer signals from now on.
        """
        super().startService()  # type: ignore[no-untyped-call]
        self._signals.install()
        # What is known at once is raised to twistd before the reactor runs.
        self._reactor.callWhenRunning(self._watch)

    def _watch(self) -> None:
        self._broker.whenReady().addErrback(self._giveUp)

    def _giveUp(self, failure: Failure) -> None:
        _log.critical("{reason}", reason=failure.getErrorMessage())
        if self.running:
            self._reactor.stop()

    def stopService(self) -> None:
        """
        Answer signals no more.
        """
        super().stopService()  # type: ignore[no-untyped-call]
        self._signals.uninstall()

    def _lameDuck(self) -> None:
        if not self._broker.isLameDuck:
            self._broker.lameDuck().addCallback(lambda _: self._left())

    def _left(self) -> None:
        if self.running:
            self._reactor.stop()


def makeService(
    options: Options,
    reactor: Any = None,
    makeBroker: Callable[..., Broker] = Broker,
) -> Broker:
    """
    The service that twistd runs.

    @param reactor: by default the global one.
    @param makeBroker: makes the broker.
    @raise UsageError: if the broker cannot be composed.
    """
    authorizer = CredPlugin(options.checkers) if options.checkers else None
    try:
        broker = makeBroker(
            options.settings,
            reactor=reactor,
            endpoints=options.clients or None,
            authorizer=authorizer,
        )
    except (BrokerError, ValueError) as error:
        raise UsageError(str(error)) from error
    read = (lambda: options.read(os.environ)) if options["config"] else None
    surroundings = Surroundings(broker, "natsbroker", read)
    surroundings.setServiceParent(broker)  # type: ignore[no-untyped-call]
    signals = SignalService(broker.reactor, broker, surroundings)
    signals.setServiceParent(broker)  # type: ignore[no-untyped-call]
    return broker
