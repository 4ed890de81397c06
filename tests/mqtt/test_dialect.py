"""Clients of MQTT on the sessions of the broker."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from natsbroker import errors
from natsbroker.clients.finding import kick
from natsbroker.config.model import Settings, changed
from natsbroker.mqtt.deliveries import MAX_ALIASES
from natsbroker.mqtt.dialect import FIRST_PACKET
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.mqtt import packets
from natsbroker.wire.mqtt.codec import encoded
from natsbroker.wire.mqtt.packets import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
    Subscribe,
    Will,
)
from natsbroker.wire.mqtt.properties import (
    ASSIGNED_CLIENT_IDENTIFIER,
    AUTHENTICATION_METHOD,
    CONTENT_TYPE,
    CORRELATION_DATA,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    MESSAGE_EXPIRY,
    PAYLOAD_FORMAT,
    RESPONSE_TOPIC,
    RETAIN_AVAILABLE,
    SESSION_EXPIRY,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    USER_PROPERTY,
    Property,
)
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.mqtt.support import LEVELS, MQTTWorld, granting
from tests.support import HEADERS, Doorkeeper

onLevels = pytest.mark.parametrize("level", LEVELS)

HEAD = b"NATS/1.0\r\nNmqtt-Pub: 0\r\n"


def denying() -> Doorkeeper:
    def deny(hello: ConnectRequest) -> Grant:
        raise errors.Unauthorized

    return Doorkeeper(deny)


class TestConnecting:
    """CONNECT and its answer."""

    @pytest.mark.parametrize("level", [MQTT_3_1, MQTT_3_1_1, MQTT_5])
    def test_versions(self, level: int) -> None:
        """Each version is let in, without an earlier session."""
        world = MQTTWorld()
        answer = world.device(level).connect("x", clean=False)
        assert (answer.reason, answer.isPresent) == (ReasonCode.SUCCESS, False)
        assert world.clients.registry.find("$G", "x") is not None

    def test_terms(self) -> None:
        """MQTT 5 clients are informed that there is only QoS 0, and nothing is retained."""
        terms = MQTTWorld().device().connect("x", properties={SESSION_EXPIRY: 60}).properties
        assert terms[MAXIMUM_QOS] == terms[RETAIN_AVAILABLE] == terms[SESSION_EXPIRY] == 0
        assert terms[TOPIC_ALIAS_MAXIMUM] == MAX_ALIASES
        assert terms[MAXIMUM_PACKET_SIZE] == (1 << 20) + 4096
        assert ASSIGNED_CLIENT_IDENTIFIER not in terms

    def test_assigned(self) -> None:
        """A client without an identifier gets one, which no other has."""
        world = MQTTWorld()
        answers = [world.device().connect("", clean=False) for _ in range(2)]
        names = [answer.properties[ASSIGNED_CLIENT_IDENTIFIER] for answer in answers]
        assert len(set(names)) == 2
        assert all(world.clients.registry.find("$G", name) for name in names)

    @onLevels
    @pytest.mark.parametrize("name", ["a b", "a.b", "a*", ">", "a\x01", "a\x7f"])
    def test_identifier(self, level: int, name: str) -> None:
        """A client identifier cannot have blanks or wildcards of NATS."""
        device = MQTTWorld().device(level)
        answer = device.connect(name)
        assert answer.reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
        assert device.closed

    def test_namelessSession(self) -> None:
        """A client of MQTT 3.1.1 without an identifier cannot keep its session."""
        device = MQTTWorld().device(MQTT_3_1_1)
        assert device.connect("", clean=False).reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
        assert MQTTWorld().device(MQTT_3_1_1).connect("").reason is ReasonCode.SUCCESS

    def test_login(self) -> None:
        """The authorizer gets user, password and kind. Nothing is handled before it answers."""
        answer: Deferred[Grant] = Deferred()
        world = MQTTWorld(None, Doorkeeper(lambda hello: answer))
        device = world.device()
        listener = world.user(b"SUB a 1\r\n")
        answer = Deferred()
        asked = Connect(MQTT_5, "c", user="u", password=b"p")
        assert device.ask(asked, Pingreq(), Publish("a", b"x")) == []
        hello = world.authorizer.asked[-1]
        assert [hello.text(name) for name in ("user", "pass", "auth_token")] == ["u", "p", "p"]
        assert (hello.text("jwt"), hello.connectionType) == ("", "MQTT")
        answer.callback(Grant(user="u"))
        first, second = device.receive()
        assert isinstance(first, Connack)
        assert second == Pingresp()
        assert listener.receive().startswith(b"MSG a 1 1") or listener

    def test_token(self) -> None:
        """A password with the form of a JWT is the JWT of the user."""
        world = MQTTWorld()
        world.member(user="any", password=b"eyJ0.eyJ1.c2ln")
        assert world.authorizer.asked[-1].text("jwt") == "eyJ0.eyJ1.c2ln"

    @onLevels
    def test_denied(self, level: int) -> None:
        """A client that is not let in gets the reason, and is closed."""
        device = MQTTWorld(None, denying()).device(level)
        answer = device.connect(user="u", password=b"p")
        assert answer.reason is ReasonCode.NOT_AUTHORIZED
        assert device.closed

    def test_emptyUser(self) -> None:
        """An empty user name is none in MQTT 3.1.1, as in nats-server."""
        answer = MQTTWorld().device(MQTT_3_1_1).connect(user="", password=b"p")
        assert answer.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD

    def test_method(self) -> None:
        """A CONNECT with an authentication method is refused, because none is supported."""
        answer = MQTTWorld().device().connect(properties={AUTHENTICATION_METHOD: "SCRAM"})
        assert answer.reason is ReasonCode.BAD_AUTHENTICATION_METHOD

    def test_unknownVersion(self) -> None:
        """A client of another version gets the return code 1, which each version can read."""
        wire = MQTTWorld().dial()
        assert wire.ask(b"\x10\x0d\0\4MQTT\6\2\0\0\0\1c") == b"\x20\2\0\1"
        assert wire.closed

    @pytest.mark.parametrize(
        ("level", "answer"), [(4, b""), (5, b"\x20\3\0\x81\0")], ids=["3.1.1", "5"]
    )
    def test_malformed(self, level: int, answer: bytes) -> None:
        """A malformed CONNECT has no answer in MQTT 3.1.1."""
        wire = MQTTWorld().dial()
        assert wire.ask(b"\x10\x0d\0\4MQTT%c\3\0\0\0\1c" % level) == answer
        assert wire.closed

    @pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n", b"\xc0\0", b"\0", b"CONNECT {}\r\n"])
    def test_notConnect(self, first: bytes) -> None:
        """A client that begins otherwise is closed without an answer."""
        wire = MQTTWorld().dial()
        assert wire.ask(first) == b""
        assert wire.closed

    def test_second(self) -> None:
        """A second CONNECT ends the connection."""
        device = MQTTWorld().member()
        assert device.ask(Connect()) == [Disconnect(ReasonCode.PROTOCOL_ERROR)]
        assert device.closed

    def test_large(self) -> None:
        """CONNECT is refused by its length, before its bytes have come."""
        wire = MQTTWorld().dial()
        assert FIRST_PACKET < 128**3
        assert wire.ask(b"\x10\x80\x80\x04") == b""
        assert wire.closed

    def test_timeout(self) -> None:
        """A client that sends nothing is closed in time."""
        world = MQTTWorld()
        device = world.device()
        world.advance(3)
        assert device.closed

    @onLevels
    def test_wrongWill(self, level: int) -> None:
        """A will that cannot be kept as it is meant is refused."""
        for will, reason in [
            (Will("a", qos=1), ReasonCode.QOS_NOT_SUPPORTED),
            (Will("a", retain=True), ReasonCode.RETAIN_NOT_SUPPORTED),
            (Will("a b"), ReasonCode.TOPIC_NAME_INVALID),
            (Will("$MQTT/a"), ReasonCode.TOPIC_NAME_INVALID),
        ]:
            device = MQTTWorld().device(level)
            expected = reason if level == MQTT_5 else ReasonCode.SERVER_UNAVAILABLE
            assert device.connect(will=will).reason is expected
            assert device.closed


class TestKeepAlive:
    """Clients that have to be heard in time."""

    @onLevels
    def test_silent(self, level: int) -> None:
        """A client is closed after one and a half of its time without a packet."""
        world = MQTTWorld()
        device = world.member(level, keepAlive=10)
        world.advance(14, 1)
        assert device.ask(Pingreq()) == [Pingresp()]
        world.advance(14, 1)
        assert not device.closed
        world.advance(2, 0.1)
        told = [Disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT)] if level == MQTT_5 else []
        assert device.receive() == told
        assert device.closed

    def test_none(self) -> None:
        """A client without a time is never closed for its silence."""
        world = MQTTWorld()
        device = world.member(keepAlive=0)
        world.advance(100_000, 1000)
        assert not device.closed

    def test_forgotten(self) -> None:
        """A client that has left leaves no timer."""
        world = MQTTWorld()
        device = world.member(keepAlive=10)
        device.wire.transport.hangUp()
        world.advance(1)
        assert world.clock.getDelayedCalls() == []


class TestPublishing:
    """Messages of clients."""

    @onLevels
    def test_message(self, level: int) -> None:
        """A message goes to clients of NATS, with nats-server's header."""
        world = MQTTWorld()
        listener = world.user(HEADERS, b"SUB > 1\r\n")
        device = world.member(level)
        assert device.ask(Publish("a/b", b"hi")) == []
        assert listener.receive() == b"HMSG a.b 1 26 28\r\n%b\r\nhi\r\n" % HEAD

    def test_properties(self) -> None:
        """The properties of a message are headers, and its reply subject."""
        world = MQTTWorld()
        listener = world.user(HEADERS, b"SUB > 1\r\n")
        given = {
            PAYLOAD_FORMAT: 1,
            CONTENT_TYPE: "text/plain",
            RESPONSE_TOPIC: "answers/1",
            CORRELATION_DATA: b"\0\xff",
            MESSAGE_EXPIRY: 60,
            USER_PROPERTY: (("a", "1"), ("a", "2"), ("Nats-Msg-Id", "x"), ("b c", "3")),
        }
        world.member().ask(Publish("a", b"hi", properties=given))
        came = listener.receive()
        assert came.startswith(b"HMSG a 1 answers.1 ")
        lines = came.split(b"\r\n")[2:-4]
        assert lines == [
            b"Nmqtt-Pub: 0",
            b"Content-Type: text/plain",
            b"Nmqtt-Payload-Format: 1",
            b"Nats-TTL: 60",
            b"Nmqtt-Correlation-Data: AP8=",
            b"a: 1",
            b"a: 2",
        ]

    @pytest.mark.parametrize(
        ("packet", "reason"),
        [
            (Publish("a", qos=1, packetID=1), ReasonCode.QOS_NOT_SUPPORTED),
            (Publish("a", qos=2, packetID=1), ReasonCode.QOS_NOT_SUPPORTED),
            (Publish("a", retain=True), ReasonCode.RETAIN_NOT_SUPPORTED),
            (Publish("a b"), ReasonCode.TOPIC_NAME_INVALID),
            (Publish("a/*"), ReasonCode.TOPIC_NAME_INVALID),
            (Publish("$MQTT/msgs/a"), ReasonCode.TOPIC_NAME_INVALID),
            (Publish("a/" * 3000), ReasonCode.TOPIC_NAME_INVALID),
        ],
        ids=repr,
    )
    @onLevels
    def test_wrongPacket(self, level: int, packet: packets.Packet, reason: ReasonCode) -> None:
        """A packet that cannot be handled as it is meant ends the connection with the reason."""
        world = MQTTWorld()
        listener = world.user(b"SUB > 1\r\n")
        device = world.member(level)
        assert device.ask(packet) == ([Disconnect(reason)] if level == MQTT_5 else [])
        assert device.closed
        assert listener.receive() == b""

    def test_permission(self) -> None:
        """A message that the user may not publish is dropped, and the connection stays."""
        world = MQTTWorld(None, granting(publish=PermissionSet((b"a.>",))))
        listener = world.user(b"SUB > 1\r\n")
        device = world.member()
        assert device.ask(Publish("b"), Publish("$SYS/x"), Publish("a/b"), Pingreq()) == [
            Pingresp()
        ]
        assert listener.receive().count(b"MSG") == 1

    def test_payload(self) -> None:
        """The largest message is that of the user."""
        device = MQTTWorld(None, granting(maxPayload=50)).member()
        assert device.ask(Publish("a", bytes(20))) == []
        assert device.ask(Publish("a", bytes(60))) == [Disconnect(ReasonCode.PACKET_TOO_LARGE)]

    def test_largePacket(self) -> None:
        """A packet above the maximum is refused by its length."""
        device = MQTTWorld(changed(Settings(), "max_payload", 100)).member()
        assert device.askBytes(b"\x30\xff\x7f") == [Disconnect(ReasonCode.PACKET_TOO_LARGE)]

    @onLevels
    def test_unknownMessage(self, level: int) -> None:
        """Acknowledgements of messages that are not known are answered, and mean nothing."""
        device = MQTTWorld().member(level)
        sent: list[packets.Packet] = [packets.Puback(1), packets.Pubrec(2)]
        sent += [packets.Pubrel(3), packets.Pubcomp(4)]
        missing = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if level == MQTT_5 else ReasonCode.SUCCESS
        assert device.ask(*sent) == [packets.Pubrel(2, missing), packets.Pubcomp(3, missing)]

    def test_auth(self) -> None:
        """AUTH without a method in CONNECT ends the connection."""
        packet = packets.Auth(ReasonCode.REAUTHENTICATE)
        assert MQTTWorld().member().ask(packet) == [Disconnect(ReasonCode.PROTOCOL_ERROR)]

    def test_aliases(self) -> None:
        """A topic can be sent once, and its alias from then on."""
        world = MQTTWorld()
        listener = world.user(b"SUB > 1\r\n")
        alias: dict[Property, int] = {TOPIC_ALIAS: MAX_ALIASES}
        device = world.member()
        device.ask(Publish("a", properties=alias), Publish("", properties=alias))
        device.ask(Publish("b", properties=alias), Publish("", properties=alias))
        subjects = [line.split()[1] for line in listener.receive().split(b"\r\n") if b"MSG" in line]
        assert subjects == [b"a", b"a", b"b", b"b"]

    @pytest.mark.parametrize(
        ("alias", "reason"),
        [
            (MAX_ALIASES + 1, ReasonCode.TOPIC_ALIAS_INVALID),
            (1, ReasonCode.PROTOCOL_ERROR),
        ],
    )
    def test_wrongAlias(self, alias: int, reason: ReasonCode) -> None:
        """An alias that is too large, or stands for nothing, ends the connection."""
        device = MQTTWorld().member()
        assert device.ask(Publish("", properties={TOPIC_ALIAS: alias})) == [Disconnect(reason)]


