"""
The contracts of clients that speak another protocol than that of NATS: a kind of connection whose
peers log in has a dialect for each of them, and the broker a session.

L{natsbroker.interfaces.services.IBrokerHost.clientFactory} brings both together. The session is
that of any client: it logs in with the authorizer, has the rights of its user, counts towards all
limits, and is in C{/connz} and in the events of connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

from natsbroker.interfaces.bus import IOrigin

if TYPE_CHECKING:
    from natsbroker.wire.headers import Pairs
    from natsbroker.wire.values import Message


class IClientDialect(Interface):
    """
    The protocol of one client: bytes to operations, and messages to bytes. The broker calls it in
    the reactor's thread; what it raises ends the connection. It provides L{IClientEvents} too.
    L{natsbroker.clients.dialect.ClientDialect} is a base class.
    """

    def feed(data: bytes) -> None:
        """Take bytes of the client. Nothing is done for them yet."""

    def next() -> Any:
        """
        Take the next operation out of the input.

        @return: the operation for L{handle}; C{None} if more input is needed. The input of an
            incomplete operation is limited to C{max_payload} and C{max_control_line}.
        @raise ValueError: for wrong input, which ends the connection.
        """

    def handle(operation: Any) -> None:
        """Act for an operation. The next one waits while L{IClientSession.login} is not decided."""

    def encode(message: Message, tag: bytes) -> bytes:
        """
        @param message: for a subscription; its C{shownSubject} is the one to show, its C{payload}
            is without headers. It may be kept but not changed.
        @param tag: of the subscription.
        @return: what the client gets; nothing if it is empty.
        """

    def ping() -> bytes:
        """
        @return: bytes that an idle client answers. The dialect calls L{IClientSession.ponged} for
            the answer. Empty if the protocol has no such bytes, or if the client has to send them.
        """

    def farewell(error: Any) -> bytes:
        """
        @param error: why the connection is closed: a L{natsbroker.errors.WireError}.
        @return: the last bytes for the client; they are not sent to one that is cut because it
            reads too slowly.
        """


class IClientEvents(Interface):
    """The events of a client, for its dialect."""

    def opened() -> None:
        """
        The connection is open, encrypted if the settings say so, and within all limits. Input
        follows.
        """

    def admitted() -> None:
        """The login has succeeded. After a denial L{closed} is called instead."""

    def subscriptionEnded(tag: bytes, isForbidden: bool) -> None:
        """
        A subscription has ended by itself.

        @param isForbidden: whether the user may not have it any more; otherwise it had the messages
            that L{IClientSession.unsubscribe} allowed it.
        """

    def leaving() -> None:
        """The client should go to another server: this one stops soon, or was asked to tell it."""

    def closed(reason: str) -> None:
        """
        Called once, when the connection has ended. A client that was logged in stays logged in
        during this call, so that something can be published for it.

        @param reason: as in C{/connz?state=closed}.
        """


class IClientFactory(Interface):
    """
    Makes the protocols of the clients of one kind, over any stream of Twisted's: it is a
    L{twisted.internet.interfaces.IProtocolFactory} too.
    """

    def protocolOver(connectionType: str) -> Any:
        """
        Make a protocol for a client whose bytes another protocol carries, such as a WebSocket, and
        encrypts if need be.

        @param connectionType: as for L{natsbroker.interfaces.services.IBrokerHost.clientFactory},
            in the place of that of the kind.
        @return: a L{natsbroker.clients.protocol.ClientProtocol} without a transport.
        """

    def planReload(settings: Any, tls: Any) -> Callable[[], None]:
        """
        Check other settings without changing anything; for
        L{natsbroker.interfaces.links.IConnectionService.plan}, whose rules hold.

        @param settings: the new L{natsbroker.config.model.Settings} of the broker.
        @param tls: as for L{natsbroker.interfaces.services.IBrokerHost.clientFactory}. Connections
            keep what they began with. TLS cannot begin or end.
        @return: applies them, asks for the overlay again, and cannot fail.
        @raise ValueError: if they cannot be taken.
        """


class IClientSession(IOrigin):
    """One client as its dialect sees it. All that it does is done with the rights of its user."""

    cid = Attribute("The number of the connection.")

    nonce = Attribute(
        "What the client signs to log in with a key; empty if nobody asks for it. Known in "
        "L{IClientEvents.opened}."
    )

    settings = Attribute("Limits: the L{natsbroker.config.model.Settings} of such clients.")

    def login(options: Mapping[str, Any]) -> None:
        """
        Have the authorizer decide who the client is. No input is handled before it has;
        L{IClientEvents.admitted} follows. A client that is not let in is closed, and so is one that
        has not called this within the timeout of authorization, even if no login is required.

        @param options: with the names and types of CONNECT: C{user}, C{pass}, C{auth_token},
            C{jwt}, C{nkey} and C{sig} to log in; C{name}, C{lang} and C{version} to be shown;
            C{echo} is false if it does not want its own messages. None for a guest.
        """

    def publish(
        subject: bytes, payload: bytes, reply: bytes = b"", headers: Pairs | None = None
    ) -> None:
        """
        Publish for the client. C{headers} is a mapping, or pairs of names and values. If nobody
        subscribes to the subject of a request, the reply subject gets a message with the status
        503, as for other clients.

        @raise natsbroker.errors.ProtocolViolation: if the subject is not one to publish to, the
            payload is too large, or the user may not do it. The connection stays open.
        """

    def subscribe(pattern: bytes, tag: bytes, queue: bytes = b"") -> None:
        """
        @param tag: the client's name for it, the C{sid} of C{/connz}. A second subscription with a
            tag changes nothing.
        @raise natsbroker.errors.ProtocolViolation: if the user may not have it, or has too many, or
            the pattern is not valid. The connection stays open.
        """

    def unsubscribe(tag: bytes, maximum: int = 0) -> None:
        """
        @param maximum: end after this number of messages, earlier ones included; 0 for at once.
        """

    def hold() -> Callable[[], None]:
        """
        Handle no operation until the result is called, which has to be exactly once. Reading
        pauses. A connection that ends meanwhile is closed after the operations that have come. For
        answers that have to be durable before they are given.
        """

    def write(data: bytes) -> None:
        """Send bytes. They count towards the limits for those who read too slowly."""

    def ponged() -> None:
        """The client has answered L{IClientDialect.ping}."""

    def close(error: Any) -> None:
        """
        Close the connection, after what waits was sent. Nothing that the client sent is handled
        afterwards.

        @param error: a L{natsbroker.errors.WireError}: the text is for the log, the reason, which
            is not empty, for C{/connz}.
        """
