"""
Permissions for clients of NATS Streaming, by channel.
"""

from __future__ import annotations

import pytest

from natsbroker.streaming.permissions import channelPermissions
from natsbroker.subjects.permissions import ALLOWED, DENIED
from natsbroker.wire.grants import Grant
from tests.streaming.support import Client, Stage


def granted(**channels: list[str]) -> Grant:
    """A grant to use channels."""
    publish, subscribe = channelPermissions(**channels)  # type: ignore[arg-type]
    return Grant(user="u", publish=publish, subscribe=subscribe)


def client(**channels: list[str]) -> Client:
    """A client with such a grant, on a stage of its own."""
    return Stage().client(grant=granted(**channels))


class TestChannelPermissions:
    """L{channelPermissions}."""

    def test_publish(self) -> None:
        """Only the named channels can be published to."""
        me = client(publish=["orders.*", "news"])
        assert me.publish("orders.a") == me.publish("news") == ""
        assert me.publish("orders.a.b") == me.publish("orders") == "stan: not authorized"

    def test_subscribe(self) -> None:
        """Only the named channels can be subscribed to; such subscriptions can be ended."""
        me = client(publish=["a"], subscribe=["b", "c.>"])
        assert me.subscribe("b").close() == ""
        assert me.subscribe("c.d.e").unsubscribe() == ""
        with pytest.raises(AssertionError, match="not authorized"):
            me.subscribe("a")

    def test_close(self) -> None:
        """Permissions to close subscriptions and to unsubscribe can be given separately."""
        me = client(subscribe=["a"], close=["a"], unsubscribe=[])
        durable = me.subscribe("a", durableName="d")
        assert durable.unsubscribe() == "stan: not authorized"
        assert durable.close() == ""
        other = client(subscribe=["a"], close=[], unsubscribe=["a"]).subscribe("a")
        assert other.close() == "stan: not authorized"
        assert other.unsubscribe() == ""

    def test_sufficientPermissions(self) -> None:
        """
        The listed permissions are enough for a client, from connecting to closing, also over a real
        connection.
        """
        publish, subscribe = channelPermissions("c", publish=["x"], subscribe=["y"])
        for subject in (
            b"_STAN.discover.c", b"_STAN.discover.c.pings", b"_STAN.pub.c.x", b"_STAN.sub.c",
            b"_STAN.unsub.c", b"_STAN.subclose.c", b"_STAN.close.c", b"_INBOX.ack",
        ):  # fmt: skip
            assert publish.allows(subject), subject
        for subject in (b"orders", b"_STAN.pub.c.y", b"_STAN.discover.d", b"_STAN.acks.x"):
            assert not publish.allows(subject), subject
        for subject in (b"_STAN.acks.x", b"_INBOX.x.y"):
            assert subscribe.verdict(subject) is ALLOWED, subject
        assert subscribe.verdict(b"_STAN.pub.c.x") is DENIED

    def test_otherSubjects(self) -> None:
        """Other subjects may be configured for the cluster, for connecting and for inboxes."""
        publish, subscribe = channelPermissions("c", discoverPrefix="_D", inboxes=["_BOX.>"])
        assert publish.allows(b"_D.c") and not publish.allows(b"_STAN.discover.c")
        assert subscribe.verdict(b"_BOX.x") is ALLOWED
        assert subscribe.verdict(b"_INBOX.x") is DENIED

    @pytest.mark.parametrize("pattern", ["", "a..b", "a b", "a/b"])
    def test_mistakes(self, pattern: str) -> None:
        """A malformed channel pattern is refused."""
        with pytest.raises(ValueError, match="invalid channel pattern"):
            channelPermissions(publish=[pattern])
