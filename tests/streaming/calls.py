"""
Requests of NATS Streaming clients over a connection in memory.
"""

from __future__ import annotations

from typing import Any

from natsbroker.streaming import protocol
from natsbroker.testing.memory import MemoryBroker, MemoryConnection


def request(client: MemoryConnection, subject: str, message: Any, kind: Any) -> Any:
    """Send a request on a connection, and return the answer."""
    data = message.SerializeToString()
    answer = client.request(
        b"PUB %b _INBOX.reply %d\r\n%b\r\n" % (subject.encode(), len(data), data)
    )
    head, _, body = answer.partition(b"\r\n")
    assert head.startswith(b"MSG _INBOX.reply 9 "), answer
    return kind.FromString(body[: int(head.split()[-1])])


def joined(broker: MemoryBroker, options: dict[str, Any] | None = None) -> MemoryConnection:
    """A connection whose streaming client is called C{me}."""
    client = broker.connect({"verbose": False, **(options or {})})
    client.request(b"SUB _INBOX.reply 9\r\nSUB _INBOX.hb 8\r\n")
    asked = protocol.ConnectRequest(
        clientID="me", heartbeatInbox="_INBOX.hb", connID=b"c", protocol=1
    )
    response = request(client, "_STAN.discover.test-cluster", asked, protocol.ConnectResponse)
    assert not response.error, response
    return client


def publish(client: MemoryConnection, channel: str) -> str:
    """Publish a message; return the error."""
    message = protocol.PubMsg(clientID="me", guid="g", subject=channel, data=b"x", connID=b"c")
    return str(request(client, f"_STAN.pub.test-cluster.{channel}", message, protocol.PubAck).error)


def asked(client: MemoryConnection, call: str, question: bytes = b"") -> bytes:
    """Request something about the channels; return the answer."""
    line = b"PUB $NB.API.CHANNEL.%b _INBOX.reply %d\r\n" % (call.encode(), len(question))
    answer = client.request(line + question + b"\r\n")
    head, _, body = answer.partition(b"\r\n")
    assert head.startswith(b"MSG _INBOX.reply 9 "), answer
    return body[: int(head.split()[-1])]
