"""Messages of NATS as PUBLISH packets for one client of MQTT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from natsbroker.mqtt.headers import propertiesOf
from natsbroker.mqtt.topics import TopicFilter, topicOf
from natsbroker.wire.mqtt.codec import LARGEST, framed
from natsbroker.wire.mqtt.fields import LONGEST, binary
from natsbroker.wire.mqtt.packets import FilterRequest
from natsbroker.wire.mqtt.properties import (
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    Properties,
    writeProperties,
)
from natsbroker.wire.values import Message

#: The most topics of a connection that get an alias, in each direction.
MAX_ALIASES = 32

_PUBLISH = 0x30


@dataclass(slots=True)
class MQTTSubscription:
    """
    @ivar request: with the options of the last SUBSCRIBE for this filter.
    @ivar identifier: the subscription identifier; 0 for none.
    """

    filter: TopicFilter
    request: FilterRequest
    identifier: int = 0


class SharedFrame:
    """
    The packet of the last message, for the subscribers that all get the same bytes.

    @ivar made: how many packets were made.
    """

    def __init__(self, isNew: bool) -> None:
        """C{isNew} is for clients that speak MQTT 5."""
        self.made = 0
        self._isNew = isNew
        self._message: Message | None = None
        self._parts: tuple[bytes, Properties, bytes] = b"", {}, b""

    def parts(self, message: Message) -> tuple[bytes, Properties, bytes]:
        """The topic, the properties and the whole packet; the topic is empty if there is none."""
        if message is not self._message:
            self._parts = self._make(message, self._isNew)
            self._message = message
            self.made += 1
        return self._parts

    def _make(self, message: Message, isNew: bool) -> tuple[bytes, Properties, bytes]:
        topic = topicOf(message.shownSubject)
        if not topic or len(topic) > LONGEST:
            return b"", {}, b""
        properties = propertiesOf(message) if isNew else {}
        return topic, properties, publishFrame(topic, properties, message.payload, isNew)


def publishFrame(topic: bytes, properties: Properties, payload: bytes, isNew: bool) -> bytes:
    """A message with QoS 0."""
    written = writeProperties(properties) if isNew else b""
    return framed(_PUBLISH, b"".join((binary(topic), written, payload)))


class Deliveries:
    """
    The packets for one client.

    @ivar maximum: the most bytes of a packet that the client takes. It does not get a message that
        is larger.
    """

    def __init__(self, session: Any, shared: SharedFrame, maximum: int, aliases: int) -> None:
        """
        @param aliases: how many topic aliases the client takes.
        """
        self.maximum = maximum or LARGEST
        self._session = session
        self._shared = shared
        self._mostAliases = min(aliases, MAX_ALIASES)
        self._aliases: dict[bytes, int] = {}

    def encode(self, message: Message, subscription: MQTTSubscription) -> bytes:
        """The packet of a message for a subscription; empty if the client does not get it."""
        if subscription.request.noLocal and message.origin is self._session:
            return b""
        if subscription.filter.hidesReserved and message.shownSubject.startswith(b"$"):
            return b""
        topic, properties, frame = self._shared.parts(message)
        if not topic:
            return b""
        if subscription.identifier or self._mostAliases:
            frame = self._own(topic, properties, message, subscription.identifier)
        return frame if len(frame) <= self.maximum else b""

    def _own(self, topic: bytes, shared: Properties, message: Message, identifier: int) -> bytes:
        properties = dict(shared)
        if identifier:
            properties[SUBSCRIPTION_IDENTIFIER] = (identifier,)
        alias = self._aliases.get(topic, 0)
        isFirst = not alias and len(self._aliases) < self._mostAliases
        if isFirst:
            alias = len(self._aliases) + 1
        if alias:
            properties[TOPIC_ALIAS] = alias
        shown = topic if isFirst or not alias else b""
        frame = publishFrame(shown, properties, message.payload, True)
        if isFirst and len(frame) <= self.maximum:
            # Only a packet that is sent makes the alias known.
            self._aliases[topic] = alias
        return frame
