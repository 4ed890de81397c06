"""
Properties of an MQTT 5 message as headers of NATS, and back.

User properties are headers of the same name, if that can be the name of a header. The response
topic is the reply subject, so that a service of NATS answers a request of MQTT, and the other way
round. Each other property has a header that is declared here. Headers that are none of them are
shown as user properties.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from natsbroker.mqtt.topics import subjectOf, topicOf
from natsbroker.wire.durations import secondsFrom
from natsbroker.wire.headers import HeaderError, Headers
from natsbroker.wire.mqtt.fields import LONGEST
from natsbroker.wire.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MAX_PROPERTIES,
    MESSAGE_EXPIRY,
    NONE,
    PAYLOAD_FORMAT,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    Properties,
    Property,
)
from natsbroker.wire.values import Message

#: The header of nats-server that says with which QoS a client of MQTT published the message.
PUBLISHED = "Nmqtt-Pub"

#: The user property with the status of a message, such as C{503} if nobody answers a request.
STATUS = "Nats-Status"

_LARGEST = 0xFFFF_FFFF


def _text(value: str) -> str | None:
    return None if "\0" in value or _isUnwritable(value) else value


def _format(value: str) -> int | None:
    return 1 if value == "1" else None


def _expiry(value: str) -> int | None:
    try:
        seconds = int(value) if re.fullmatch("[0-9]{1,10}", value) else int(secondsFrom(value))
    except ValueError:
        return None
    return seconds if 0 < seconds <= _LARGEST else None


def _data(value: str) -> bytes | None:
    try:
        return base64.b64decode(value.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None


#: The header of each property, the text of a value, and the value of a text, if it is one.
_HEADERS: Mapping[Property, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    CONTENT_TYPE: ("Content-Type", str, _text),
    PAYLOAD_FORMAT: ("Nmqtt-Payload-Format", str, _format),
    MESSAGE_EXPIRY: ("Nats-TTL", str, _expiry),
    CORRELATION_DATA: (
        "Nmqtt-Correlation-Data",
        lambda data: base64.b64encode(data).decode("ascii"),
        _data,
    ),
}
_PROPERTIES = {name: (declared, read) for declared, (name, _, read) in _HEADERS.items()}

#: The names of headers that a user property cannot set.
_OURS = frozenset([PUBLISHED.lower(), *(name.lower() for name in _PROPERTIES)])


def headersOf(qos: int, properties: Properties) -> list[tuple[str, str]]:
    """
    The headers of a published message. User properties that cannot be headers, or have the
    header of another property, are left out.
    """
    pairs = [(PUBLISHED, str(qos))]
    if not properties:
        return pairs
    for declared, (name, write, _) in _HEADERS.items():
        value = properties.get(declared)
        if value and not (isinstance(value, str) and _hasLines(value)):
            pairs.append((name, write(value)))
    pairs += (pair for pair in properties.get(USER_PROPERTY, ()) if _isHeader(*pair))
    return pairs


def _isHeader(name: str, value: str) -> bool:
    isOurs = name.lower() in _OURS
    return not isOurs and bool(_NAME.fullmatch(name)) and not _hasLines(value)


def _hasLines(value: str) -> bool:
    return "\r" in value or "\n" in value


_NAME = re.compile(r"[^\x00-\x20\x7f:]+")


def replyOf(properties: Properties) -> bytes:
    """
    The reply subject; empty without a response topic.

    @raise natsbroker.mqtt.topics.TopicError: if the topic has no subject.
    """
    topic = properties.get(RESPONSE_TOPIC)
    return subjectOf(topic) if topic else b""


def propertiesOf(message: Message) -> Properties:
    """
    The properties of a message for a client. Headers that cannot be shown are left out, and those
    behind the thousandth.
    """
    if not message.headerLength and not message.reply:
        return NONE
    properties: dict[Property, Any] = {}
    topic = topicOf(message.reply).decode("utf-8") if message.reply else ""
    if topic:
        properties[RESPONSE_TOPIC] = topic
    users: list[tuple[str, str]] = []
    for name, value in _pairsOf(message):
        declared, read = _PROPERTIES.get(name, (None, None))
        shown = None if declared is None or read is None else read(value)
        if declared is not None and shown is not None:
            properties.setdefault(declared, shown)
        elif name != PUBLISHED and not (_isUnwritable(name) or _isUnwritable(value)):
            users.append((name, value))
    if users:
        properties[USER_PROPERTY] = tuple(users[: MAX_PROPERTIES - len(properties)])
    return properties


def _pairsOf(message: Message) -> list[tuple[str, str]]:
    headers = Headers.fromBlock(message.headers)
    try:
        pairs = headers.items()
        return [(STATUS, str(headers.status)), *pairs] if headers.status else pairs
    except HeaderError:
        return []


def _isUnwritable(text: str) -> bool:
    """Whether a text is too long, not Unicode, or has U+0000."""
    if text.isascii():
        return len(text) > LONGEST or "\0" in text
    try:
        return len(text.encode("utf-8")) > LONGEST or "\0" in text
    except UnicodeEncodeError:
        return True
