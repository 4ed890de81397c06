"""
The dialect of routes since NATS 2.0: what members of a cluster say to each other::

    INFO {json}  CONNECT {json}  PING  PONG  +OK  -ERR '<text>'
    RS+ <account> <subject> [<queue> <weight>]          RS- <account> <subject> [queue]
    LS+ <origin> <account> <subject> [<queue> <weight>]
    LS- [origin] <account> <subject> [queue]
    RMSG <account> <subject> [reply] <size>             then the payload and CRLF
    RMSG <account> <subject> + <reply> [queue ...] <size>
    RMSG <account> <subject> | [queue ...] <size>
    HMSG                                                as RMSG, with <header size> <size>
    LMSG <origin>                                       as HMSG, with <origin> before the account

An origin is the name of the cluster that a leafnode belongs to. On a connection that is dedicated
to one account, nobody names the account. The queue groups of a message are those that its sender
chose: one member of each gets it, and nobody else in any queue group. (PROTOCOL 1.3 B.)

Promises: pure functions over bytes; what is made here can be read here.
Must never know: who is connected, or what interest there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from natsbroker.wire import ops
from natsbroker.wire.dialects.client import parseSize, splitBlanks
from natsbroker.wire.lines import BAD, Frame, LineReader, LineRules, checkedHead
from natsbroker.wire.values import Message

__all__ = [
    "BARE",
    "FROM_ROUTE",
    "OPERATIONS",
    "Interest",
    "RouteLines",
    "interestLine",
    "lostLine",
    "messageFrame",
    "routeLines",
    "splitInterest",
    "splitLost",
]

#: The largest weight of a queue group: what fits everywhere.
_HEAVIEST = (1 << 31) - 1

#: The operations with arguments, as L{LineReader} takes them.
OPERATIONS = {
    b"RMSG": (ops.RMSG, True),
    b"HMSG": (ops.HMSG, True),
    b"RS+": (ops.RS_PLUS, True),
    b"RS-": (ops.RS_MINUS, True),
    b"LMSG": (ops.LMSG, True),
    b"LS+": (ops.LS_PLUS, True),
    b"LS-": (ops.LS_MINUS, True),
    b"CONNECT": (ops.CONNECT, False),
    b"INFO": (ops.INFO, False),
    b"-ERR": (ops.ERR, True),
}

#: Those without.
BARE = {b"PING": ops.PING, b"PONG": ops.PONG, b"+OK": ops.OK}


class Interest(NamedTuple):
    """
    What an operation says about interest.

    @ivar account: whose subscribers they are.
    @ivar origin: the cluster of the leafnode that they are behind; no bytes for none.
    @ivar pattern: what they are subscribed to.
    @ivar queue: their queue group; no bytes for plain interest.
    @ivar weight: how many members the group has; 0 for plain interest.
    """

    account: bytes
    origin: bytes
    pattern: bytes
    queue: bytes
    weight: int = 0


class RouteLines(LineReader):
    """
    Reads what comes over a route. The frames of messages are those of clients with three more
    members: the account, the queue groups (C{None} where the line names none), and the origin.
    """

    __slots__ = ("_account",)

    def __init__(
        self, account: bytes = b"", operations: Mapping[bytes, tuple[int, bool]] = OPERATIONS
    ) -> None:
        """
        @param account: the one that the connection is dedicated to, if it is.
        @param operations: those with arguments, as L{LineReader} takes them.
        """
        messages = {ops.RMSG, ops.HMSG, ops.LMSG} & {op for op, _ in operations.values()}
        super().__init__(operations, BARE, dict.fromkeys(messages, self._readMessage))
        self._account = account

    def _readMessage(self, op: int, rest: bytes, rules: LineRules) -> Frame:
        arguments = splitBlanks(rest)
        sizes = 1 if op == ops.RMSG else 2
        names = 1 if op == ops.LMSG else 0
        if self._account:
            arguments[names:names] = [self._account]
        names += 2
        middle = arguments[names:-sizes]
        if len(arguments) < names + sizes or b"\r" in rest:
            return BAD
        reply = b""
        queues: tuple[bytes, ...] | None = None
        if len(middle) == 1:
            reply = middle[0]
        elif middle:
            queues = tuple(middle[1:])
            if middle[0] == b"+":
                reply, queues = queues[0], queues[1:]
            elif middle[0] != b"|":
                return BAD
        headerText = arguments[-2] if sizes == 2 else b""
        head = checkedHead(op, arguments[names - 1], reply, (headerText, arguments[-1]), rules)
        if head[0] == ops.FAULT:
            return head
        origin = arguments[0] if op == ops.LMSG else b""
        return (*head, arguments[names - 2], queues, origin)


#: Reads what comes over a route that is not dedicated to an account.
FROM_ROUTE = RouteLines()


def routeLines(account: bytes = b"") -> RouteLines:
    """
    The reader for a route.

    @param account: the one that it is dedicated to; no bytes for none.
    """
    return RouteLines(account) if account else FROM_ROUTE


def splitInterest(line: bytes, isLeaf: bool, account: bytes = b"") -> Interest | None:
    """
    Cut the arguments of RS+, or of LS+.

    @param account: the one that the connection is dedicated to; no bytes for none.
    @return: C{None} if they are wrong.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    origin = arguments.pop(0) if isLeaf and arguments else b""
    if account:
        arguments.insert(0, account)
    if len(arguments) == 2:
        return Interest(arguments[0], origin, arguments[1], b"")
    if len(arguments) != 4:
        return None
    weight = parseSize(arguments[3])
    if weight < 0:
        return None
    return Interest(
        arguments[0], origin, arguments[1], arguments[2], min(max(weight, 1), _HEAVIEST)
    )


