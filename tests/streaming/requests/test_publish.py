"""
Tests for the storage of published messages.
"""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import implementer

from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces import ILinkSubscriber
from natsbroker.interfaces.records import StoreFailed, StoreFull
from natsbroker.streaming import errors, protocol
from natsbroker.streaming.messages import publishedIn
from natsbroker.streaming.requests import publish
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Message
from tests.streaming.stores import HeldStore
from tests.streaming.support import Client, Connection, Inbox, Stage
from tests.support import COMPILED, Names, onEach, using

PUB = b"_STAN.pub.test-cluster."


def held(stage: Stage) -> HeldStore:
    """A store whose commits can wait."""
    return HeldStore(Stage.makeStore(stage))


def acks(inbox: Inbox) -> list[tuple[str, str]]:
    """The guids and errors that came back."""
    published = [protocol.PubAck.FromString(message.payload) for message in inbox.got]
    return [(ack.guid, ack.error) for ack in published]


@implementer(ILinkSubscriber)
class Link(Connection):
    """A link to another broker, which checks the permissions of its clients."""

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        """Nothing to do: only interest matters."""


class TestChecks:
    """Refused publishes."""

    @pytest.mark.parametrize(
        "more",
        [
            {"guid": ""},
            {"subject": ""},
            {"subject": "foo.*"},
            {"subject": "foo.>"},
            {"subject": "foo..bar"},
            {"subject": "../foo"},
            {"subject": "foo bar"},
            {"subject": "foo\0"},
            {"subject": "x" * 301},
            {"clientID": "unknown", "connID": b""},
            {"connID": b"other"},
            {"reply": "a\r\nb"},
        ],
    )
    def test_invalid(self, more: dict[str, object]) -> None:
        """An invalid publish is refused at once, with the guid."""
        stage = Stage()
        assert stage.client().publish("foo", b"x", **more) == errors.INVALID_PUBLISH_REQUEST
        assert sum(stage.model.channel(name).msgs for name in stage.model.channelNames()) == 0

    @pytest.mark.parametrize("more", [{"connID": b""}, {"clientID": ""}, {"clientID": "other"}])
    def test_valid(self, more: dict[str, object]) -> None:
        """A publish needs only the connection id, or only the client id."""
        assert Stage().client().publish("foo", b"x", **more) == ""

    def test_garbage(self) -> None:
        """Bytes that are no message are answered without a guid."""
        stage = Stage()
        ack = stage.ask(PUB + b"foo", b"\xff\xff", protocol.PubAck)
        assert (ack.guid, ack.error) == ("", errors.INVALID_PUBLISH_REQUEST)

    def test_closed(self) -> None:
        """A client that has left cannot publish."""
        client = Stage().client()
        client.close()
        assert client.publish("foo", b"x") == errors.INVALID_PUBLISH_REQUEST

    def test_tooManyChannels(self) -> None:
        """A channel beyond the limit is refused; existing ones can be published to."""
        client = Stage(Streaming(max_channels=1)).client()
        assert client.publish("foo", b"x") == ""
        assert client.publish("bar", b"x") == errors.TOO_MANY_CHANNELS
        assert client.publish("foo", b"x") == ""

    def test_subjectDoesNotDecide(self) -> None:
        """
        The channel is the one that the message names, also if it is published to another channel's
        subject.
        """
        stage = Stage()
        client = stage.client()
        message = client.pubMsg("bar", b"x")
        assert not client.ask(PUB + b"foo", message, protocol.PubAck).error
        assert stage.model.channelNames() == ["bar"]

    def test_empty(self) -> None:
        """A message may be empty."""
        stage = Stage()
        client = stage.client()
        assert client.publish("foo", b"") == ""
        assert client.subscribe("foo").data == [b""]


