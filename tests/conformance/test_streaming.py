"""
NATS Streaming, byte by byte. The broker behaves as the description of the protocol says, and as
nats-streaming-server 0.25.6.

The messages are made by hand from the numbers of their fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from natsbroker.testing.memory import MemoryBroker
from tests.conformance.streamingframes import (
    CLOSE,
    CONFIG,
    DISCOVER,
    FOO,
    ME,
    PINGS,
    PUBLISH,
    SUB_CLOSE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Request,
)
from tests.conformance.streamingwire import Value, Wire, decode, encode

INVALID_CLIENT_ID = b"stan: invalid clientID: only alphanumeric and `-` or `_` characters allowed"


@pytest.fixture
def wire() -> Iterator[Wire]:
    """
    A connection to a broker with NATS Streaming.
    """
    with MemoryBroker(configText=CONFIG) as broker:
        broker.advance(1000.0)
        yield Wire(broker)


@pytest.fixture
def me(wire: Wire) -> Wire:
    """A connection to a broker with NATS Streaming, with a client that is called C{me}."""
    assert 5 not in wire.fields(DISCOVER, ME)
    return wire


def published(wire: Wire, channel: str = "foo", **more: Value | str) -> dict[int, Value]:
    """Publish a message, and return the fields of the PubAck."""
    request: Request = {1: "me", 2: "guid1", 3: channel, 5: b"data"}
    request.update({int(number[1:]): value for number, value in more.items()})
    return wire.fields(f"{PUBLISH}.any", request)


def subscribed(wire: Wire, **more: Value | str) -> str:
    """Subscribe to C{foo}, and return the ackInbox."""
    request = {**FOO, **{int(number[1:]): value for number, value in more.items()}}
    answer = wire.fields(SUBSCRIBE, request)
    assert set(answer) == {2}, answer
    ackInbox = answer[2]
    assert isinstance(ackInbox, bytes)
    return ackInbox.decode()


class TestConnecting:
    """Messages ConnectRequest and ConnectResponse."""

    WELCOME = {
        1: PUBLISH.encode(), 2: SUBSCRIBE.encode(), 3: UNSUBSCRIBE.encode(), 4: CLOSE.encode(),
        6: SUB_CLOSE.encode(), 10: 1,
    }  # fmt: skip

    @pytest.mark.parametrize(("interval", "maxOut"), [(1, 2), (1, 3), (60, 10)])
    def test_welcome(self, wire: Wire, interval: int, maxOut: int) -> None:
        """The response to a connect request has all subjects and repeats the ping settings."""
        expected = {**self.WELCOME, 7: PINGS.encode(), 8: interval, 9: maxOut}
        assert wire.fields(DISCOVER, {**ME, 5: interval, 6: maxOut}) == expected

    def test_noPings(self, wire: Wire) -> None:
        """Ping settings of 0 are omitted, as every 0 is."""
        assert wire.fields(DISCOVER, ME) == {**self.WELCOME, 7: PINGS.encode()}

    def test_protocol0(self, wire: Wire) -> None:
        """A client of protocol 0 gets the number of the server's protocol, and no ping settings."""
        assert wire.fields(DISCOVER, {1: "me", 2: "me.beats"}) == self.WELCOME

    def test_noConnectionID(self, wire: Wire) -> None:
        """A client of protocol 1 without a connection id is accepted."""
        assert 5 not in wire.fields(DISCOVER, {1: "me", 2: "me.beats", 3: 1})

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            ({2: "me.beats"}, INVALID_CLIENT_ID),
            ({1: "a.b", 2: "me.beats"}, INVALID_CLIENT_ID),
            ({1: "a b", 2: "me.beats"}, INVALID_CLIENT_ID),
            ({1: "me"}, b"stan: invalid connection request"),
            (b"\xff\xff", b"stan: invalid connection request"),
            (b"", b"stan: invalid connection request"),
        ],
    )
    def test_connectErrors(self, wire: Wire, request_: bytes | Request, error: bytes) -> None:
        """The error of a connect request is alone in field 5."""
        assert wire.fields(DISCOVER, request_) == {5: error}

    def test_otherCluster(self, wire: Wire) -> None:
        """A connect request for another cluster gets no answer."""
        assert wire.ask("_STAN.discover.other", ME) is None

    def test_duplicate(self, me: Wire) -> None:
        """A second client with the same id is refused if the first one answers a heartbeat."""
        me.publish(DISCOVER, encode({**ME, 4: b"other"}), "me.reply.second")
        [beat] = me.came("me.beats")
        assert beat.payload == b"" and beat.reply
        assert me.came("me.reply") == []
        me.publish(beat.reply, b"")
        [answer] = me.came("me.reply")
        assert decode(answer.payload) == {5: b"stan: clientID already registered"}

    def test_replaced(self, me: Wire) -> None:
        """
        A second client with the same id replaces the first one if that does not answer within half
        a second. The first client learns this when it pings or publishes.
        """
        me.publish(DISCOVER, encode({**ME, 4: b"other"}), "me.reply.second")
        me.broker.advance(0.4)
        assert me.came("me.reply") == []
        me.broker.advance(0.2)
        [answer] = me.came("me.reply")
        assert 5 not in decode(answer.payload)
        replaced = b"client has been replaced or is no longer registered"
        assert me.fields(PINGS, {1: b"connection"}) == {1: replaced}
        assert me.ask(PINGS, {1: b"other"}) == b""
        assert published(me, f6=b"connection")[2] == b"stan: invalid publish request"
        assert published(me, f6=b"other") == {1: b"guid1"}


