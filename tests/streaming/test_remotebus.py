"""
NATS Streaming on the bus of another NATS server, as the settings want it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import succeed
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from natsbroker.client.options import ConnectOptions
from natsbroker.config.settings.streaming import Streaming, splitServers
from natsbroker.runtime.failures import StartError
from natsbroker.storage.memory import MemoryStore
from natsbroker.streaming.remotebus import ServerPool, onlyServer, optionsFor, remoteBus
from natsbroker.streaming.service import StreamingService
from tests.client.stage import Stage
from tests.streaming.stores import LeasedStore, Shared


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A bus that is connected to a broker in memory."""
    made = Stage()
    made.start()
    yield made
    made.bus.stopService()
    made.settle()
    made.broker.stop()


def opened(stage: Stage, store: Any, clusterId: str = "test-cluster") -> Any:
    """Open a store for a cluster: the store, or the failure."""
    outcome: list[Any] = []
    streaming = Streaming(cluster_id=clusterId, nats_server="nats://h")
    opening = onlyServer(stage.bus, stage.broker.reactor, streaming, lambda: succeed(store))
    opening().addBoth(outcome.append)
    stage.settle()
    stage.broker.advance(1)
    return outcome[0]


class TestOnlyServer:
    """One streaming server for a cluster."""

    def serve(self, stage: Stage) -> StreamingService:
        """A service on the same server."""
        clock = stage.broker.reactor
        service = StreamingService(
            stage.broker.bus(), clock, lambda: succeed(MemoryStore(clock)), Streaming()
        )
        service.startService()
        return service

    def test_noOtherService(self, stage: Stage) -> None:
        """If no other service answers, the store is opened."""
        store = MemoryStore(stage.broker.reactor)
        assert opened(stage, store) is store

    def test_anotherService(self, stage: Stage) -> None:
        """If another service answers, the store is closed, as clients would be answered twice."""
        service, store = self.serve(stage), MemoryStore(stage.broker.reactor)
        outcome = opened(stage, store)
        assert isinstance(outcome, Failure)
        assert outcome.check(StartError)
        assert 'another streaming server with cluster ID "test-cluster"' in str(outcome.value)
        closed: list[Any] = []
        store.logs().addErrback(closed.append)
        assert closed
        assert service.context.clients.byID == {}
        service.stopService()

    def test_otherCluster(self, stage: Stage) -> None:
        """A streaming server of another cluster does not matter."""
        service, store = self.serve(stage), MemoryStore(stage.broker.reactor)
        assert opened(stage, store, "other") is store
        service.stopService()

    def test_sharedStore(self, stage: Stage) -> None:
        """
        Brokers that share a store are not refused when another one answers, as the store decides
        which one serves.
        """
        service = self.serve(stage)
        store = LeasedStore(Shared(MemoryStore(stage.broker.reactor)))
        assert opened(stage, store) is store
        service.stopService()

    def test_busFails(self) -> None:
        """If there is no connection, the store is not opened."""
        stage = Stage()
        stage.isDown = True
        stage.start()
        stage.fail()
        outcome = opened(stage, None)
        assert outcome.check(ConnectionRefusedError)
        stage.broker.stop()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("nats://h", ConnectOptions("_NSS-c-general", "u", "p", "t")),
        ("nats://a:b@h", ConnectOptions("_NSS-c-general", "a", "b")),
        ("nats://abc@h", ConnectOptions("_NSS-c-general", token="abc")),
    ],
)
def test_optionsFor(url: str, expected: ConnectOptions) -> None:
    """A login in the URL wins over the keys in the configuration."""
    streaming = Streaming(cluster_id="c", nats_server=url, username="u", password="p", token="t")
    [place] = splitServers(url)
    assert optionsFor(streaming, place) == expected


class TestServerPool:
    """Which server is tried."""

    def test_turns(self) -> None:
        """Configured servers and discovered ones take turns."""
        pool = ServerPool(splitServers("nats://a,nats://b:1"))
        places = [pool.next(["c:2", "a:4222", "nonsense"]) for _ in range(4)]
        assert [(place.host, place.port) for place in places] == [
            ("c", 2), ("a", 4222), ("b", 1), ("c", 2),
        ]  # fmt: skip

    def test_discoveredServer(self) -> None:
        """A discovered server is tried before those that were tried already, with the same user."""
        pool = ServerPool(splitServers("tls://u:p@a"))
        assert pool.next([]).host == "a"
        other = pool.next(["[::1]:5"])
        assert (other.host, other.port, other.user, other.isTLS) == ("::1", 5, "u", True)
        assert pool.next([]).host == "a"


def test_rotates() -> None:
    """Each attempt connects to the next server."""
    reactor = MemoryReactorClock()
    bus = remoteBus(reactor, Streaming(nats_server="nats://127.0.0.1:1,nats://127.0.0.2:2"))
    bus.startService()
    bus.startService()
    bus.startService()
    assert [port for _, port, *_ in reactor.tcpClients] == [1, 2, 1]
    bus.stopService()
