"""
Atomic batches, to nats-server 2.15 and to a broker of ours.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.errors import ApiError, BadMessage
from natsbroker.spark.nats.publishing import AtomicPublisher
from tests.spark.support import BrokerStation, Station


@pytest.fixture(params=["sharedStation", "sharedBroker"])
def server(request: pytest.FixtureRequest) -> Station | BrokerStation:
    """A server with streams that take batches."""
    started: Station | BrokerStation = request.getfixturevalue(request.param)
    return started


def test_batches(server: Station | BrokerStation) -> None:
    """A group of messages larger than a batch is stored in order, in several batches."""
    stream = server.stream(allow_atomic=True)
    publisher = AtomicPublisher(server.connection, stream.name, 10)
    for number in range(2001):
        publisher.publish(f"{stream.name}.x", b"%d" % number, [("K", "v")], f"id-{number}")
    publisher.finish()
    assert publisher.stored == 2001
    assert stream.api("INFO")["state"]["messages"] == 2001
    assert stream.api("MSG.GET", {"seq": 2001})["message"]["data"] == "MjAwMA=="


def test_wholeOrNothing(server: Station | BrokerStation) -> None:
    """Of a batch with a message that the stream refuses nothing is stored."""
    stream = server.stream(allow_atomic=True, max_msg_size=200)
    publisher = AtomicPublisher(server.connection, stream.name, 10)
    for data in (b"1", b"x" * 201, b"3"):
        publisher.publish(f"{stream.name}.x", data)
    with pytest.raises(ApiError, match="a batch was not stored"):
        publisher.finish()
    assert stream.api("INFO")["state"]["messages"] == 0


def test_disabled(server: Station | BrokerStation) -> None:
    """A stream without batches gives that error."""
    stream = server.stream()
    publisher = AtomicPublisher(server.connection, stream.name, 10)
    for _ in range(2):
        publisher.publish(f"{stream.name}.x", b"")
    with pytest.raises(ApiError, match="disabled"):
        publisher.finish()


def test_badMessage(server: Station | BrokerStation) -> None:
    """A message that cannot be published is refused before it is in a batch."""
    stream = server.stream(allow_atomic=True)
    publisher = AtomicPublisher(server.connection, stream.name, 10)
    with pytest.raises(BadMessage, match="not a subject"):
        publisher.publish("a b", b"")
    publisher.finish()
    assert publisher.stored == 0