def splitLost(line: bytes, hasOrigin: bool, account: bytes = b"") -> Interest | None:
    """
    Cut the arguments of RS-, or of LS-.

    @param hasOrigin: whether it is an LS- of a peer that names the origin there.
    @param account: the one that the connection is dedicated to; no bytes for none.
    @return: C{None} if they are wrong.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    origin = arguments.pop(0) if hasOrigin and arguments else b""
    if account:
        arguments.insert(0, account)
    if not 2 <= len(arguments) <= 3:
        return None
    return Interest(arguments[0], origin, arguments[1], b"".join(arguments[2:]))


def interestLine(account: bytes, pattern: bytes, queue: bytes, weight: int) -> bytes:
    """
    An RS+ line.

    @param account: no bytes on a connection that is dedicated to it.
    """
    names = b"%b %b" % (account, pattern) if account else pattern
    return b"RS+ %b %b %d\r\n" % (names, queue, weight) if queue else b"RS+ %b\r\n" % names


def lostLine(account: bytes, pattern: bytes, queue: bytes) -> bytes:
    """
    An RS- line.

    @param account: no bytes on a connection that is dedicated to it.
    """
    names = b"%b %b" % (account, pattern) if account else pattern
    return b"RS- %b %b\r\n" % (names, queue) if queue else b"RS- %b\r\n" % names


def messageFrame(account: bytes, message: Message, queues: Sequence[bytes], headers: bool) -> bytes:
    """
    A message as the bytes that another member of the cluster gets.

    @param account: no bytes on a connection that is dedicated to it.
    @param queues: the queue groups of which one member each gets it over there.
    @param headers: whether the peer understands headers; without, they are stripped.
    """
    names = b"%b %b" % (account, message.subject) if account else message.subject
    reply = message.via + message.reply
    if queues:
        chosen = b" ".join(queues)
        mark = b"+ %b" % reply if reply else b"|"
        names = b"%b %b %b" % (names, mark, chosen)
    elif reply:
        names = b"%b %b" % (names, reply)
    if not message.headerLength:
        return b"RMSG %b %b\r\n%b\r\n" % (names, message.sizeText, message.body)
    if headers:
        return b"HMSG %b %b %b\r\n%b\r\n" % (
            names,
            message.headerText,
            message.sizeText,
            message.body,
        )
    payload = message.payload
    return b"RMSG %b %d\r\n%b\r\n" % (names, len(payload), payload)