class TestHeartbeats:
    """Heartbeats and pings."""

    def test_interval(self, me: Wire) -> None:
        """
        A heartbeat is sent every 30 seconds, empty and with a reply subject, and any answer counts.
        """
        for _ in range(15):
            me.broker.advance(30.0)
            [beat] = me.came("me.beats")
            assert beat.payload == b"" and beat.reply
            me.publish(beat.reply, b"anything")
        assert me.ask(PINGS, {1: b"connection"}) == b""

    def test_dead(self, me: Wire) -> None:
        """A client is removed after more than 10 heartbeats without an answer within 10 seconds."""
        me.broker.advance(11 * 40.0 - 1)
        assert len(me.came("me.beats")) == 11
        me.broker.advance(1.5)
        assert 1 in me.fields(PINGS, {1: b"connection"})
        me.broker.advance(100)
        assert me.came("me.beats") == []

    def test_pingAndFail(self, me: Wire) -> None:
        """A client that pings after failed heartbeats gets the next heartbeat at once."""
        me.broker.advance(41)
        assert len(me.came("me.beats")) == 1
        assert me.ask(PINGS, {1: b"connection"}) == b""
        me.broker.advance(0.1)
        assert len(me.came("me.beats")) == 1

    @pytest.mark.parametrize("ping", [b"\xff", b"", b"\x0a"])
    def test_garbage(self, me: Wire, ping: bytes) -> None:
        """A message that is not a ping gets no answer."""
        assert me.ask(PINGS, ping) is None


