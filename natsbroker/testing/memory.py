"""
A whole broker without sockets and with a clock that only the test moves. Nothing happens between
two calls of the test, and the same calls always have the same outcome.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import (
    IAddress,
    IListeningPort,
    IProtocolFactory,
    IReactorFromThreads,
    IStreamServerEndpoint,
)
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.accounts.account import Bus
from natsbroker.broker import Broker, requireSettings
from natsbroker.config.model import Settings
from natsbroker.server.configuration.build import buildText
from natsbroker.subjects.grammar import notBytes
from natsbroker.testing.transport import MemoryTransport

__all__ = ["MemoryBroker", "MemoryConnection", "MemoryReactor"]

#: The address of those who listen on all.
_ANYWHERE = "0.0.0.0"

#: The longest stop of a broker, in seconds of its own clock.
_STOPPING = 60.0


class _NoThreads:
    def callInThreadWithCallback(
        self, onResult: Callable[[bool, Any], None], call: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        try:
            result = call(*args, **kw)
        except Exception:
            onResult(False, Failure())
        else:
            onResult(True, result)


@implementer(IReactorFromThreads)
class MemoryReactor(MemoryReactorClock):
    def getThreadPool(self) -> Any:
        return _NoThreads()

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        self.callLater(0, callable, *args, **kwargs)

    def pass_(self, seconds: float) -> None:
        end = self.seconds() + seconds
        while True:
            times = [call.getTime() for call in self.getDelayedCalls()]
            due = min(times, default=end)
            if due > end:
                break
            self.advance(max(due - self.seconds(), 0))
            if not times:
                break
        self.advance(max(end - self.seconds(), 0))


@implementer(IListeningPort)
class _MemoryPort:
    def __init__(self, factory: IProtocolFactory, address: IAddress) -> None:
        self.factory = factory
        self.isOpen = True
        self._address = address

    def startListening(self) -> None:
        self.isOpen = True

    def stopListening(self) -> Deferred[None]:
        self.isOpen = False
        return succeed(None)

    def getHost(self) -> IAddress:
        return self._address


@implementer(IStreamServerEndpoint)
class _MemoryEndpoint:
    def __init__(self, host: str, port: int) -> None:
        self.port: _MemoryPort | None = None
        self._address = IPv4Address("TCP", host, port if port > 0 else 4222)

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        self.port = _MemoryPort(protocolFactory, self._address)
        return succeed(self.port)


class MemoryConnection:
    """
    A client's end of a connection.

    @ivar info: the fields of the first INFO, if L{MemoryBroker.connect} logged in; else empty.
    """

    def __init__(self, reactor: MemoryReactor, transport: MemoryTransport) -> None:
        self._reactor = reactor
        self.transport = transport
        self.info: Mapping[str, Any] = {}

    def send(self, *pieces: bytes) -> None:
        """Send bytes, each piece in a packet of its own; nothing over a closed connection."""
        for piece in pieces:
            if not isinstance(piece, bytes):
                raise TypeError(f"what a client sends is {notBytes(piece)}")
            self.transport.send(piece)

    def receive(self) -> bytes:
        self._reactor.pass_(0)
        return self.transport.take()

    def request(self, *pieces: bytes) -> bytes:
        self.send(*pieces)
        return self.receive()

    @property
    def closed(self) -> str:
        """
        Whether the client takes output of the broker. Set it to false for a receiver that takes
        nothing.
        """
        self._reactor.pass_(0)
        return self.transport.closed

    @property
    def taking(self) -> bool:
        """
        Whether what the broker sends is taken; set it to false for a receiver that takes nothing.
        """
        return self.transport.taking

    @taking.setter
    def taking(self, taking: bool) -> None:
        self.transport.taking = taking

    @property
    def isRead(self) -> bool:
        return self.transport.isReading

    def close(self) -> None:
        self.transport.hangUp()
        self._reactor.pass_(0)


def _requireKnown(parts: Iterable[str]) -> None:
    """Raise C{TypeError} for an argument that L{MemoryBroker} does not have."""
    known = {*signature(MemoryBroker).parameters, *signature(Broker).parameters}
    known -= {"parts", "reactor", "endpoints", "random"}
    for name in parts:
        if name not in known:
            near = get_close_matches(name, known, n=1) or sorted(known)
            raise TypeError(f"MemoryBroker has no argument {name}, but {', '.join(near)}")


class MemoryBroker:
    """
    A broker for tests. As a context manager it stops itself::

        with MemoryBroker(configText="max_payload: 100") as broker:
            client = broker.connect({"verbose": False})
            client.send(b"SUB foo 1\\r\\n")

    @ivar broker: the broker itself.
    @ivar reactor: its reactor, whose clock begins at zero.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        configText: str | None = None,
        *,
        seed: int = 1,
        environment: Mapping[str, str] | None = None,
        **parts: Any,
    ) -> None:
        """
        @param settings: the settings; a broker that would listen on all addresses listens on
            loopback.
        @param configText: the settings in the language of the configuration file, instead. A
            warning that the broker would log about it is a C{UserWarning}.
        @param seed: the seed of all random choices.
        @param environment: the environment variables that C{configText} can refer to.
        @param parts: further arguments of L{Broker}.
        @raise TypeError: for an argument of another name or type.
        @raise ValueError: if both settings and text are given.
        """
        if configText is not None:
            if settings is not None:
                raise ValueError("settings or their text, not both")
            built = buildText(configText, environment or {}, "memory.conf")
            for warning in built.warnings:
                warnings.warn(str(warning), stacklevel=2)
            settings = built.settings
        settings = Settings() if settings is None else settings
        requireSettings(settings)
        _requireKnown(parts)
        if settings.host == _ANYWHERE:
            settings = replace(settings, host="127.0.0.1")
        self.reactor: MemoryReactor = MemoryReactor()  # type: ignore[no-untyped-call]
        self._endpoint = _MemoryEndpoint(settings.host, settings.port)
        self._nextPort = 50000
        self.broker = Broker(
            settings, reactor=self.reactor, endpoints=[self._endpoint], random=Random(seed), **parts
        )
        self.broker.startService()
        self.advance(0)

    def connect(
        self, options: Mapping[str, Any] | None = None, *, host: str = "127.0.0.1"
    ) -> MemoryConnection:
        """
        @param options: the options of CONNECT. INFO and the answer are then read before this
            returns. With C{None} nothing is sent, and INFO is the first frame to read.
        @param host: the address that it seems to come from.
        @raise ConnectionRefusedError: if the broker does not listen any more.
        @raise TypeError: for options that CONNECT does not have.
        """
        if not isinstance(options, (Mapping, type(None))):
            raise TypeError(f"the options of a CONNECT are a dict, not {type(options).__name__}")
        port = self._endpoint.port
        if port is None or not port.isOpen:
            raise ConnectionRefusedError
        self._nextPort += 1
        peer = IPv4Address("TCP", host, self._nextPort)
        protocol = port.factory.buildProtocol(peer)
        if protocol is None:
            raise ConnectionRefusedError
        transport = MemoryTransport(self.reactor, protocol, peer, port.getHost())
        transport.connect()
        connection = MemoryConnection(self.reactor, transport)
        if options is not None:
            connection.info = json.loads(connection.receive()[len(b"INFO ") :])
            connection.request(b"CONNECT %b\r\n" % json.dumps(dict(options)).encode())
        return connection

    def bus(self, account: str = "$G", isLocal: bool = False) -> Bus:
        return self.broker.bus(account, isLocal)

    def advance(self, seconds: float) -> None:
        self.reactor.pass_(seconds)

    def stop(self) -> None:
        outcome: list[Any] = []
        self.broker.stopService().addBoth(outcome.append)
        end = self.reactor.seconds() + _STOPPING
        while not outcome and self.reactor.seconds() < end:
            self.advance(0.1)
        if not outcome:
            raise TimeoutError("the broker does not stop")
        if isinstance(outcome[0], Failure):
            outcome[0].raiseException()

    def __enter__(self) -> MemoryBroker:
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop()
