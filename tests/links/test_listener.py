"""
The listener for one kind of link.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock

from natsbroker.links.listener import LinkPort, ended
from natsbroker.runtime.failures import StartError
from tests.links.linkhosts import occupy

FACTORY = Factory()


def portOn(reactor: Any, port: int, host: str = "127.0.0.1") -> LinkPort:
    """A listener that is not open yet."""
    return LinkPort(reactor, host, port, FACTORY, "router", "nats-route")


def done(coroutine: Any) -> None:
    """Run a coroutine that does not wait."""
    assert Deferred.fromCoroutine(coroutine).called


def test_addressWhileOpen() -> None:
    """A listener has its address while it is open."""
    reactor: Any = MemoryReactorClock()
    port = portOn(reactor, 6222)
    assert (port.number, port.urls(), str(port)) == (0, [], "")
    done(port.open())
    assert [(server[0], server[1]) for server in reactor.tcpServers] == [(6222, FACTORY)]
    # A reactor in memory listens on an address of its own choice.
    assert (port.number, str(port)) == (6222, "0.0.0.0:6222")
    assert port.urls() == ["nats-route://127.0.0.1:6222"]
    done(port.close())
    assert (port.number, port.urls(), str(port)) == (0, [], "")


def test_nowhere() -> None:
    """With port 0 there is no listener, but it can be opened and closed like any other."""
    reactor: Any = MemoryReactorClock()
    port = portOn(reactor, 0)
    done(port.open())
    assert not reactor.tcpServers
    assert (port.number, port.urls(), str(port)) == (0, [], "")
    done(port.close())


def test_random() -> None:
    """With a negative port the kernel chooses the port."""
    reactor: Any = MemoryReactorClock()
    done(portOn(reactor, -1).open())
    assert [server[0] for server in reactor.tcpServers] == [0]


def test_passedSocket() -> None:
    """A socket that listens already is used instead of the address."""
    reactor: Any = MemoryReactorClock()
    passed = socket.create_server(("127.0.0.1", 0))
    number, family = passed.fileno(), passed.family
    port = LinkPort(reactor, "127.0.0.1", 6222, FACTORY, "router", "nats-route", passed)
    done(port.open())
    assert reactor.adoptedPorts == [(number, family, FACTORY)]
    assert not reactor.tcpServers


def test_portInUse() -> None:
    """The error for an address in use is nats-server's."""
    reactor: Any = MemoryReactorClock()
    occupy(reactor, 6222)
    opening = Deferred.fromCoroutine(portOn(reactor, 6222).open())
    failures: list[Any] = []
    opening.addErrback(failures.append)
    (failure,) = failures
    failure.trap(StartError)
    assert failure.getErrorMessage() == (
        "Error listening on router port: 6222 - "
        "listen tcp 127.0.0.1:6222: bind: address already in use"
    )


@pytest.mark.parametrize("isAtOnce", [True, False])
def test_ended(isAtOnce: bool) -> None:
    """Closing waits for the end of all links."""
    waiting: list[Callable[[], None]] = []

    def close(call: Callable[[], None]) -> None:
        if isAtOnce:
            call()
        else:
            waiting.append(call)

    ending = Deferred.fromCoroutine(ended(close))
    assert ending.called is isAtOnce
    for call in waiting:
        call()
    assert ending.called
