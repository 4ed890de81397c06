"""The values that pass between the layers: a message, and its origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from natsbroker.subjects.grammar import notBytes


class Kind(IntEnum):
    """
    The kind of origin or target of a message. The forwarding rules between kinds are the reach
    table in L{natsbroker.wire.reach}.

    @cvar INTERNAL: a service in this process (STAN, JetStream, statistics, a third party's).
    @cvar LOCAL: a service in this process that answers for this broker alone; other brokers do not
        learn of it.
    @cvar ROUTE: another member of this cluster.
    @cvar GATEWAY: a member of another cluster.
    @cvar HUB: a leafnode connection on which the peer is the hub and we are the spoke.
    @cvar SPOKE: a leafnode connection on which the peer is the spoke and we are its hub.
    """

    CLIENT = 0
    INTERNAL = 1
    LOCAL = 2
    ROUTE = 3
    GATEWAY = 4
    HUB = 5
    SPOKE = 6


class _EveryGroup(tuple[bytes, ...]):
    __slots__ = ()

    def __contains__(self, queue: object) -> bool:
        return True


#: All queue groups that there are.
EVERY_GROUP = _EveryGroup()


class Message:
    """
    One published message. Receivers must not change it: all of them see the same object.

    @ivar body: the header block, if there is one, directly followed by the payload.
    @ivar headerLength: how many bytes of C{body} are the header block; 0 without headers.
    @ivar origin: the subscriber object of the publisher, for C{echo: false} and for links, which
        never return a message to its origin; C{None} for none. Such a message is never a request
        (see L{natsbroker.interfaces.IMessageBus.serve}). A service inside the broker that sets
        itself as the origin does not receive its own messages.
    @ivar sizeText: the total size as the publisher wrote it. nats-server repeats it to the
        receivers, leading zeros included (PROTOCOL part 2, row 20).
    @ivar headerText: the size of the header block as the publisher wrote it; empty without headers.
    @ivar queues: the queue groups that the sender of a message over a link chose: one local member
        of each gets it; C{None} for none. L{EVERY_GROUP} if the sender could not choose, since the
        subject was mapped here. C{None} on other messages, for which this broker chooses in every
        group.
    @ivar via: the reply prefix: other brokers receive it in front of the reply subject, so that
        replies return to the cluster of the message; mostly empty.
    @ivar streamSubject: the subject in the stream, on a message that a JetStream consumer of
        another server sends. Clients see the message under this subject; C{subject} is the
        consumer's deliver subject, or the inbox of a pull request. Mostly empty.
    @ivar trace: takes the events of a message that is traced
        (L{natsbroker.accounts.tracing.MessageTrace}); C{None} on others.
    """

    __slots__ = (
        "body",
        "headerLength",
        "headerText",
        "origin",
        "queues",
        "reply",
        "sizeText",
        "streamSubject",
        "subject",
        "trace",
        "via",
    )

    def __init__(
        self,
        subject: bytes,
        body: bytes = b"",
        reply: bytes = b"",
        headerLength: int = 0,
        origin: object = None,
        sizeText: bytes = b"",
        headerText: bytes = b"",
        queues: tuple[bytes, ...] | None = None,
        via: bytes = b"",
        streamSubject: bytes = b"",
    ) -> None:
        self.subject = subject
        self.body = body
        self.reply = reply
        self.headerLength = headerLength
        self.origin = origin
        self.sizeText = sizeText or b"%d" % len(body)
        self.headerText = headerText or (b"%d" % headerLength if headerLength else b"")
        self.queues = queues
        self.via = via
        self.streamSubject = streamSubject
        self.trace: Any = None

    def check(self, given: str = "publish takes no Message") -> None:
        """
        Raise C{TypeError} if a field is not bytes. This is checked only after something has failed.
        """
        for name in ("subject", "reply", "body"):
            value = getattr(self, name)
            if not isinstance(value, bytes):
                raise TypeError(f"{given} whose {name} is {notBytes(value)}") from None

    @property
    def shownSubject(self) -> bytes:
        return self.streamSubject or self.subject

    @property
    def headers(self) -> bytes:
        """The block from C{NATS/1.0} to its empty line (L{natsbroker.wire.headers})."""
        return self.body[: self.headerLength]

    @property
    def payload(self) -> bytes:
        return self.body[self.headerLength :] if self.headerLength else self.body

    def readdressed(self, subject: bytes, reply: bytes) -> Message:
        """A copy under other subjects, for queue groups of other accounts."""
        copy = Message(
            subject,
            self.body,
            reply,
            self.headerLength,
            self.origin,
            self.sizeText,
            self.headerText,
            streamSubject=self.streamSubject,
        )
        copy.trace = self.trace
        return copy

    def withReplyPrefix(self, via: bytes) -> Message:
        copy = Message(
            self.subject,
            self.body,
            self.reply,
            self.headerLength,
            self.origin,
            self.sizeText,
            self.headerText,
            self.queues,
            via,
            self.streamSubject,
        )
        copy.trace = self.trace
        return copy

    def __repr__(self) -> str:
        return f"<Message {self.subject!r} reply={self.reply!r} {len(self.body)} bytes>"


class GroupMessage(Message):
    """A message for one member of each of C{queues} only, in the classic dialect."""

    __slots__ = ()


@dataclass(eq=False, slots=True, repr=False)
class Run:
    """Messages with the same subject, reply, origin and size of the header block."""

    subject: bytes
    reply: bytes
    bodies: list[bytes]
    headerLength: int = 0
    origin: object = None

    @property
    def payloads(self) -> list[bytes]:
        skip = self.headerLength
        return [body[skip:] for body in self.bodies] if skip else self.bodies

    def __iter__(self) -> Iterator[Message]:
        for body in self.bodies:
            yield Message(self.subject, body, self.reply, self.headerLength, self.origin)

    def __len__(self) -> int:
        return len(self.bodies)

    def __repr__(self) -> str:
        return f"<Run of {len(self.bodies)}: {self.subject!r} reply={self.reply!r}>"


@dataclass(eq=False, slots=True)
class AckRun:
    """
    Consecutive acknowledgements by clients to one JetStream consumer. Each of them settles a
    delivery, and nothing else. The lists have the same length.

    @ivar sequences: the stream sequences.
    @ivar numbers: the consumer sequences.
    @ivar deliveries: the number of deliveries of each message.
    @ivar replies: the reply subject of each; empty for no answer.
    """

    sequences: list[int]
    numbers: list[int]
    deliveries: list[int]
    replies: list[bytes]


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """
    The description of a client for services of other accounts and for observers. The names are
    those of nats-server's JSON; empty members are left out.

    @ivar start: when the connection began, in seconds since the epoch.
    @ivar svc: the last account that a request passed, if it passed several.
    @ivar ver: the version of its library.
    @ivar rtt: the round trip in nanoseconds.
    @ivar server: the name of the server that it is connected to.
    @ivar cluster: the name of that server's cluster.
    @ivar alts: the other clusters that are joined to it, nearest first.
    @ivar client_type: C{nats}, C{websocket} or C{mqtt}.
    """

    start: float = 0.0
    host: str = ""
    id: int = 0
    acc: str = ""
    svc: str = ""
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: int = 0
    server: str = ""
    cluster: str = ""
    alts: tuple[str, ...] = ()
    kind: str = ""
    client_type: str = ""
