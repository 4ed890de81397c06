"""The common part of link dialects: queue groups, sizes and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from natsbroker.wire.dialects.client import parseSize
from natsbroker.wire.mapped import splitReply
from natsbroker.wire.values import Message


class LinkMessage(NamedTuple):
    """
    The frame of a message that came over a link, without its operation.

    @ivar account: empty if the link has only one account.
    @ivar queues: C{None} where the line names none.
    @ivar origin: the cluster of the publisher's leafnode; empty for none.
    """

    subject: bytes
    reply: bytes
    headerLength: int
    body: bytes
    sizeText: bytes
    headerText: bytes
    account: bytes = b""
    queues: tuple[bytes, ...] | None = None
    origin: bytes = b""

    def message(self, origin: Any) -> Message:
        subject, reply, headerLength, body, sizeText, headerText, _, queues, _ = self
        via, reply, shown = splitReply(reply)
        return Message(
            subject, body, reply, headerLength, origin, sizeText, headerText, queues, via, shown
        )


#: The largest weight of a queue group: what fits everywhere.
_HEAVIEST = (1 << 31) - 1


def parseWeight(text: bytes) -> int:
    """At least 1; negative if the text is no weight."""
    weight = parseSize(text)
    return weight if weight < 0 else min(max(weight, 1), _HEAVIEST)


def splitTargets(middle: Sequence[bytes]) -> tuple[bytes, tuple[bytes, ...] | None] | None:
    """
    The reply subject and the queue groups, which are C{None} if none are named. C{None} for
    malformed arguments.
    """
    if not middle:
        return b"", None
    if len(middle) == 1:
        return middle[0], None
    queues = tuple(middle[1:])
    if middle[0] == b"+":
        return queues[0], queues[1:]
    return (b"", queues) if middle[0] == b"|" else None


def frameOf(
    operation: bytes,
    names: bytes,
    message: Message,
    queues: Sequence[bytes],
    headers: bool,
    isSized: bool = False,
) -> bytes:
    """
    @param operation: the operation for a message without headers; with headers it is HMSG.
    @param names: the arguments before the reply subject.
    @param headers: whether the peer understands headers; without, they are stripped.
    @param isSized: whether the operation always has the size of the headers, and so is used with
        headers too.
    """
    reply = message.via + message.reply
    if message.streamSubject:
        reply += b"@" + message.streamSubject
    if queues:
        chosen = b" ".join(queues)
        mark = b"+ %b" % reply if reply else b"|"
        names = b"%b %b %b" % (names, mark, chosen)
    elif reply:
        names = b"%b %b" % (names, reply)
    body, sizes = message.body, message.sizeText
    if message.headerLength and headers:
        operation = operation if isSized else b"HMSG"
        sizes = b"%b %b" % (message.headerText, message.sizeText)
    else:
        if message.headerLength:
            body = message.payload
            sizes = b"%d" % len(body)
        if isSized:
            sizes = b"0 " + sizes
    return b"%b %b %b\r\n%b\r\n" % (operation, names, sizes, body)
