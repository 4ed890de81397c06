"""
The properties of MQTT 5 packets. Each is declared once: its number, its type, the packets of
clients and those of servers that may have it, and the values that it may have.

The properties of a packet are a mapping from L{Property} to the value. The value of a property that
may be repeated is a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from natsbroker.wire.mqtt.fields import (
    BINARY,
    BYTE,
    LONG,
    PAIR,
    SHORT,
    TEXT,
    VARINT,
    FieldType,
    Reader,
    varint,
)
from natsbroker.wire.mqtt.reasons import PacketError, ReasonCode, malformed, violation

#: The most properties of a packet, counting each of those that are repeated.
MAX_PROPERTIES = 1000

#: The name under which the properties of a will are declared, which are inside of CONNECT.
WILL = "WILL"

_Check = Callable[[Any], PacketError | None]


@dataclass(frozen=True, eq=False, slots=True)
class Property:
    """
    @ivar clients: the packets of clients that may have it, with L{WILL}.
    @ivar servers: the packets of servers.
    @ivar repeating: the packets in which it may be repeated.
    @ivar check: gives the error for a value that is not allowed.
    """

    number: int
    name: str
    type: FieldType
    clients: frozenset[str]
    servers: frozenset[str]
    repeating: frozenset[str]
    check: _Check

    @property
    def isRepeated(self) -> bool:
        return bool(self.repeating)

    def __repr__(self) -> str:
        return f"<{self.name}>"


#: The properties of one packet.
Properties = Mapping[Property, Any]

NONE: Properties = MappingProxyType({})

#: All properties by number.
BY_NUMBER: dict[int, Property] = {}


def _boolean(value: int) -> PacketError | None:
    return violation("a property that is neither 0 nor 1") if value > 1 else None


def _positive(value: int) -> PacketError | None:
    return None if value else violation("a property that is 0")


def _alias(value: int) -> PacketError | None:
    return None if value else PacketError(ReasonCode.TOPIC_ALIAS_INVALID, "the topic alias 0")


def _literal(value: str) -> PacketError | None:
    if not value or "#" in value or "+" in value:
        return violation("a response topic that is empty or has wildcards")
    return None


def _any(value: Any) -> PacketError | None:
    return None


def _declared(
    number: int,
    name: str,
    type: FieldType,
    clients: str = "",
    servers: str = "",
    check: _Check = _any,
    repeating: str = "",
) -> Property:
    declared = BY_NUMBER[number] = Property(
        number, name, type, _names(clients), _names(servers), _names(repeating), check
    )
    return declared


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MESSAGE = f"PUBLISH {WILL}"
_ACKS = "PUBACK PUBREC PUBREL PUBCOMP"
_BOTH = f"PUBLISH {_ACKS} DISCONNECT AUTH"
_CLIENTS = f"CONNECT {WILL} SUBSCRIBE UNSUBSCRIBE {_BOTH}"
_SERVERS = f"CONNACK SUBACK UNSUBACK {_BOTH}"

PAYLOAD_FORMAT = _declared(0x01, "payload format", BYTE, _MESSAGE, "PUBLISH", _boolean)
MESSAGE_EXPIRY = _declared(0x02, "message expiry", LONG, _MESSAGE, "PUBLISH")
CONTENT_TYPE = _declared(0x03, "content type", TEXT, _MESSAGE, "PUBLISH")
RESPONSE_TOPIC = _declared(0x08, "response topic", TEXT, _MESSAGE, "PUBLISH", _literal)
CORRELATION_DATA = _declared(0x09, "correlation data", BINARY, _MESSAGE, "PUBLISH")
SUBSCRIPTION_IDENTIFIER = _declared(
    0x0B, "subscription identifier", VARINT, "SUBSCRIBE", "PUBLISH", _positive, repeating="PUBLISH"
)
SESSION_EXPIRY = _declared(0x11, "session expiry", LONG, "CONNECT DISCONNECT", "CONNACK")
ASSIGNED_CLIENT_IDENTIFIER = _declared(0x12, "assigned client identifier", TEXT, "", "CONNACK")
SERVER_KEEP_ALIVE = _declared(0x13, "server keep alive", SHORT, "", "CONNACK")
AUTHENTICATION_METHOD = _declared(
    0x15, "authentication method", TEXT, "CONNECT AUTH", "CONNACK AUTH"
)
AUTHENTICATION_DATA = _declared(0x16, "authentication data", BINARY, "CONNECT AUTH", "CONNACK AUTH")
REQUEST_PROBLEM_INFORMATION = _declared(
    0x17, "request problem information", BYTE, "CONNECT", "", _boolean
)
WILL_DELAY = _declared(0x18, "will delay", LONG, WILL)
REQUEST_RESPONSE_INFORMATION = _declared(
    0x19, "request response information", BYTE, "CONNECT", "", _boolean
)
RESPONSE_INFORMATION = _declared(0x1A, "response information", TEXT, "", "CONNACK")
SERVER_REFERENCE = _declared(0x1C, "server reference", TEXT, "", "CONNACK DISCONNECT")
REASON_STRING = _declared(
    0x1F,
    "reason string",
    TEXT,
    f"{_ACKS} DISCONNECT AUTH",
    f"CONNACK {_ACKS} SUBACK UNSUBACK DISCONNECT AUTH",
)
RECEIVE_MAXIMUM = _declared(0x21, "receive maximum", SHORT, "CONNECT", "CONNACK", _positive)
TOPIC_ALIAS_MAXIMUM = _declared(0x22, "topic alias maximum", SHORT, "CONNECT", "CONNACK")
TOPIC_ALIAS = _declared(0x23, "topic alias", SHORT, "PUBLISH", "PUBLISH", _alias)
MAXIMUM_QOS = _declared(0x24, "maximum QoS", BYTE, "", "CONNACK", _boolean)
RETAIN_AVAILABLE = _declared(0x25, "retain available", BYTE, "", "CONNACK", _boolean)
USER_PROPERTY = _declared(
    0x26, "user property", PAIR, _CLIENTS, _SERVERS, repeating=f"{_CLIENTS} {_SERVERS}"
)
MAXIMUM_PACKET_SIZE = _declared(0x27, "maximum packet size", LONG, "CONNECT", "CONNACK", _positive)
WILDCARDS_AVAILABLE = _declared(
    0x28, "wildcard subscription available", BYTE, "", "CONNACK", _boolean
)
IDENTIFIERS_AVAILABLE = _declared(
    0x29, "subscription identifier available", BYTE, "", "CONNACK", _boolean
)
SHARED_AVAILABLE = _declared(0x2A, "shared subscription available", BYTE, "", "CONNACK", _boolean)


def readProperties(reader: Reader, packet: str) -> Properties:
    """
    Take the length and the properties of a packet.

    @param packet: its name, or L{WILL}.
    """
    size = reader.varint()
    if not size:
        return NONE
    inner = Reader(reader.take(size), reader.isOfClient)
    properties: dict[Property, Any] = {}
    count = 0
    while not inner.isAtEnd:
        count += 1
        if count > MAX_PROPERTIES:
            raise PacketError(ReasonCode.QUOTA_EXCEEDED, f"more than {MAX_PROPERTIES} properties")
        _readInto(properties, inner, packet)
    for declared, value in properties.items():
        if declared.isRepeated:
            properties[declared] = tuple(value)
    return properties


def _readInto(properties: dict[Property, Any], inner: Reader, packet: str) -> None:
    declared = BY_NUMBER.get(inner.varint())
    if declared is None:
        raise malformed("an unknown property")
    if packet not in (declared.clients if inner.isOfClient else declared.servers):
        raise _misplaced(declared, packet)
    value = declared.type.read(inner)
    error = declared.check(value)
    if error is not None:
        raise error
    if not declared.isRepeated:
        if declared in properties:
            raise violation(f"two properties of the kind {declared.name}")
        properties[declared] = value
        return
    values = properties.setdefault(declared, [])
    if values and packet not in declared.repeating:
        raise violation(f"two properties of the kind {declared.name}")
    values.append(value)


def _misplaced(declared: Property, packet: str) -> PacketError:
    """The error for a property of the wrong packet, or of a packet of the wrong side."""
    text = f"the property {declared.name} in {packet}"
    if packet in declared.clients or packet in declared.servers:
        return violation(text)
    return malformed(text)


def writeProperties(properties: Properties) -> bytes:
    """The properties behind their length, in the order of the mapping."""
    if not properties:
        return b"\0"
    parts: list[bytes] = []
    for declared, value in properties.items():
        number, write = varint(declared.number), declared.type.write
        for single in value if declared.isRepeated else (value,):
            parts += (number, write(single))
    written = b"".join(parts)
    return varint(len(written)) + written