class TestPublishing:
    """Messages PubMsg and PubAck."""

    def test_ack(self, me: Wire) -> None:
        """A PubAck has the guid and nothing else."""
        request: Request = {1: "me", 2: "guid1", 3: "foo", 5: b"data"}
        assert me.ask(f"{PUBLISH}.foo", request) == b"\x0a\x05guid1"

    @pytest.mark.parametrize(
        "request_",
        [
            {1: "me", 2: "guid1", 3: "foo"},
            {2: "guid1", 3: "foo", 6: b"connection"},
            {1: "nobody", 2: "guid1", 3: "foo", 6: b"connection"},
            {1: "me", 2: "guid1", 3: "other", 5: b"x"},
            {1: "me", 2: "guid1", 3: "foo", 4: "a.reply", 5: b"x", 10: b"sha256"},
        ],
    )
    def test_accepted(self, me: Wire, request_: Request) -> None:
        """
        A PubMsg may have a client id or a connection id, and empty data. Its channel is a field. A
        wrong checksum of the data is ignored.
        """
        assert me.fields(f"{PUBLISH}.foo", request_) == {1: b"guid1"}

    @pytest.mark.parametrize(
        "request_",
        [
            {1: "nobody", 2: "guid1", 3: "foo"},
            {1: "me", 2: "guid1", 3: "foo", 6: b"other"},
            {1: "me", 2: "guid1", 3: ""},
            *({1: "me", 2: "guid1", 3: name} for name in ("foo.*", ">", "foo..bar", "foo.", "a/b")),
            {1: "me", 2: "guid1", 3: "FOO. BAR"},
            {1: "me", 2: "guid1", 3: "foo. .bar"},
        ],
    )
    def test_publishErrors(self, me: Wire, request_: Request) -> None:
        """The PubAck of a refused message has the guid, and the error in field 2."""
        error = b"stan: invalid publish request"
        assert me.fields(f"{PUBLISH}.foo", request_) == {1: b"guid1", 2: error}

    @pytest.mark.parametrize("request_", [{1: "me", 3: "foo"}, b"\xff\xff"])
    def test_noGuid(self, me: Wire, request_: bytes | Request) -> None:
        """The PubAck of a message without a guid has only the error."""
        assert me.fields(f"{PUBLISH}.foo", request_) == {2: b"stan: invalid publish request"}

    def test_afterClose(self, me: Wire) -> None:
        """A client that has closed cannot publish."""
        assert me.ask(CLOSE, {1: "me"}) == b""
        assert published(me)[2] == b"stan: invalid publish request"

    def test_sameGuid(self, me: Wire) -> None:
        """Messages with the same guid are both stored, because the server does not deduplicate."""
        subscribed(me)
        assert published(me) == published(me) == {1: b"guid1"}
        assert len(me.came("me.foo")) == 2

    def test_subscribersFirst(self, me: Wire) -> None:
        """A message is sent to subscribers before its publisher gets the PubAck."""
        subscribed(me)
        me.publish(f"{PUBLISH}.foo", encode({1: "me", 2: "g", 3: "foo"}), "me.reply.x")
        assert [message.subject for message in me.came()] == ["me.foo", "me.reply.x"]

    @pytest.mark.parametrize("name", ["FOO", "BAR", "foo.bar", "FOO.BAR", "FOO.BAR.BAZ"])
    def test_names(self, me: Wire, name: str) -> None:
        """The name of a channel consists of tokens separated by full stops."""
        assert published(me, name) == {1: b"guid1"}

    def test_namesThatDifferInCase(self, me: Wire) -> None:
        """
        A channel whose name differs from another only in case is refused, because of stores on
        disk.
        """
        assert published(me, "foo.bar") == {1: b"guid1"}
        assert published(me, "foo.BAR")[2] == (
            b'rejecting channel "foo.BAR" because channel "foo.bar" alreay exists '
            b"(different cases not allowed)"
        )

    def test_largeMessage(self, me: Wire) -> None:
        """A message of almost one megabyte is stored and delivered."""
        size = (1 << 20) - 100
        assert published(me, f5=b"x" * size) == {1: b"guid1"}
        subscribed(me)
        [message] = me.came("me.foo")
        data = decode(message.payload)[4]
        assert isinstance(data, bytes) and len(data) == size