class TestEnding:
    """The end of connections, and wills."""

    @onLevels
    def test_left(self, level: int) -> None:
        """A client that leaves gets no answer, and its will is not published."""
        world = MQTTWorld()
        listener = world.user(b"SUB > 1\r\n")
        device = world.member(level, will=Will("w", b"gone"))
        assert device.ask(Disconnect()) == []
        assert device.closed
        assert listener.receive() == b""
        assert len(world.clients.registry) == 0

    def test_will(self) -> None:
        """The will of a client whose connection is lost is published with its user's rights."""
        for allowed, count in ((b"w", 1), (b"x", 0)):
            world = MQTTWorld(None, granting(publish=PermissionSet((allowed,))))
            listener = world.user(HEADERS, b"SUB > 1\r\n")
            device = world.member(will=Will("w", b"gone", properties={CONTENT_TYPE: "x"}))
            device.wire.transport.hangUp()
            world.advance(1)
            came = listener.receive()
            assert came.count(b"HMSG w 1") == count
            assert came.count(b"Content-Type: x") == count

    def test_askedWill(self) -> None:
        """A client of MQTT 5 may leave and have its will published."""
        world = MQTTWorld()
        listener = world.user(b"SUB > 1\r\n")
        world.member(will=Will("w", b"gone")).ask(Disconnect(ReasonCode.DISCONNECT_WITH_WILL))
        assert listener.receive().endswith(b"gone\r\n")

    def test_brokenWill(self) -> None:
        """The will of a client that breaks the protocol is published."""
        world = MQTTWorld()
        listener = world.user(b"SUB > 1\r\n")
        world.member(will=Will("w", b"gone")).askBytes(b"\0\0")
        world.advance(1)
        assert listener.receive().endswith(b"gone\r\n")

    def test_largeWill(self) -> None:
        """A will above the limit of its user is not published, and the connection ends."""
        world = MQTTWorld(None, granting(maxPayload=30))
        listener = world.user(b"SUB > 1\r\n")
        device = world.member(will=Will("w", bytes(50)))
        device.wire.transport.hangUp()
        world.advance(1)
        assert listener.receive() == b""
        assert len(world.clients.registry) == 0

    @onLevels
    def test_takenOver(self, level: int) -> None:
        """A client with the same identifier takes the place of the earlier one."""
        world = MQTTWorld()
        first = world.member(level)
        second = world.member(MQTT_3_1_1)
        told = [Disconnect(ReasonCode.SESSION_TAKEN_OVER)] if level == MQTT_5 else []
        assert first.receive() == told
        assert first.closed
        world.advance(1)
        assert second.ask(Pingreq()) == [Pingresp()]
        assert len(world.clients.registry) == 1

    def test_otherAccount(self) -> None:
        """Clients of different accounts can have the same identifier."""
        accounts = iter("AB")
        world = MQTTWorld(None, Doorkeeper(lambda hello: Grant(account=next(accounts))))
        devices = [world.member(), world.member()]
        assert not any(device.closed for device in devices)

    def test_laterSession(self) -> None:
        """A session that began without an expiry cannot get one at its end."""
        device = MQTTWorld().member()
        packet = Disconnect(properties={SESSION_EXPIRY: 5})
        assert device.ask(packet) == [Disconnect(ReasonCode.PROTOCOL_ERROR)]

    def test_kicked(self) -> None:
        """A client that an operator closes gets the reason."""
        world = MQTTWorld()
        device = world.member()
        kick(world.context.connections, device.wire.session.cid)
        assert device.receive() == [Disconnect(ReasonCode.ADMINISTRATIVE_ACTION)]


class TestFuzz:
    """Input that is wrong in any way."""

    @settings(max_examples=60)
    @given(
        data=st.lists(st.binary(max_size=40), max_size=4),
        level=st.sampled_from([0, MQTT_3_1_1, MQTT_5]),
    )
    def test_anyBytes(self, data: list[bytes], level: int) -> None:
        """Any bytes before and after CONNECT are handled or refused, never a failure of ours."""
        world = MQTTWorld()
        device = world.member(level) if level else world.device()
        for piece in data:
            device.wire.ask(piece)
        assert device.wire.session.reason != errors.INTERNAL.reason

    def test_otherDevice(self) -> None:
        """A device that breaks the protocol ends, others stay."""
        world = MQTTWorld()
        other = world.member(clientID="other")
        world.member().askBytes(encoded(Subscribe(1, ()), MQTT_5))
        assert other.ask(Pingreq()) == [Pingresp()]