class TestPermissions:
    """Permissions to publish to channels."""

    def test_channel(self) -> None:
        """The grant decides by the channel that the message names."""
        stage = Stage()
        grant = Grant(user="u", publish=PermissionSet([b"_STAN.pub.test-cluster.mine.>"]))
        client = stage.client(grant=grant)
        assert client.publish("mine.x", b"x") == ""
        assert client.publish("yours.x", b"x") == errors.NOT_AUTHORIZED
        assert stage.model.channelNames() == ["mine.x"]

    def test_smuggled(self) -> None:
        """A client cannot publish to a forbidden channel through the subject of an allowed one."""
        stage = Stage()
        grant = Grant(user="u", publish=PermissionSet([b"_STAN.pub.test-cluster.mine"]))
        client = stage.client(grant=grant)
        ack = client.ask(PUB + b"mine", client.pubMsg("yours", b"x"), protocol.PubAck)
        assert ack.error == errors.NOT_AUTHORIZED

    def test_othersClient(self) -> None:
        """A user cannot publish in the name of another user's client, by either id."""
        stage = Stage()
        stage.client("alice", grant=Grant(user="alice"))
        mallory = Client(stage, "alice", Grant(user="mallory"))
        assert mallory.publish("foo", b"x") == errors.INVALID_PUBLISH_REQUEST
        assert mallory.publish("foo", b"x", connID=b"") == errors.INVALID_PUBLISH_REQUEST

    def test_mixedInOneChunk(self) -> None:
        """The permissions of each publisher in one chunk of input are checked."""
        stage = Stage()
        grant = Grant(user="u", publish=PermissionSet([b"other"]))
        may, mayNot = stage.client("may"), stage.client("maynot", grant=grant)
        inboxes = [publisher.publishMany("foo", [b"x"]) for publisher in (may, mayNot, may, mayNot)]
        stage.settle()
        assert [acks(inbox)[0][1] for inbox in inboxes] == ["", errors.NOT_AUTHORIZED] * 2

    def test_revoked(self) -> None:
        """The grant is read again for every chunk of input."""
        client = Stage().client()
        assert client.publish("foo", b"x") == ""
        client.origin.grant = Grant(publish=PermissionSet([]))
        assert client.publish("foo", b"x") == errors.NOT_AUTHORIZED
        client.origin.grant = None
        assert client.publish("foo", b"x") is None
        assert client.stage.model.channel("foo").msgs == 1

    def test_link(self) -> None:
        """
        A publish over a link counts for the channel of its subject, which the peer has checked.
        """
        stage = Stage()
        client = stage.client()
        client.origin = Link(Grant())
        assert client.publish("foo", b"x") == ""
        subject, message = b"_STAN.pub.test-cluster.foo", client.pubMsg("secret", b"x")
        ack = client.ask(subject, message, protocol.PubAck)
        assert ack.error == errors.NOT_AUTHORIZED
        assert stage.model.channelNames() == ["foo"]


class TestStoring:
    """When a message is acknowledged."""

    def test_durableFirst(self) -> None:
        """A message is neither acknowledged nor delivered until it is durable."""
        stage = Stage(makeStore=held)
        client = stage.client()
        listener = client.subscribe("foo")
        stage.store.isHeld = True
        inbox = client.publishMany("foo", [b"1", b"2"])
        stage.settle()
        assert (listener.got, inbox.got) == ([], [])
        stage.store.commit()
        stage.settle()
        assert (listener.data, acks(inbox)) == ([b"1", b"2"], [("guid-1", ""), ("guid-2", "")])

    def test_deliveredBeforeAcknowledged(self) -> None:
        """Subscribers get a message before its publisher gets the PubAck."""
        stage = Stage()
        client = stage.client()
        listener = client.subscribe("foo")
        seen: list[int] = []
        inbox = Inbox(stage, lambda message: seen.append(len(listener.got)))
        for data in (b"1", b"2"):
            stage.send(PUB + b"foo", client.pubMsg("foo", data), inbox.subject, client.origin)
        stage.settle()
        assert seen == [2, 2]

    def test_oneBatch(self) -> None:
        """The messages of one chunk of input for a channel are stored in one batch, in order."""
        stage = Stage(makeStore=held)
        one, two = stage.client("one"), stage.client("two")
        one.publish("foo", b"0")
        for client in (one, two, one):
            client.publishMany("foo", [b"x"] * 3)
            client.publishMany("bar", [b"y"])
        stage.settle()
        log = stage.service.context.channels.demand("foo").log
        assert log.appends == [1, 9]  # type: ignore[attr-defined]

    def test_orderOfMessages(self) -> None:
        """The messages of one publisher are stored in its order in each channel."""
        stage = Stage()
        client = stage.client()
        for number in range(20):
            client.publishMany(f"c{number % 2}", [b"%d" % number])
        stage.settle()
        assert client.subscribe("c0").data == [b"%d" % index for index in range(0, 20, 2)]

    def test_reply(self) -> None:
        """
        A message's own reply subject reaches subscribers, both from memory and from the store.
        """
        client = Stage().client()
        live = client.subscribe("foo")
        client.publish("foo", b"x", reply="answers.here")
        assert [message.reply for message in live.taken()] == ["answers.here"]
        assert [message.reply for message in client.subscribe("foo").taken()] == ["answers.here"]

    def test_noReplySubject(self) -> None:
        """A message without a reply subject for the PubAck is stored."""
        stage = Stage()
        client = stage.client()
        stage.send(PUB + b"foo", client.pubMsg("foo", b"x"), b"", client.origin)
        stage.settle()
        assert stage.model.channel("foo").msgs == 1

    def test_headers(self) -> None:
        """Headers that a client library puts before a message are ignored."""
        stage = Stage()
        client = stage.client()
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        body = block + client.pubMsg("foo", b"x").SerializeToString()
        stage.bus.publish(
            Message(PUB + b"foo", body, headerLength=len(block), origin=client.origin)
        )
        stage.settle()
        assert stage.model.channel("foo").msgs == 1

    def test_timestamps(self) -> None:
        """A message is stored with the time when it came; timestamps never fall."""
        stage = Stage()
        client = stage.client()
        client.publish("foo", b"1")
        before = stage.now()
        stage.steps = -3600
        client.publish("foo", b"2")
        stage.steps = 3600
        client.publish("foo", b"3")
        times = [message.timestamp for message in client.subscribe("foo").taken()]
        assert times == [before, before, stage.now()]


