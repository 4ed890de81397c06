"""
The subscriptions of one client of MQTT. The filters of a packet are handled one after the other, in
steps, so that other connections need not wait for a packet with thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from natsbroker import errors
from natsbroker.interfaces import IClientSession
from natsbroker.mqtt.deliveries import MQTTSubscription
from natsbroker.mqtt.ending import refusal
from natsbroker.mqtt.topics import TopicError, TopicFilter, filterOf
from natsbroker.wire.mqtt.packets import (
    FilterRequest,
    Packet,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from natsbroker.wire.mqtt.properties import SUBSCRIPTION_IDENTIFIER
from natsbroker.wire.mqtt.reasons import PacketError, ReasonCode

#: The filters that are checked in one step. Subscribing to one takes a step of its own.
_CHECKED = 64

#: Stands behind the filter in the tag of the second subject. No filter has a space.
_ABOVE = b" above"

_RESERVED = b"$MQTT"

_Write = Callable[[Packet], None]


class Subscriptions:
    """The filters of a client, each with the last options that it asked for."""

    def __init__(self, session: IClientSession, isNew: bool) -> None:
        """C{isNew} is for clients that speak MQTT 5."""
        self._session = session
        self._isNew = isNew
        self._filters: dict[bytes, MQTTSubscription] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def find(self, tag: bytes) -> MQTTSubscription | None:
        """
        @param tag: as the session has it.
        """
        return self._filters.get(tag.removesuffix(_ABOVE))

    def subscribe(self, packet: Subscribe, write: _Write) -> Iterator[None]:
        """
        The steps of a packet. Nothing of it counts if one of its filters is malformed.

        @raise PacketError: for such a filter.
        """
        yield from _checked(request.filter for request in packet.requests)
        identifiers = packet.properties.get(SUBSCRIPTION_IDENTIFIER, (0,))
        codes: list[ReasonCode] = []
        for request in packet.requests:
            codes.append(self._add(request, identifiers[0]))
            yield
        write(Suback(packet.packetID, codes))

    def _add(self, request: FilterRequest, identifier: int) -> ReasonCode:
        if len(request.filter) > self._session.settings.max_control_line:
            return ReasonCode.TOPIC_FILTER_INVALID
        try:
            parsed = filterOf(request.filter, mayShare=self._isNew)
        except TopicError:
            return ReasonCode.TOPIC_FILTER_INVALID
        tag = request.filter.encode("utf-8")
        subscription = MQTTSubscription(parsed, request, identifier)
        if tag in self._filters:
            self._filters[tag] = subscription
            return ReasonCode.SUCCESS
        if parsed.subjects[0].startswith(_RESERVED):
            return ReasonCode.NOT_AUTHORIZED
        try:
            for subject, name in _tagged(parsed, tag):
                self._session.subscribe(subject, name, parsed.group)
        except errors.ProtocolViolation as violation:
            self._session.unsubscribe(tag)
            return refusal(violation)
        self._filters[tag] = subscription
        return ReasonCode.SUCCESS

    def unsubscribe(self, packet: Unsubscribe, write: _Write) -> Iterator[None]:
        """
        The steps of a packet.

        @raise PacketError: for a filter that is malformed.
        """
        yield from _checked(packet.filters)
        codes: list[ReasonCode] = []
        for text in packet.filters:
            codes.append(self._remove(text.encode("utf-8")))
            yield
        write(Unsuback(packet.packetID, codes))

    def _remove(self, tag: bytes) -> ReasonCode:
        subscription = self._filters.pop(tag, None)
        if subscription is None:
            return ReasonCode.NO_SUBSCRIPTION_EXISTED
        for _, name in _tagged(subscription.filter, tag):
            self._session.unsubscribe(name)
        return ReasonCode.SUCCESS

    def ended(self, tag: bytes) -> None:
        """A subscription that the user may not have any more has ended."""
        self._remove(tag.removesuffix(_ABOVE))


def _tagged(parsed: TopicFilter, tag: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The subjects of a filter with the tags of their subscriptions."""
    return zip(parsed.subjects, (tag, tag + _ABOVE), strict=False)


def _checked(filters: Iterable[str]) -> Iterator[None]:
    entries = iter(filters)
    while checked := list(islice(entries, _CHECKED)):
        if "" in checked:
            raise PacketError(ReasonCode.TOPIC_FILTER_INVALID, "an empty filter")
        yield
