"""
The protocol of one client of MQTT, on the session that each client of the broker has.

Messages have QoS 0, are not retained, and sessions end with their connection. MQTT 5 clients are
informed of that in CONNACK. A message with another QoS, or to be retained, ends the connection
rather than to be taken for less than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Any
from uuid import uuid4

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.clients.dialect import ClientDialect
from natsbroker.connections.wheel import DeadlineWheel
from natsbroker.interfaces import IClientSession
from natsbroker.mqtt import ending
from natsbroker.mqtt.deliveries import MAX_ALIASES, Deliveries, SharedFrame
from natsbroker.mqtt.headers import headersOf, replyOf
from natsbroker.mqtt.registry import ClientRegistry
from natsbroker.mqtt.subscribing import Subscriptions
from natsbroker.mqtt.topics import TopicError, subjectOf
from natsbroker.wire.mqtt import packets
from natsbroker.wire.mqtt.codec import LARGEST, PacketDecoder, encoded
from natsbroker.wire.mqtt.packets import MQTT_5, Connack, Connect, Disconnect, Packet, Publish
from natsbroker.wire.mqtt.properties import (
    ASSIGNED_CLIENT_IDENTIFIER,
    AUTHENTICATION_METHOD,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    RETAIN_AVAILABLE,
    SESSION_EXPIRY,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    Properties,
    Property,
)
from natsbroker.wire.mqtt.reasons import PacketError, ReasonCode, violation
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker")

#: The most bytes of CONNECT, since anybody may send it.
FIRST_PACKET = 1 << 16

#: The part of the keep-alive time after which a silent client is given up.
_PATIENCE = 1.5

#: The operation that continues the work of the last packet.
_CONTINUE = object()

#: The characters that a client identifier cannot have, as in nats-server, and control characters.
_FORBIDDEN = frozenset(map(chr, range(0x21))) | set("\x7f.*>")

#: The subjects of the broker's own streams, which clients cannot publish to.
RESERVED = b"$MQTT."

_subjectOf = lru_cache(maxsize=1024)(subjectOf)


class MQTTClients:
    """
    The common ground of all clients of the kind.

    @ivar now: the time in seconds.
    """

    def __init__(self, now: Callable[[], float], deadlines: DeadlineWheel) -> None:
        self.now = now
        self.deadlines = deadlines
        self.registry = ClientRegistry()
        self._frames = {isNew: SharedFrame(isNew) for isNew in (False, True)}

    def framesFor(self, level: int) -> SharedFrame:
        return self._frames[level == MQTT_5]


class Phase(Enum):
    """The state of a conversation, which decides the last packet."""

    NEW = "not answered yet"
    CONNECTED = "connected"
    LEFT = "left by itself"


class MQTTDialect(ClientDialect):
    """
    @ivar clientID: empty before CONNECT.
    @ivar _will: what is published if the connection ends by itself; C{None} without.
    @ivar _ending: the reason to give to the client; C{None} for that of the error.
    @ivar _work: the rest of the work of the last packet.
    """

    session: IClientSession

    def __init__(self, session: IClientSession, clients: MQTTClients) -> None:
        super().__init__(session)
        self.clientID = ""
        self._clients = clients
        self._decoder = PacketDecoder(FIRST_PACKET)
        self._connect: Connect | None = None
        self._phase = Phase.NEW
        self._will: packets.Will | None = None
        self._ending: ReasonCode | None = None
        self._work: Iterator[None] | None = None
        self._heard = 0.0
        self._patience = 0.0
        self._aliases: dict[int, str] = {}
        self._subscriptions: Subscriptions | None = None
        self._deliveries: Deliveries | None = None

    # Input

    def feed(self, data: bytes) -> None:
        self._heard = self._clients.now()
        self._decoder.feed(data)

    def next(self) -> Any:
        if self._work is not None:
            return _CONTINUE
        try:
            return self._decoder.next()
        except PacketError as error:
            return error

    def handle(self, operation: Any) -> None:
        try:
            if operation is _CONTINUE:
                self._continue()
            elif isinstance(operation, PacketError):
                raise operation
            else:
                self._OPERATIONS[type(operation)](self, operation)
        except PacketError as error:
            self._end(error.reason, ending.broken(error))

    def _continue(self) -> None:
        if self._work is not None and next(self._work, _CONTINUE) is _CONTINUE:
            self._work = None

    def _end(self, reason: ReasonCode, error: errors.WireError) -> None:
        self._ending = reason
        self.session.close(error)

    def _write(self, packet: Packet) -> None:
        self.session.write(encoded(packet, self._decoder.level))

    @property
    def _isNew(self) -> bool:
        return self._decoder.level == MQTT_5

    # CONNECT

    def _asked(self, packet: Connect) -> None:
        if AUTHENTICATION_METHOD in packet.properties:
            raise PacketError(ReasonCode.BAD_AUTHENTICATION_METHOD, "an authentication method")
        if packet.user == "" and not self._isNew:
            raise PacketError(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "an empty user name")
        self.clientID = self._identifierOf(packet)
        if packet.will is not None:
            self._checkQoS(packet.will.qos, packet.will.retain)
            self._subjectFor(packet.will.topic)
            self._will = packet.will
        self._connect = packet
        self.session.login(_loginOf(packet, self.clientID))

    def _identifierOf(self, packet: Connect) -> str:
        given = packet.clientID
        if set(given) & _FORBIDDEN or not (given or packet.clean or self._isNew):
            text = "a client identifier that cannot be used"
            raise PacketError(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, text)
        return given or uuid4().hex

    def admitted(self) -> None:
        packet, grant = self._connect, self.session.grant
        if packet is None or grant is None:
            raise RuntimeError("a login without CONNECT")
        self._phase = Phase.CONNECTED
        settings = self.session.settings
        if settings.max_payload >= 0:
            self._decoder.maximum = settings.max_payload + settings.max_control_line
        else:
            self._decoder.maximum = LARGEST
        most = packet.properties.get(MAXIMUM_PACKET_SIZE, 0)
        aliases = packet.properties.get(TOPIC_ALIAS_MAXIMUM, 0)
        frames = self._clients.framesFor(packet.level)
        self._deliveries = Deliveries(self.session, frames, most, aliases)
        self._subscriptions = Subscriptions(self.session, self._isNew)
        self._clients.registry.add(grant.account, self.clientID, self)
        self._write(Connack(properties=self._terms(packet) if self._isNew else {}))
        self._keepAlive(packet.keepAlive)

    def _terms(self, packet: Connect) -> Properties:
        """The properties of CONNACK."""
        terms: dict[Property, Any] = {
            MAXIMUM_QOS: 0,
            RETAIN_AVAILABLE: 0,
            TOPIC_ALIAS_MAXIMUM: MAX_ALIASES,
        }
        if self._decoder.maximum < LARGEST:
            terms[MAXIMUM_PACKET_SIZE] = self._decoder.maximum
        if packet.properties.get(SESSION_EXPIRY):
            terms[SESSION_EXPIRY] = 0
        if not packet.clientID:
            terms[ASSIGNED_CLIENT_IDENTIFIER] = self.clientID
        return terms

    # Keep-alive

    def _keepAlive(self, seconds: int) -> None:
        if seconds:
            self._patience = seconds * _PATIENCE
            self._clients.deadlines.schedule(self, self._heard + self._patience)

    def deadlinePassed(self, now: float) -> float | None:
        """The time of the next call; see L{natsbroker.connections.wheel.HasDeadline}."""
        due = self._heard + self._patience
        if now < due:
            return due
        self._end(ReasonCode.KEEP_ALIVE_TIMEOUT, errors.STALE)
        return None

    def _pinged(self, packet: packets.Pingreq) -> None:
        self._write(packets.Pingresp())

    # PUBLISH

    def _published(self, packet: Publish) -> None:
        topic = self._topicOf(packet)
        self._checkQoS(packet.qos, packet.retain)
        self._publish(self._subjectFor(topic), packet)

    def _publish(self, subject: bytes, packet: Publish | packets.Will) -> None:
        properties = packet.properties
        try:
            reply = replyOf(properties)
        except TopicError as error:
            raise PacketError(ReasonCode.TOPIC_NAME_INVALID, str(error)) from None
        headers = headersOf(packet.qos, properties)
        try:
            self.session.publish(subject, packet.payload, reply, headers)
        except errors.ProtocolViolation as refused:
            final = ending.isFinal(refused)
            if final is not None:
                raise final from None

    def _topicOf(self, packet: Publish) -> str:
        alias = packet.properties.get(TOPIC_ALIAS)
        if alias is None:
            return packet.topic
        if alias > MAX_ALIASES:
            raise PacketError(ReasonCode.TOPIC_ALIAS_INVALID, "a topic alias above the maximum")
        if packet.topic:
            self._aliases[alias] = packet.topic
        elif alias not in self._aliases:
            raise violation("a topic alias without a topic")
        return self._aliases[alias]

    def _subjectFor(self, topic: str) -> bytes:
        limit = self.session.settings.max_control_line
        if len(topic) > limit:
            raise PacketError(ReasonCode.TOPIC_NAME_INVALID, f"a topic of more than {limit} bytes")
        try:
            subject = _subjectOf(topic)
        except TopicError as error:
            raise PacketError(ReasonCode.TOPIC_NAME_INVALID, str(error)) from None
        if subject.startswith(RESERVED):
            raise PacketError(ReasonCode.TOPIC_NAME_INVALID, "a topic of the broker's own")
        return subject

    def _checkQoS(self, qos: int, retain: bool) -> None:
        if qos:
            raise PacketError(ReasonCode.QOS_NOT_SUPPORTED, "a message with another QoS than 0")
        if retain:
            raise PacketError(ReasonCode.RETAIN_NOT_SUPPORTED, "a message to be retained")

    # SUBSCRIBE, UNSUBSCRIBE

    def _subscribed(self, packet: packets.Subscribe) -> None:
        if self._subscriptions is not None:
            self._work = self._subscriptions.subscribe(packet, self._write)

    def _unsubscribed(self, packet: packets.Unsubscribe) -> None:
        if self._subscriptions is not None:
            self._work = self._subscriptions.unsubscribe(packet, self._write)

    def subscriptionEnded(self, tag: bytes, isForbidden: bool) -> None:
        if self._subscriptions is not None:
            self._subscriptions.ended(tag)

    def encode(self, message: Message, tag: bytes) -> bytes:
        if self._subscriptions is None or self._deliveries is None:
            return b""
        subscription = self._subscriptions.find(tag)
        return b"" if subscription is None else self._deliveries.encode(message, subscription)

    # The end

    def _left(self, packet: Disconnect) -> None:
        asked = packet.properties.get(SESSION_EXPIRY, 0)
        if asked and self._connect and not self._connect.properties.get(SESSION_EXPIRY):
            raise violation("a session that is to outlive a connection that began without one")
        if packet.reason is ReasonCode.SUCCESS:
            self._will = None
        self._phase = Phase.LEFT
        self.session.close(ending.LEFT)

    def takenOver(self) -> None:
        self._end(ReasonCode.SESSION_TAKEN_OVER, ending.TAKEN_OVER)

    def farewell(self, error: errors.WireError) -> bytes:
        reason = ending.codeOf(error) if self._ending is None else self._ending
        if self._phase is Phase.NEW:
            return ending.refused(reason, self._decoder.level)
        isTold = self._phase is Phase.CONNECTED and self._isNew
        return ending.disconnected(reason) if isTold else b""

    def closed(self, reason: str) -> None:
        self._clients.deadlines.forget(self)
        grant, will = self.session.grant, self._will
        if grant is None or self._deliveries is None:
            return
        self._clients.registry.remove(grant.account, self.clientID, self)
        if will is not None:
            try:
                self._publish(self._subjectFor(will.topic), will)
            except PacketError as error:
                _log.error("{client} - will: {why}", client=str(self.session), why=str(error))

    # Acknowledgements of messages that are not known, perhaps of an earlier connection

    def _settled(self, packet: Packet) -> None:
        """Nothing waits for it."""

    def _received(self, packet: packets.Pubrec) -> None:
        self._write(packets.Pubrel(packet.packetID, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))

    def _released(self, packet: packets.Pubrel) -> None:
        self._write(packets.Pubcomp(packet.packetID, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))

    def _authenticated(self, packet: packets.Auth) -> None:
        raise violation("AUTH without an authentication method in CONNECT")

    _OPERATIONS: dict[type[Any], Callable[[Any, Any], None]] = {
        Connect: _asked,
        Publish: _published,
        packets.Subscribe: _subscribed,
        packets.Unsubscribe: _unsubscribed,
        packets.Pingreq: _pinged,
        Disconnect: _left,
        packets.Puback: _settled,
        packets.Pubrec: _received,
        packets.Pubrel: _released,
        packets.Pubcomp: _settled,
        packets.Auth: _authenticated,
    }


_VERSIONS = {packets.MQTT_3_1: "3.1", packets.MQTT_3_1_1: "3.1.1", MQTT_5: "5.0"}


def _loginOf(packet: Connect, clientID: str) -> dict[str, Any]:
    """
    The members of CONNECT as clients of NATS send it. The password can also be a token, or the JWT
    of a user, as in nats-server.
    """
    version = _VERSIONS[packet.level]
    options: dict[str, Any] = {"name": clientID, "lang": "mqtt", "version": version}
    if packet.user is not None:
        options["user"] = packet.user
    if packet.password is not None:
        password = packet.password.decode("utf-8", "surrogateescape")
        options["pass"] = options["auth_token"] = password
        if password.startswith("eyJ") and password.count(".") == 2:
            options["jwt"] = password
    return options
