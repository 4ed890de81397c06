"""The reasons for which connections of MQTT end: errors of the broker as reason codes, and back."""

from __future__ import annotations

from natsbroker import errors
from natsbroker.wire.mqtt.codec import encoded
from natsbroker.wire.mqtt.packets import MQTT_3_1_1, MQTT_5, Connack, Disconnect
from natsbroker.wire.mqtt.reasons import SERVER_REASONS, PacketError, ReasonCode

#: The reason codes of errors, by the reason that C{/connz} shows.
_CODES = {
    errors.AUTHORIZATION.reason: ReasonCode.NOT_AUTHORIZED,
    errors.AUTH_TIMEOUT.reason: ReasonCode.NOT_AUTHORIZED,
    errors.AUTH_EXPIRED.reason: ReasonCode.MAXIMUM_CONNECT_TIME,
    errors.AUTH_REVOKED.reason: ReasonCode.NOT_AUTHORIZED,
    errors.MAX_CONNECTIONS.reason: ReasonCode.QUOTA_EXCEEDED,
    errors.MAX_ACCOUNT_CONNECTIONS.reason: ReasonCode.QUOTA_EXCEEDED,
    errors.SUBSCRIPTIONS_EXCEEDED.reason: ReasonCode.QUOTA_EXCEEDED,
    errors.PAYLOAD.reason: ReasonCode.PACKET_TOO_LARGE,
    errors.KICKED.reason: ReasonCode.ADMINISTRATIVE_ACTION,
    errors.SERVER_SHUTDOWN.reason: ReasonCode.SERVER_SHUTTING_DOWN,
    errors.UNKNOWN_OPERATION.reason: ReasonCode.PROTOCOL_ERROR,
    errors.STALE.reason: ReasonCode.KEEP_ALIVE_TIMEOUT,
}

#: The end that the client asked for.
LEFT = errors.WireError("", "Client Closed")

#: Another client with the same identifier, as nats-server calls it.
TAKEN_OVER = errors.WireError("", "Duplicate Client ID")


def codeOf(error: errors.WireError) -> ReasonCode:
    return _CODES.get(error.reason, ReasonCode.UNSPECIFIED_ERROR)


def broken(error: PacketError) -> errors.WireError:
    """The error for a packet that breaks the protocol."""
    if error.reason is ReasonCode.PACKET_TOO_LARGE:
        return errors.WireError(str(error), errors.PAYLOAD.reason)
    return errors.WireError(str(error), errors.UNKNOWN_OPERATION.reason)


def isFinal(violation: errors.ProtocolViolation) -> PacketError | None:
    """The error that ends the connection for a publish; C{None} if it is only not published."""
    if violation.error == errors.PAYLOAD:
        return PacketError(ReasonCode.PACKET_TOO_LARGE, "a message that is too large")
    if violation.error == errors.INVALID_PUBLISH_SUBJECT:
        return PacketError(ReasonCode.TOPIC_NAME_INVALID, "a topic without a subject")
    return None


def refusal(violation: errors.ProtocolViolation) -> ReasonCode:
    """The code of SUBACK for a subscription that was refused."""
    if violation.error in (errors.MAX_SUBSCRIPTIONS, errors.MAX_SHAPES):
        return ReasonCode.QUOTA_EXCEEDED
    if violation.error == errors.INVALID_SUBJECT:
        return ReasonCode.TOPIC_FILTER_INVALID
    return ReasonCode.NOT_AUTHORIZED


def refused(reason: ReasonCode, level: int) -> bytes:
    """
    The answer to CONNECT. MQTT 3 has none for a malformed one. A client whose version is unknown
    gets what all versions have in common.

    @param level: of the protocol; 0 if it is unknown.
    """
    if level == MQTT_5:
        return encoded(Connack(_carried(reason, "CONNACK")))
    isUnknown = reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
    if level == 0 or reason in _MALFORMED:
        return encoded(Connack(reason), MQTT_3_1_1) if isUnknown else b""
    return encoded(Connack(reason), level)


_MALFORMED = frozenset([ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR])


def disconnected(reason: ReasonCode) -> bytes:
    """The last packet for a client of MQTT 5."""
    return encoded(Disconnect(_carried(reason, "DISCONNECT")))


def _carried(reason: ReasonCode, packet: str) -> ReasonCode:
    """The reason, or the nearest one that the packet may carry."""
    if reason in SERVER_REASONS[packet]:
        return reason
    if reason is ReasonCode.SERVER_SHUTTING_DOWN:
        return ReasonCode.SERVER_UNAVAILABLE
    return ReasonCode.UNSPECIFIED_ERROR
