"""
The packets of MQTT 3.1, 3.1.1 and 5 as values. L{natsbroker.wire.mqtt.layouts} has their bytes.
Fields that a version has not keep their defaults when a packet of that version is read, and are
left out when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from natsbroker.wire.mqtt.fields import Reader
from natsbroker.wire.mqtt.properties import NONE, Properties
from natsbroker.wire.mqtt.reasons import ReasonCode

#: The protocol levels of the versions.
MQTT_3_1, MQTT_3_1_1, MQTT_5 = 3, 4, 5


def _none() -> Properties:
    return NONE


class Entries:
    """
    The list at the end of a packet, which is read again by each iteration. So a packet with
    thousands of entries can be handled in pieces. An iteration raises
    L{natsbroker.wire.mqtt.reasons.PacketError} at the first entry that is wrong.
    """

    __slots__ = ("_at", "_data", "_read")

    def __init__(self, reader: Reader, read: Callable[[Reader], Any]) -> None:
        self._data, self._at, self._read = reader.data, reader.at, read
        reader.at = len(reader.data)

    def __iter__(self) -> Iterator[Any]:
        reader = Reader(self._data, at=self._at)
        while not reader.isAtEnd:
            yield self._read(reader)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Iterable) else NotImplemented

    def __repr__(self) -> str:
        return f"<Entries in {len(self._data) - self._at} bytes>"


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Connect:
    """
    @ivar clean: whether an earlier session is to be forgotten; in MQTT 3 the session ends with the
        connection too.
    @ivar keepAlive: in seconds; 0 for none.
    """

    level: int = MQTT_5
    clientID: str = ""
    clean: bool = True
    keepAlive: int = 0
    user: str | None = None
    password: bytes | None = field(default=None, repr=False)
    will: Will | None = None
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Connack:
    reason: ReasonCode = ReasonCode.SUCCESS
    isPresent: bool = False
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Publish:
    """
    @ivar topic: empty if only the alias is sent.
    @ivar packetID: 0 with QoS 0.
    """

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    isDuplicate: bool = False
    packetID: int = 0
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class _Acknowledgement:
    packetID: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=_none)


class Puback(_Acknowledgement):
    __slots__ = ()


class Pubrec(_Acknowledgement):
    __slots__ = ()


class Pubrel(_Acknowledgement):
    __slots__ = ()


class Pubcomp(_Acknowledgement):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """
    One subscription of SUBSCRIBE. The options but C{qos} are of MQTT 5.

    @ivar retainHandling: 0 for the retained messages with each subscription, 1 only with a new one,
        2 never.
    """

    filter: str
    qos: int = 0
    noLocal: bool = False
    retainAsPublished: bool = False
    retainHandling: int = 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """C{requests} are of L{FilterRequest}."""

    packetID: int
    requests: Iterable[FilterRequest]
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Suback:
    """C{reasons} are of L{ReasonCode}, one for each filter."""

    packetID: int
    reasons: Iterable[ReasonCode]
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    packetID: int
    filters: Iterable[str]
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Unsuback:
    """C{reasons} are left out in MQTT 3."""

    packetID: int
    reasons: Iterable[ReasonCode] = ()
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Pingreq:
    pass


@dataclass(frozen=True, slots=True)
class Pingresp:
    pass


@dataclass(frozen=True, slots=True)
class Disconnect:
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Auth:
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=_none)


Packet: TypeAlias = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
