"""
Channels by user: C{examples/channels.py}, run unchanged, and its class in a broker in memory.

Real clients of NATS Streaming use it in C{tests/interop/stan/test_permissions.py}.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats

from examples import channels
from natsbroker.streaming import protocol
from natsbroker.testing.contracts import authorizerTests
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.grants import ConnectRequest
from tests.examples.running import running
from tests.streaming.calls import joined, publish, request

TestContract = authorizerTests(
    channels.makeAuthenticator,
    ConnectRequest(options={"user": "anna", "pass": "apple"}),
    ConnectRequest(options={"user": "anna", "pass": "banana"}),
    lambda keeper: keeper.moveOut("anna"),
)

ANNA = {"user": "anna", "pass": "apple"}


def test_movesOut() -> None:
    """A shop may publish to its own channel until it moves out."""
    authenticator = channels.makeAuthenticator()
    with MemoryBroker(configText="streaming {}", authorizer=authenticator) as broker:
        anna = joined(broker, ANNA)
        assert publish(anna, "orders.anna") == ""
        authenticator.moveOut("anna")
        assert anna.closed == ""
        message = protocol.PubMsg(clientID="me", guid="g", subject="orders.anna", connID=b"c")
        data = message.SerializeToString()
        subject = b"_STAN.pub.test-cluster.orders.anna"
        answer = anna.request(b"PUB %b reply %d\r\n%b\r\n" % (subject, len(data), data))
        assert b"Permissions Violation" in answer


def test_warehouse() -> None:
    """A user who may only read cannot publish, neither to the service nor through a client."""
    with MemoryBroker(configText="streaming {}", authorizer=channels.makeAuthenticator()) as broker:
        warehouse = joined(broker, {"user": "warehouse", "pass": "walnut"})
        asked = protocol.SubscriptionRequest(
            clientID="me", subject="prices", inbox="_INBOX.x", maxInFlight=1, ackWaitInSecs=30
        )
        subject, kind = "_STAN.sub.test-cluster", protocol.SubscriptionResponse
        assert request(warehouse, subject, asked, kind).error == "stan: not authorized"
        asked.subject = "orders.anna"
        assert request(warehouse, subject, asked, kind).error == ""


def test_runs(tmp_path: Path) -> None:
    """The program serves NATS Streaming to accepted users, and keeps messages in its folder."""

    async def talk(port: int) -> bytes:
        client = await nats.connect(f"nats://anna:apple@127.0.0.1:{port}")
        asked = protocol.ConnectRequest(clientID="anna", heartbeatInbox=client.new_inbox())
        answer = await client.request(
            "_STAN.discover.test-cluster", asked.SerializeToString(), timeout=30
        )
        await client.drain()
        return bytes(answer.data)

    with running("channels.py", "0", str(tmp_path)) as [port]:
        response = protocol.ConnectResponse.FromString(asyncio.run(talk(port)))
    assert (response.error, response.pubPrefix) == ("", "_STAN.pub.test-cluster")
    assert (tmp_path / "data.mdb").exists()