class TestSubscribing:
    """Messages SubscriptionRequest and SubscriptionResponse."""

    def test_ackInbox(self, me: Wire) -> None:
        """Each subscription gets an inbox for its acknowledgements, in field 2."""
        inboxes = {subscribed(me), subscribed(me)}
        assert len(inboxes) == 2
        assert all(re.fullmatch(r"_INBOX\.[0-9A-Za-z_-]{22}", inbox) for inbox in inboxes)

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({1: "nobody"}, b"stan: unknown clientID"),
            ({1: ""}, b"stan: clientID missing"),
            ({6: 0}, b"stan: invalid ack wait time, should be >= 1s"),
            ({6: -1}, b"stan: invalid ack wait time, should be >= 1s"),
            ({5: 0}, b"stan: invalid MaxInflight, should be >= 1"),
            ({5: -1}, b"stan: invalid MaxInflight, should be >= 1"),
            ({10: 5}, b"stan: invalid start position"),
            ({2: ""}, b"stan: invalid subject"),
            ({2: "foo.*"}, b"stan: invalid subject"),
            ({2: ">"}, b"stan: invalid subject"),
            ({2: "foo..bar"}, b"stan: invalid subject"),
            (
                {3: "group", 7: "a:b"},
                b"stan: durable name of a durable queue subscriber can't contain the character ':'",
            ),
        ],
    )
    def test_subscribeErrors(self, me: Wire, change: Request, error: bytes) -> None:
        """The error of a subscription request is alone in field 3."""
        assert me.fields(SUBSCRIBE, {**FOO, **change}) == {3: error}

    def test_garbage(self, me: Wire) -> None:
        """Bytes that are not a subscription request have an error of their own."""
        expected = {3: b"stan: invalid subscription request"}
        assert me.fields(SUBSCRIBE, b"\xff\xff") == expected

    def test_duplicateDurable(self, me: Wire) -> None:
        """
        An active durable subscription cannot be opened twice, while a durable queue group may have
        several members.
        """
        subscribed(me, f7="d")
        assert me.fields(SUBSCRIBE, {**FOO, 7: "d"}) == {3: b"stan: duplicate durable registration"}
        subscribed(me, f3="group", f7="d")
        subscribed(me, f3="group", f7="d")

    @pytest.mark.parametrize(
        "change",
        [{4: ""}, {10: 3, 11: 0}, {10: 3, 11: 99}, {10: 2, 12: -5}, {10: 2, 12: 1 << 62}],
    )
    def test_accepted(self, me: Wire, change: Request) -> None:
        """
        A subscription request may have no inbox, a sequence of 0 or beyond the last, and any time.
        """
        assert set(me.fields(SUBSCRIBE, {**FOO, **change})) == {2}

    @pytest.mark.parametrize(
        ("position", "expected"),
        [
            ({10: 0}, []),
            ({10: 1}, [3]),
            ({10: 2, 12: 7 * 10**9}, [3]),
            ({10: 2, 12: 12 * 10**9}, [2, 3]),
            ({10: 3, 11: 2}, [2, 3]),
            ({10: 3, 11: 0}, [1, 2, 3]),
            ({10: 4}, [1, 2, 3]),
        ],
    )
    def test_startPosition(self, me: Wire, position: Request, expected: list[int]) -> None:
        """
        NewOnly, LastReceived, TimeDeltaStart in nanoseconds, SequenceStart and First start at their
        positions. The response comes before the first message.
        """
        for _ in range(3):
            published(me)
            me.broker.advance(5.0)
        me.publish(SUBSCRIBE, encode({**FOO, **position}), "me.reply.s")
        came = me.came()
        assert [message.subject for message in came] == ["me.reply.s"] + ["me.foo"] * len(expected)
        assert [decode(message.payload)[1] for message in came[1:]] == expected


