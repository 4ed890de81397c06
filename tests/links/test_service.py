"""
The service for one kind of link, where the kind makes no difference.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock

from natsbroker import hot
from natsbroker.clients.context import ClientContext
from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Logging, Settings
from natsbroker.links.context import LinkDependencies
from natsbroker.links.dialling import DialTerms
from natsbroker.links.listener import LinkPort
from natsbroker.links.registry import LinkRegistry
from natsbroker.links.service import LinkService
from natsbroker.runtime.failures import StartError
from tests.links.linkhosts import occupy
from tests.links.linkpeers import linked
from tests.server.support import logLines
from tests.support import Doorkeeper


class Thread:
    """
    A link that records the calls of the service.

    @ivar told: the changed limits, and the reasons for its end.
    """

    number = 1
    reason = ""
    counts = (0, 0, 0, 0)

    def __init__(self, service: Threads) -> None:
        self._service = service
        self.told: list[Any] = []

    def limitsChanged(self) -> None:
        self.told.append(self._service.context.settings)

    def close(self, error: Any) -> None:
        self.told.append(error.reason)


class Threads(LinkService[str]):
    """
    A kind of link without properties of its own.

    @ivar places: the addresses that were announced.
    @ivar dialled: the peers that were dialled.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.reactor: Any = MemoryReactorClock()
        unused: Any = None
        info = ServerInfo("", "", "", "")
        batch = hot.FlushBatch(lambda call: None)
        self.clients = ClientContext(self.reactor, unused, Doorkeeper(), info, batch)
        tracing = Logging(trace=True, max_traced_msg_len=7)
        self.clients.settings = Settings(logging=tracing)
        self.limits = linked(max_payload=9)
        dependencies = LinkDependencies(
            self.reactor,
            settings or Settings(),
            self.clients,
            unused,
            "ID",
            "ID",
            Random(1),
            unused,
            unused,
            unused,
            unused,
        )
        super().__init__(dependencies, self.limits)
        self.links: LinkRegistry[Any] = LinkRegistry(self.context)
        self._port = LinkPort(self.reactor, "127.0.0.1", 4, Factory(), "thread", "nats-thread")
        self.places: list[int] = []
        self.dialled: list[str] = []

    def _identify(self) -> None:
        self.places.append(self.port)
        self.dial("early")

    def announce(self) -> None:
        self._warnOfUnverified("threads")

    def dial(self, name: str) -> None:
        """Dial peers."""

        def connect() -> Deferred[Any]:
            self.dialled.append(name)
            return Deferred()

        self._diallers.dial(name, name, DialTerms(), connect, 0.0)
        self.reactor.advance(0)

    def use(self, limits: Settings) -> None:
        """Apply settings."""
        self._use(Settings(), limits)


def begun(coroutine: Any) -> Deferred[Any]:
    """Start a coroutine."""
    return Deferred.fromCoroutine(coroutine)


@pytest.mark.parametrize("isFast", [True, False])
def test_context(isFast: bool) -> None:
    """The context of links shares parts with that of clients, and has settings of its own."""
    threads = Threads(replace(Settings(), fast_lane=isFast))
    context, clients = threads.context, threads.clients
    assert (context.batch, context.wheel) == (clients.batch, clients.wheel)
    assert context.settings is threads.limits
    assert context.fastLane is isFast
    assert (context.tracing, context.maxTraced) == (True, 7)


def test_opensBeforeDialling() -> None:
    """The service opens its listener, logs the address, and only then dials peers."""
    threads = Threads()
    assert (threads.port, threads.urls()) == (0, [])
    threads.dial("a")
    assert begun(threads.open(None)).called
    assert threads.places == [4] and threads.dialled == []
    assert (threads.port, threads.urls()) == (4, ["nats-thread://127.0.0.1:4"])
    threads.dial("b")
    assert threads.dialled == ["b"]


def test_portInUse() -> None:
    """If the port is in use, the service does not log a listener, and does not dial."""
    threads = Threads()
    occupy(threads.reactor, 4)
    opening = begun(threads.open(None))
    failures: list[Any] = []
    opening.addErrback(failures.append)
    failures[0].trap(StartError)
    threads.dial("a")
    assert threads.places == [] and threads.dialled == []


def test_stopListening() -> None:
    """A service that stops listening dials no more, and keeps its links."""
    threads = Threads()
    begun(threads.open(None))
    link = Thread(threads)
    threads.links.linkOpened(link)
    assert begun(threads.stopListening()).called
    threads.dial("a")
    assert (threads.port, threads.dialled, link.told) == (0, [], [])


def test_close() -> None:
    """Closing the service closes its links, and waits for their end."""
    threads = Threads()
    begun(threads.open(None))
    link = Thread(threads)
    threads.links.linkOpened(link)
    closing = begun(threads.close())
    assert (threads.port, link.told, closing.called) == (0, ["Server Shutdown"], False)
    threads.links.linkGone(link)
    assert closing.called


def test_newSettings() -> None:
    """Changed settings apply to existing links, tracing included."""
    threads = Threads()
    link = Thread(threads)
    threads.links.linkOpened(link)
    limits = linked(max_payload=10)
    threads.clients.settings = Settings()
    threads.use(limits)
    assert link.told == [limits]
    assert (threads.context.tracing, threads.context.maxTraced) == (False, 0)


def test_unverified() -> None:
    """A configuration that does not verify dialled peers gives nats-server's warning."""
    with logLines() as lines:
        Threads().announce()
    assert lines == [
        "[WRN] TLS certificate chain and hostname of solicited threads will not be verified. "
        "DO NOT USE IN PRODUCTION!"
    ]
