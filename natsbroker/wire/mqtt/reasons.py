"""
The reason codes of MQTT 5, and the packets that may carry them. MQTT 3 shows a part of them as
return codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType


class ReasonCode(IntEnum):
    """C{SUCCESS} also stands for a normal end, and for a subscription with QoS 0."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def isError(self) -> bool:
        return self >= ReasonCode.UNSPECIFIED_ERROR


class PacketError(ValueError):
    """
    A packet that breaks the protocol.

    @ivar reason: the code that ends the connection.
    """

    def __init__(self, reason: ReasonCode, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def malformed(text: str) -> PacketError:
    return PacketError(ReasonCode.MALFORMED_PACKET, text)


def violation(text: str) -> PacketError:
    return PacketError(ReasonCode.PROTOCOL_ERROR, text)


#: The packets of the two that settle a publish, which carry the same codes.
_PUBLISHED = "PUBACK PUBREC"

#: By code, the packets of clients and those of servers that may carry it.
_CARRIERS: Mapping[ReasonCode, tuple[str, str]] = {
    ReasonCode.SUCCESS: (
        "PUBACK PUBREC PUBREL PUBCOMP DISCONNECT",
        "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH",
    ),
    ReasonCode.GRANTED_QOS_1: ("", "SUBACK"),
    ReasonCode.GRANTED_QOS_2: ("", "SUBACK"),
    ReasonCode.DISCONNECT_WITH_WILL: ("DISCONNECT", ""),
    ReasonCode.NO_MATCHING_SUBSCRIBERS: ("", _PUBLISHED),
    ReasonCode.NO_SUBSCRIPTION_EXISTED: ("", "UNSUBACK"),
    ReasonCode.CONTINUE_AUTHENTICATION: ("AUTH", "AUTH"),
    ReasonCode.REAUTHENTICATE: ("AUTH", ""),
    ReasonCode.UNSPECIFIED_ERROR: (
        f"{_PUBLISHED} DISCONNECT",
        f"CONNACK {_PUBLISHED} SUBACK UNSUBACK DISCONNECT",
    ),
    ReasonCode.MALFORMED_PACKET: ("DISCONNECT", "CONNACK DISCONNECT"),
    ReasonCode.PROTOCOL_ERROR: ("DISCONNECT", "CONNACK DISCONNECT"),
    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR: (
        f"{_PUBLISHED} DISCONNECT",
        f"CONNACK {_PUBLISHED} SUBACK UNSUBACK DISCONNECT",
    ),
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ("", "CONNACK"),
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ("", "CONNACK"),
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ("", "CONNACK"),
    ReasonCode.NOT_AUTHORIZED: (
        _PUBLISHED,
        f"CONNACK {_PUBLISHED} SUBACK UNSUBACK DISCONNECT",
    ),
    ReasonCode.SERVER_UNAVAILABLE: ("", "CONNACK"),
    ReasonCode.SERVER_BUSY: ("", "CONNACK DISCONNECT"),
    ReasonCode.BANNED: ("", "CONNACK"),
    ReasonCode.SERVER_SHUTTING_DOWN: ("", "DISCONNECT"),
    ReasonCode.BAD_AUTHENTICATION_METHOD: ("", "CONNACK DISCONNECT"),
    ReasonCode.KEEP_ALIVE_TIMEOUT: ("", "DISCONNECT"),
    ReasonCode.SESSION_TAKEN_OVER: ("", "DISCONNECT"),
    ReasonCode.TOPIC_FILTER_INVALID: ("", "SUBACK UNSUBACK DISCONNECT"),
    ReasonCode.TOPIC_NAME_INVALID: (
        f"{_PUBLISHED} DISCONNECT",
        f"CONNACK {_PUBLISHED} DISCONNECT",
    ),
    ReasonCode.PACKET_IDENTIFIER_IN_USE: (_PUBLISHED, f"{_PUBLISHED} SUBACK UNSUBACK"),
    ReasonCode.PACKET_IDENTIFIER_NOT_FOUND: ("PUBREL PUBCOMP", "PUBREL PUBCOMP"),
    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED: ("DISCONNECT", "DISCONNECT"),
    ReasonCode.TOPIC_ALIAS_INVALID: ("DISCONNECT", "DISCONNECT"),
    ReasonCode.PACKET_TOO_LARGE: ("DISCONNECT", "CONNACK DISCONNECT"),
    ReasonCode.MESSAGE_RATE_TOO_HIGH: ("DISCONNECT", "DISCONNECT"),
    ReasonCode.QUOTA_EXCEEDED: (
        f"{_PUBLISHED} DISCONNECT",
        f"CONNACK {_PUBLISHED} SUBACK DISCONNECT",
    ),
    ReasonCode.ADMINISTRATIVE_ACTION: ("DISCONNECT", "DISCONNECT"),
    ReasonCode.PAYLOAD_FORMAT_INVALID: (
        f"{_PUBLISHED} DISCONNECT",
        f"CONNACK {_PUBLISHED} DISCONNECT",
    ),
    ReasonCode.RETAIN_NOT_SUPPORTED: ("", "CONNACK DISCONNECT"),
    ReasonCode.QOS_NOT_SUPPORTED: ("", "CONNACK DISCONNECT"),
    ReasonCode.USE_ANOTHER_SERVER: ("", "CONNACK DISCONNECT"),
    ReasonCode.SERVER_MOVED: ("", "CONNACK DISCONNECT"),
    ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: ("", "SUBACK DISCONNECT"),
    ReasonCode.CONNECTION_RATE_EXCEEDED: ("", "CONNACK DISCONNECT"),
    ReasonCode.MAXIMUM_CONNECT_TIME: ("", "DISCONNECT"),
    ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: ("", "SUBACK DISCONNECT"),
    ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: ("", "SUBACK DISCONNECT"),
}


def _carriedBy(place: int) -> Mapping[str, Mapping[int, ReasonCode]]:
    codes: dict[str, dict[int, ReasonCode]] = {}
    for reason, carriers in _CARRIERS.items():
        for packet in carriers[place].split():
            codes.setdefault(packet, {})[int(reason)] = reason
    return MappingProxyType(codes)


#: The codes by number and by the name of their packet, of clients and of servers.
CLIENT_REASONS = _carriedBy(0)
SERVER_REASONS = _carriedBy(1)

#: The return codes of CONNACK in MQTT 3. Any other error is C{SERVER_UNAVAILABLE}.
RETURN_CODES: Mapping[ReasonCode, int] = {
    ReasonCode.SUCCESS: 0,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: 1,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: 2,
    ReasonCode.SERVER_UNAVAILABLE: 3,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
}