class TestFailing:
    """When messages cannot be stored."""

    def test_storeIsFull(self) -> None:
        """
        If the store is full, the publisher receives the reason; it can continue when there is room
        again.
        """
        stage = Stage(makeStore=held)
        client = stage.client()
        listener = client.subscribe("foo")
        stage.store.failing = StoreFull("no space left")
        assert client.publish("foo", b"1") == "no space left"
        stage.store.failing = None
        assert client.publish("foo", b"2") == ""
        assert listener.data == [b"2"]

    def test_allOfABatch(self) -> None:
        """If a batch is not stored, all its messages are refused."""
        stage = Stage(makeStore=held)
        client = stage.client()
        client.publish("foo", b"0")
        stage.store.failing = StoreFailed("broken")
        inbox = client.publishMany("foo", [b"1", b"2"])
        stage.settle()
        assert acks(inbox) == [("guid-2", "broken"), ("guid-3", "broken")]
        assert stage.service.dispatcher.publish.waiting == 0

    def test_channelCannotBeMade(self) -> None:
        """If the channel itself cannot be made, the publisher receives the reason."""
        stage = Stage(makeStore=held)
        client = stage.client()
        stage.store.failing = StoreFull("no space left")
        assert client.publish("foo", b"1") == "no space left"
        assert stage.model.channelNames() == []

    @onEach
    def test_tooMuchWaits(self, names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A message that would fill memory while the store is slow is refused at once, and read only
        once.
        """
        monkeypatch.setattr(publish, "MOST_WAITING", 100)
        reads: list[int] = []

        def read(payloads: list[bytes], start: int) -> Any:
            reads.append(start)
            return publishedIn(payloads, start)

        monkeypatch.setattr(publish, "publishedIn", read)
        with using(names):
            stage = Stage(makeStore=held)
            client = stage.client()
            client.publish("foo", b"")
            stage.store.isHeld = True
            reads.clear()
            inbox = client.publishMany("foo", [b"x" * 60] * 9)
            stage.settle()
            assert acks(inbox) == [
                (f"guid-{number}", errors.TOO_MUCH_WAITS) for number in range(4, 11)
            ]
            assert len(reads) == (1 if names is COMPILED else 9)
            stage.store.isHeld = False
            stage.store.commit()
            stage.settle()
            assert acks(inbox)[7:] == [("guid-2", ""), ("guid-3", "")]
            assert client.publish("foo", b"x") == ""


class TestFigures:
    """Counted publishes."""

    def test_traffic(self) -> None:
        """Received and delivered messages are counted, with their bytes."""
        stage = Stage()
        client = stage.client()
        client.subscribe("foo")
        client.subscribe("foo")
        client.publish("foo", b"x")
        client.publish("f*", b"x")
        figures = stage.model.figures()
        assert (figures.in_msgs, figures.out_msgs) == (2, 2)
        assert figures.in_bytes > 0 and figures.out_bytes > 0
