"""
The table of MQTT packets: the number of each, who sends it, the bits of its first byte, and its
fields in their order. It serves for reading, for writing, and for the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from natsbroker.wire.mqtt import packets
from natsbroker.wire.mqtt.fields import (
    BYTE,
    SHORT,
    TEXT,
    FieldType,
    Reader,
    binary,
    text,
)
from natsbroker.wire.mqtt.packets import MQTT_3_1, MQTT_3_1_1, MQTT_5, Entries, FilterRequest
from natsbroker.wire.mqtt.properties import (
    NONE,
    TOPIC_ALIAS,
    WILL,
    readProperties,
    writeProperties,
)
from natsbroker.wire.mqtt.reasons import (
    CLIENT_REASONS,
    RETURN_CODES,
    SERVER_REASONS,
    PacketError,
    ReasonCode,
    malformed,
    violation,
)

#: The names of the protocol by level.
PROTOCOLS = {MQTT_3_1: "MQIsdp", MQTT_3_1_1: "MQTT", MQTT_5: "MQTT"}

_ALL = frozenset(PROTOCOLS)
_NEW = frozenset([MQTT_5])


@dataclass(frozen=True, slots=True)
class Field:
    """
    A field that is read and written by itself.

    @ivar name: of the attribute of the packet.
    @ivar levels: the versions that have it.
    @ivar canEnd: whether the packet may end before it, if it and all behind it have their defaults.
    @ivar default: for C{canEnd}.
    """

    name: str
    type: FieldType
    levels: frozenset[int] = _ALL
    canEnd: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class Layout:
    """
    @ivar read: makes the packet, from the reader of its body, the bits of its first byte and the
        level.
    @ivar write: gives these bits and the body, from the packet and the level.
    @ivar bits: the bits that the first byte must have; C{None} if C{read} checks them.
    """

    number: int
    packet: type[Any]
    isOfClients: bool
    isOfServers: bool
    levels: frozenset[int]
    bits: int | None
    read: Callable[[Reader, int, int], Any]
    write: Callable[[Any, int], tuple[int, bytes]]
    fields: tuple[Field, ...] = ()

    @property
    def name(self) -> str:
        return self.packet.__name__.upper()


def _readFields(
    packet: type[Any], fields: tuple[Field, ...], reader: Reader, bits: int, level: int
) -> Any:
    values = {}
    for field in fields:
        if level in field.levels:
            if field.canEnd and reader.isAtEnd:
                break
            values[field.name] = field.type.read(reader)
    return packet(**values)


def _writeFields(
    bits: int, fields: tuple[Field, ...], packet: Any, level: int
) -> tuple[int, bytes]:
    parts = [(field, getattr(packet, field.name)) for field in fields if level in field.levels]
    while parts and parts[-1][0].canEnd and parts[-1][1] == parts[-1][0].default:
        parts.pop()
    return bits, b"".join(field.type.write(value) for field, value in parts)


def _propertiesOf(packet: str) -> Field:
    type = FieldType("properties", lambda reader: readProperties(reader, packet), writeProperties)
    return Field("properties", type, _NEW, default=NONE)


def _lastProperties(packet: str) -> Field:
    return Field("properties", _propertiesOf(packet).type, _NEW, True, NONE)


def _reasonType(packet: str) -> FieldType:
    ours, theirs = SERVER_REASONS.get(packet, {}), CLIENT_REASONS.get(packet, {})

    def read(reader: Reader) -> ReasonCode:
        reason = (theirs if reader.isOfClient else ours).get(reader.byte())
        if reason is None:
            raise violation(f"a reason code that {packet} does not have")
        return reason

    return FieldType("reason", read, BYTE.write)


def _lastReason(packet: str) -> Field:
    return Field("reason", _reasonType(packet), _NEW, True, ReasonCode.SUCCESS)


def _identifier(reader: Reader) -> int:
    packetID = reader.short()
    if not packetID:
        raise violation("the packet identifier 0")
    return packetID


PACKET_ID = FieldType("packet identifier", _identifier, SHORT.write)

_ID = Field("packetID", PACKET_ID)


# CONNECT


def _readConnect(reader: Reader, bits: int, level: int) -> packets.Connect:
    level = readLevel(reader)
    flags = reader.byte()
    _checkFlags(flags, level)
    keepAlive = reader.short()
    isNew = level == MQTT_5
    properties = readProperties(reader, "CONNECT") if isNew else NONE
    clientID = reader.text()
    will = _readWill(reader, flags, isNew) if flags & _HAS_WILL else None
    return packets.Connect(
        level,
        clientID,
        bool(flags & _CLEAN),
        keepAlive,
        reader.text() if flags & _HAS_USER else None,
        reader.binary() if flags & _HAS_PASSWORD else None,
        will,
        properties,
    )


_RESERVED, _CLEAN, _HAS_WILL, _WILL_RETAIN, _HAS_PASSWORD, _HAS_USER = 1, 2, 4, 32, 64, 128
_WILL_QOS, _WILL_BITS = 3, 0x38


def readLevel(reader: Reader) -> int:
    """
    Take the name and the level of the protocol.

    @raise PacketError: if they are of no version that is known.
    """
    name, level = reader.text(), reader.byte()
    if PROTOCOLS.get(level) != name:
        text = "a protocol that is not MQTT 3.1, 3.1.1 or 5"
        raise PacketError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, text)
    return level


def _checkFlags(flags: int, level: int) -> None:
    if flags & _RESERVED:
        raise malformed("the reserved flag of CONNECT")
    if flags >> _WILL_QOS & 3 == 3:
        raise malformed("a will with QoS 3")
    if flags & _WILL_BITS and not flags & _HAS_WILL:
        raise malformed("flags of a will without a will")
    if level < MQTT_5 and flags & _HAS_PASSWORD and not flags & _HAS_USER:
        raise malformed("a password without a user name")


def _readWill(reader: Reader, flags: int, isNew: bool) -> packets.Will:
    properties = readProperties(reader, WILL) if isNew else NONE
    topic, payload = reader.text(), reader.binary()
    checkTopic(topic)
    qos, retain = flags >> _WILL_QOS & 3, bool(flags & _WILL_RETAIN)
    return packets.Will(topic, payload, qos, retain, properties)


def _writeConnect(packet: packets.Connect, level: int) -> tuple[int, bytes]:
    will = packet.will
    flags = _CLEAN * packet.clean
    flags |= _HAS_USER * (packet.user is not None)
    flags |= _HAS_PASSWORD * (packet.password is not None)
    if will is not None:
        flags |= _HAS_WILL | will.qos << _WILL_QOS | _WILL_RETAIN * will.retain
    isNew = packet.level == MQTT_5
    parts = [text(PROTOCOLS[packet.level]), bytes([packet.level, flags])]
    parts.append(SHORT.write(packet.keepAlive))
    if isNew:
        parts.append(writeProperties(packet.properties))
    parts.append(text(packet.clientID))
    if will is not None:
        if isNew:
            parts.append(writeProperties(will.properties))
        parts += (text(will.topic), binary(will.payload))
    if packet.user is not None:
        parts.append(text(packet.user))
    if packet.password is not None:
        parts.append(binary(packet.password))
    return 0, b"".join(parts)


# CONNACK, SUBACK, UNSUBACK


def _presence(reader: Reader) -> bool:
    flags = reader.byte()
    if flags > 1:
        raise malformed("reserved flags of CONNACK")
    return bool(flags)


def _returnCode(reader: Reader) -> ReasonCode:
    reason = _BY_RETURN_CODE.get(reader.byte())
    if reason is None:
        raise violation("an unknown return code")
    return reason


_BY_RETURN_CODE = {code: reason for reason, code in RETURN_CODES.items()}


def _writeReturnCode(reason: ReasonCode) -> bytes:
    return bytes([RETURN_CODES.get(reason, RETURN_CODES[ReasonCode.SERVER_UNAVAILABLE])])


RETURN_CODE = FieldType("return code", _returnCode, _writeReturnCode)

_CONNACK = (
    Field("isPresent", FieldType("presence", _presence, BYTE.write)),
    Field("reason", RETURN_CODE, _ALL - _NEW),
    Field("reason", _reasonType("CONNACK"), _NEW),
    _propertiesOf("CONNACK"),
)


def _reasonsOf(packet: str) -> Field:
    single = _reasonType(packet)

    def read(reader: Reader) -> tuple[ReasonCode, ...]:
        _checkEntries(reader)
        reasons = []
        while not reader.isAtEnd:
            reasons.append(single.read(reader))
        return tuple(reasons)

    return Field("reasons", FieldType("reasons", read, bytes), _NEW)


def _readGranted(reader: Reader) -> tuple[ReasonCode, ...]:
    _checkEntries(reader)
    codes = reader.rest()
    if not _GRANTED.issuperset(codes):
        raise violation("an unknown return code")
    return tuple(map(ReasonCode, codes))


_GRANTED = frozenset([0, 1, 2, ReasonCode.UNSPECIFIED_ERROR])

#: MQTT 3 has one code for all refusals.
_GRANTS = FieldType(
    "return codes",
    _readGranted,
    lambda reasons: bytes(min(reason, ReasonCode.UNSPECIFIED_ERROR) for reason in reasons),
)

_SUBACK = (
    _ID,
    _propertiesOf("SUBACK"),
    Field("reasons", _GRANTS, _ALL - _NEW),
    _reasonsOf("SUBACK"),
)
_UNSUBACK = (_ID, _propertiesOf("UNSUBACK"), _reasonsOf("UNSUBACK"))


# PUBLISH


def checkTopic(topic: str) -> None:
    if not topic or "#" in topic or "+" in topic:
        text = "a topic that is empty or has wildcards"
        raise PacketError(ReasonCode.TOPIC_NAME_INVALID, text)


_RETAIN, _DUPLICATE, _QOS = 1, 8, 1


def _readPublish(reader: Reader, bits: int, level: int) -> packets.Publish:
    qos, isDuplicate = bits >> _QOS & 3, bool(bits & _DUPLICATE)
    if qos == 3:
        raise malformed("a message with QoS 3")
    if isDuplicate and not qos:
        raise malformed("a duplicate with QoS 0")
    topic = reader.text()
    packetID = _identifier(reader) if qos else 0
    properties = readProperties(reader, "PUBLISH") if level == MQTT_5 else NONE
    if topic or TOPIC_ALIAS not in properties:
        checkTopic(topic)
    retain = bool(bits & _RETAIN)
    return packets.Publish(topic, reader.rest(), qos, retain, isDuplicate, packetID, properties)


def _writePublish(packet: packets.Publish, level: int) -> tuple[int, bytes]:
    parts = [text(packet.topic)]
    if packet.qos:
        parts.append(PACKET_ID.write(packet.packetID))
    if level == MQTT_5:
        parts.append(writeProperties(packet.properties))
    parts.append(packet.payload)
    bits = packet.qos << _QOS | _RETAIN * packet.retain | _DUPLICATE * packet.isDuplicate
    return bits, b"".join(parts)


# SUBSCRIBE, UNSUBSCRIBE


def _checkEntries(reader: Reader) -> None:
    if reader.isAtEnd:
        raise violation("a packet without entries")


_NO_LOCAL, _AS_PUBLISHED, _HANDLING = 4, 8, 4


def _readOldRequest(reader: Reader) -> FilterRequest:
    filter, options = reader.text(), reader.byte()
    if options > 2:
        raise malformed("reserved bits of a subscription")
    return FilterRequest(filter, options)


def _readRequest(reader: Reader) -> FilterRequest:
    filter, options = reader.text(), reader.byte()
    qos, handling = options & 3, options >> _HANDLING
    if handling > 3:
        raise malformed("reserved bits of a subscription")
    if qos == 3 or handling == 3:
        raise violation("a subscription with QoS 3 or the retain handling 3")
    noLocal = bool(options & _NO_LOCAL)
    if noLocal and filter.startswith("$share/"):
        raise violation("a shared subscription without the own messages")
    return FilterRequest(filter, qos, noLocal, bool(options & _AS_PUBLISHED), handling)


def _writeRequests(requests: Any) -> bytes:
    return b"".join(
        text(request.filter)
        + bytes(
            [
                request.qos
                | _NO_LOCAL * request.noLocal
                | _AS_PUBLISHED * request.retainAsPublished
                | request.retainHandling << _HANDLING
            ]
        )
        for request in requests
    )


def _entries(read: Callable[[Reader], Any], write: Callable[[Any], bytes]) -> FieldType:
    def readEntries(reader: Reader) -> Entries:
        _checkEntries(reader)
        return Entries(reader, read)

    return FieldType("entries", readEntries, write)


_SUBSCRIBE = (
    _ID,
    _propertiesOf("SUBSCRIBE"),
    Field("requests", _entries(_readOldRequest, _writeRequests), _ALL - _NEW),
    Field("requests", _entries(_readRequest, _writeRequests), _NEW),
)
_UNSUBSCRIBE = (
    _ID,
    _propertiesOf("UNSUBSCRIBE"),
    Field("filters", _entries(TEXT.read, lambda filters: b"".join(text(name) for name in filters))),
)


# The table


def _made(
    number: int,
    packet: type[Any],
    senders: str,
    fields: tuple[Field, ...] = (),
    bits: int = 0,
    levels: frozenset[int] = _ALL,
) -> Layout:
    """A packet that is its fields, one after the other. C{senders} has c, s or both."""
    read, write = partial(_readFields, packet, fields), partial(_writeFields, bits, fields)
    return Layout(number, packet, "c" in senders, "s" in senders, levels, bits, read, write, fields)


def _settling(packet: str) -> tuple[Field, ...]:
    return _ID, _lastReason(packet), _lastProperties(packet)


def _ending(packet: str) -> tuple[Field, ...]:
    return _lastReason(packet), _lastProperties(packet)


_TABLE = (
    Layout(1, packets.Connect, True, False, _ALL, 0, _readConnect, _writeConnect),
    _made(2, packets.Connack, "s", _CONNACK),
    Layout(3, packets.Publish, True, True, _ALL, None, _readPublish, _writePublish),
    _made(4, packets.Puback, "cs", _settling("PUBACK")),
    _made(5, packets.Pubrec, "cs", _settling("PUBREC")),
    _made(6, packets.Pubrel, "cs", _settling("PUBREL"), bits=2),
    _made(7, packets.Pubcomp, "cs", _settling("PUBCOMP")),
    _made(8, packets.Subscribe, "c", _SUBSCRIBE, bits=2),
    _made(9, packets.Suback, "s", _SUBACK),
    _made(10, packets.Unsubscribe, "c", _UNSUBSCRIBE, bits=2),
    _made(11, packets.Unsuback, "s", _UNSUBACK),
    _made(12, packets.Pingreq, "c"),
    _made(13, packets.Pingresp, "s"),
    _made(14, packets.Disconnect, "cs", _ending("DISCONNECT")),
    _made(15, packets.Auth, "cs", _ending("AUTH"), levels=_NEW),
)

#: By the number of the packet, and by its class.
LAYOUTS: Mapping[int, Layout] = {layout.number: layout for layout in _TABLE}
BY_PACKET: Mapping[type[Any], Layout] = {layout.packet: layout for layout in _TABLE}