class TestDelivery:
    """Messages MsgProto and Ack."""

    def test_message(self, me: Wire) -> None:
        """
        A MsgProto has sequence, subject, data and timestamp, and the reply subject if there is one.
        It has neither a checksum nor a NATS reply subject.
        """
        subscribed(me)
        before = me.broker.reactor.seconds()
        published(me)
        published(me, f4="a.reply")
        [first, second] = me.came("me.foo")
        fields = decode(first.payload)
        assert first.reply == "" and set(fields) == {1, 2, 4, 5}
        assert (fields[1], fields[2], fields[4]) == (1, b"foo", b"data")
        assert fields[5] == round(before * 10**9)
        assert decode(second.payload)[3] == b"a.reply"

    def test_redelivery(self, me: Wire) -> None:
        """
        Unacknowledged messages are redelivered after each ack wait, with the number of redeliveries
        in field 7. An acknowledgement makes room for the next message.
        """
        for _ in range(3):
            published(me)
        ackInbox = subscribed(me, f5=2, f6=1)

        def came() -> list[tuple[object, ...]]:
            fields = [decode(message.payload) for message in me.came("me.foo")]
            return [(field[1], field.get(6), field.get(7)) for field in fields]

        assert came() == [(1, None, None), (2, None, None)]
        for again in (1, 2, 3):
            me.broker.advance(0.9)
            assert came() == []
            me.broker.advance(0.12)
            assert came() == [(1, 1, again), (2, 1, again)]
        me.publish(ackInbox, encode({1: "foo", 2: 1}))
        assert came() == [(3, None, None)]

    def test_closed(self, me: Wire) -> None:
        """
        A resumed durable subscription first gets its unacknowledged messages, whatever start
        position it requests.
        """
        published(me)
        published(me)
        ackInbox = subscribed(me, f7="d")
        me.publish(ackInbox, encode({1: "foo", 2: 1}))
        assert me.ask(SUB_CLOSE, {1: "me", 2: "foo", 3: ackInbox}) == b""
        published(me)
        me.came("me.foo")
        subscribed(me, f7="d", f10=0)
        fields = [decode(message.payload) for message in me.came("me.foo")]
        assert [(field[1], field.get(6), field.get(7)) for field in fields] == [
            (2, 1, 1),
            (3, None, None),
        ]


class TestLeaving:
    """Messages UnsubscribeRequest and CloseRequest, and their answers."""

    @pytest.mark.parametrize("subject", [UNSUBSCRIBE, SUB_CLOSE])
    def test_ends(self, me: Wire, subject: str) -> None:
        """An unsubscribe request is answered with an empty message, and ends the subscription."""
        ackInbox = subscribed(me)
        assert me.ask(subject, {1: "me", 2: "foo", 3: ackInbox}) == b""
        published(me)
        assert me.came("me.foo") == []
        invalid = {3: b"stan: invalid subscription"}
        assert me.fields(subject, {1: "me", 2: "foo", 3: ackInbox}) == invalid

    @pytest.mark.parametrize("subject", [UNSUBSCRIBE, SUB_CLOSE])
    def test_unsubscribeErrors(self, me: Wire, subject: str) -> None:
        """
        An unknown inbox, an unknown channel and malformed bytes have errors of their own, in field
        3.
        """
        published(me)
        unknown: Request = {1: "me", 2: "foo", 3: "_INBOX.x"}
        assert me.fields(subject, unknown) == {3: b"stan: invalid subscription"}
        assert me.fields(subject, {**unknown, 1: "nobody"}) == {3: b"stan: invalid subscription"}
        assert me.fields(subject, {**unknown, 2: "bar"}) == {3: b"stan: unknown channel"}
        assert me.fields(subject, b"\xff\xff") == {3: b"stan: invalid unsubscribe request"}

    def test_close(self, me: Wire) -> None:
        """A close request is answered with an empty message. An error is in field 1."""
        assert me.ask(CLOSE, {1: "me"}) == b""
        assert me.fields(CLOSE, {1: "me"}) == {1: b"stan: unknown clientID"}
        assert me.fields(CLOSE, b"\xff\xff") == {1: b"stan: invalid close request"}


def test_limits() -> None:
    """The defaults are 100 channels, and 1,000 subscriptions to each."""
    with MemoryBroker(configText="streaming {}") as broker:
        wire = Wire(broker)
        wire.ask(DISCOVER, ME)
        for number in range(100):
            assert published(wire, f"channel.{number}") == {1: b"guid1"}
        assert published(wire, "more") == {1: b"guid1", 2: b"too many channels"}
        assert wire.fields(SUBSCRIBE, {**FOO, 2: "more"}) == {3: b"too many channels"}
        for _ in range(1000):
            subscribed(wire, f2="channel.0", f4="")
        refused = wire.fields(SUBSCRIBE, {**FOO, 2: "channel.0"})
        assert refused == {3: b"too many subscriptions per channel"}
