"""
The contracts of what outlives a connection of MQTT: sessions, retained messages, and messages with
QoS 1 and 2. docs/topics/mqtt.md has the design.

A provider keeps the data of one account. The provider of the room keeps it in JetStream streams of
the account; C{tests/mqtt/contracts.py} has the suite that each provider passes, and
C{tests/mqtt/memorystores.py} a provider in memory, for the tests of the dialect.

All Deferreds of changes fire when the change is durable, and fail if it is not. An acknowledgement
waits for them: PUBACK for L{IPublishStore.publish}, PUBREC for L{IPublishStore.stage}, PUBCOMP for
L{IPublishStore.release}, CONNACK and SUBACK for L{ISessionStore.save}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import Interface

from natsbroker.wire.mqtt.packets import FilterRequest, Will

#: The expiry of a session that is kept for ever, in seconds.
NEVER = 0xFFFF_FFFF


class SessionTaken(Exception):
    """A session that another connection has, perhaps to another broker, or that was deleted."""


@dataclass(frozen=True, slots=True)
class SessionSubscription:
    """
    @ivar identifier: the subscription identifier; 0 for none.
    @ivar consumer: the name of the durable consumer for QoS 1 and 2; empty with QoS 0.
    """

    request: FilterRequest
    identifier: int = 0
    consumer: str = ""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """
    A session as it is stored. The JSON of nats-server is a part of ours: C{origin}, C{id},
    C{clean}, C{subs} (subject to QoS), C{cons} and C{pubrel}.

    @ivar owner: the broker whose connection has the session now.
    @ivar expiry: the seconds that the session outlives its connection; L{NEVER} for ever.
    @ivar left: when the last connection ended, in seconds since the epoch; 0 while there is one.
    @ivar subscriptions: by filter.
    @ivar will: to be published when its delay is over; C{None} without.
    @ivar user: the user whose rights the will has.
    """

    clientID: str
    owner: str
    expiry: int = 0
    left: float = 0.0
    subscriptions: Mapping[str, SessionSubscription] = field(default_factory=dict)
    will: Will | None = None
    user: str = ""


@dataclass(frozen=True, slots=True)
class StoredPublish:
    """
    @ivar body: the header block followed by the payload.
    @ivar source: the user who published it, for the permission of those who receive it.
    """

    subject: bytes
    body: bytes
    headerLength: int
    qos: int = 0
    source: str = ""


class ISessionStore(Interface):
    """The stream C{$MQTT_sess}: the last message of C{$MQTT.sess.HASH} is a session."""

    def load(clientID: str) -> Deferred[tuple[SessionRecord, int] | None]:
        """
        @return: the session with the sequence of its record; C{None} without.
        @raise SessionTaken: if another identifier has the same hash.
        """

    def save(record: SessionRecord, sequence: int) -> Deferred[int]:
        """
        @param sequence: of the record that is replaced; 0 for a new session.
        @return: the sequence of the new record.
        @raise SessionTaken: if the session has another sequence by now. So of two connections that
            take over a session at once one fails, on whatever brokers they are.
        """

    def delete(clientID: str, sequence: int) -> Deferred[None]:
        """
        Delete a session, with the consumers of its subscriptions and its staged messages.

        @raise SessionTaken: as L{save}.
        """

    def expired(now: float, limit: int) -> Deferred[Sequence[tuple[SessionRecord, int]]]:
        """
        Sessions whose time is over at C{now}, and those whose will is due. They are found again
        after a restart, by any broker.
        """

    def watch(taken: Callable[[str, int], None]) -> Callable[[], None]:
        """
        @param taken: called with the identifier and the sequence when another broker has saved a
            session. A connection that this broker has with it is closed.
        @return: called to end it.
        """


class IRetainedStore(Interface):
    """The stream C{$MQTT_rmsgs}: the last message of C{$MQTT.rmsgs.SUBJECT} is retained."""

    def put(message: StoredPublish) -> Deferred[None]:
        """Retain a message, in the place of the one that its subject has."""

    def clear(subject: bytes) -> Deferred[None]:
        """Retain no message for a subject."""

    def matching(
        subjects: tuple[bytes, ...], after: bytes, limit: int
    ) -> Deferred[Sequence[StoredPublish]]:
        """
        The next retained messages of a filter. A caller goes on until it gets none, so that no
        subscription holds the reactor or reads all at once. Messages whose time to live is over
        are left out.

        @param after: the last subject of the page before; empty for the first page.
        @param limit: the most messages; a page has at most a megabyte, but one message at least.
        @return: in the order of their subjects.
        """


class IPublishStore(Interface):
    """
    The streams C{$MQTT_msgs} and C{$MQTT_qos2in}: messages of clients with QoS 1 and 2. Whether the
    client may publish is decided before.
    """

    def publish(message: StoredPublish) -> Deferred[None]:
        """
        Store a message as C{$MQTT.msgs.SUBJECT}, if a durable subscription wants it, and give it to
        subscribers with QoS 0.
        """

    def stage(clientID: str, packetID: int, message: StoredPublish) -> Deferred[bool]:
        """
        Keep a message with QoS 2 until it is released.

        @return: whether it was kept; false if one with this packet identifier is, as for a
            duplicate.
        """

    def release(clientID: str, packetID: int) -> Deferred[bool]:
        """
        Publish a staged message, and forget it. If the broker fails in between, the next PUBREL
        publishes it; the message identifier of the stream drops the second copy.

        @return: whether there was one.
        """


class IDelivery(Interface):
    """The durable consumer of one subscription with QoS 1 or 2."""

    def ask(count: int) -> None:
        """
        Ask for messages. The dialect asks for as many as the client's receive maximum has room for,
        so that nothing is queued in memory beyond it.
        """

    def settle(token: Any) -> Deferred[None]:
        """
        Acknowledge a message: after PUBACK, or after PUBREC, once the packet identifier is stored
        as one that waits for PUBCOMP.
        """

    def close() -> None:
        """Stop the delivery. The consumer keeps its position."""


class IDeliveryStore(Interface):
    """The durable consumers of C{$MQTT_msgs}, and the stream C{$MQTT_out}."""

    def open(
        clientID: str,
        subscription: SessionSubscription,
        receive: Callable[[StoredPublish, Any], None],
    ) -> Deferred[Any]:
        """
        @param receive: called with each message, and the token for L{IDelivery.settle}. It does not
            raise.
        @return: fires with an L{IDelivery}; the consumer was made if there was none.
        """

    def remove(clientID: str, subscription: SessionSubscription) -> Deferred[None]:
        """Delete the consumer of a subscription that has ended."""

    def sent(clientID: str, packetID: int) -> Deferred[None]:
        """Remember a packet identifier whose PUBREL was sent and whose PUBCOMP has not come."""

    def completed(clientID: str, packetID: int) -> Deferred[None]:
        """Forget a packet identifier whose PUBCOMP has come."""

    def unfinished(clientID: str) -> Deferred[Sequence[int]]:
        """The packet identifiers whose PUBREL is to be sent again, in their order."""
