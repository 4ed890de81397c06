"""
A client of NATS Streaming inside the broker.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from natsbroker.streaming.channelwriter import ChannelWriter
from natsbroker.testing.memory import MemoryBroker
from tests.server.support import logLines
from tests.support import Recorder


def writerOf(broker: MemoryBroker, channel: str = "E") -> ChannelWriter:
    """A writer to a channel."""
    return ChannelWriter(broker.bus(), broker.reactor, channel, "test-cluster")


def serviceOf(broker: MemoryBroker) -> Any:
    """The service that has the channel."""
    return cast(Any, broker.broker).getServiceNamed("streaming")


def stored(broker: MemoryBroker) -> int:
    """The number of messages in the channel."""
    (channel,) = serviceOf(broker).context.channels
    return int(channel.bounds.count)


def test_stores() -> None:
    """
    Written messages are stored although the client has to answer heartbeats; closing the writer
    removes its client.
    """
    with MemoryBroker(configText="streaming { hb_interval: 1s, hb_fail_count: 1 }") as broker:
        writer = writerOf(broker)
        for _ in range(3):
            writer.write(b"one")
            writer.write(b"two")
            broker.advance(60)
        assert (writer.stored, writer.lost, stored(broker)) == (6, 0, 6)
        clients = serviceOf(broker).context.clients
        assert len(clients.byID) == 1
        writer.close()
        broker.advance(1)
        assert not clients.byID


def test_nobodyThere() -> None:
    """Without NATS Streaming, written messages are lost, and each is logged."""
    with MemoryBroker() as broker, logLines() as lines:
        writer = writerOf(broker)
        writer.write(b"one")
        writer.write(b"two")
        broker.advance(1)
        assert (writer.stored, writer.lost) == (0, 2)
        assert len([line for line in lines if "could not be stored in channel E" in line]) == 2
        writer.close()


def test_bounded() -> None:
    """The messages that wait while the store is slow are bounded."""
    with MemoryBroker(configText="streaming {}") as broker:
        broker.bus().subscribe(b"_STAN.discover.other", Recorder())
        writer = ChannelWriter(broker.bus(), broker.reactor, "E", "other")
        for _ in range(2000):
            writer.write(b"x")
        assert writer.lost == 2000 - 1024
        broker.advance(11)
        assert (writer.stored, writer.lost) == (0, 2000)
        writer.write(b"x")
        writer.close()
        broker.advance(30)
        assert writer.stored == 0


@pytest.mark.parametrize("name", ["a.>", "a/b", ""])
def test_names(name: str) -> None:
    """A name that is not valid for a channel is refused."""
    with MemoryBroker() as broker, pytest.raises(ValueError, match="no channel can be called"):
        writerOf(broker, name)
