"""
The dialect of leafnodes: what a hub and a spoke say to each other, in the one account that they
share over a connection, which nobody names::

    INFO {json}  CONNECT {json}  PING  PONG  +OK  -ERR '<text>'
    LS+ <subject> [<queue> <weight>]                 LS- <subject> [queue]
    LMSG <subject> [reply] <size>                    then the payload and CRLF
    LMSG <subject> + <reply> [queue ...] <size>
    LMSG <subject> | [queue ...] <size>
    HMSG                                             as LMSG, with <header size> <size>

The queue groups of a message are those that its sender chose: one member of each gets it, and
nobody else in any queue group. (PROTOCOL 1.5.)

Pure functions over bytes; what is made here can be read here.
"""

from __future__ import annotations

from collections.abc import Sequence

from natsbroker.wire import ops
from natsbroker.wire.dialects.client import splitBlanks
from natsbroker.wire.dialects.linklines import frameOf, parseWeight, splitTargets
from natsbroker.wire.dialects.route import LinkInterest
from natsbroker.wire.lines import BAD, Frame, LineReader, LineRules, checkedHead
from natsbroker.wire.values import Message

_OPERATIONS = {
    b"LMSG": (ops.LMSG, True),
    b"HMSG": (ops.HMSG, True),
    b"LS+": (ops.LS_PLUS, True),
    b"LS-": (ops.LS_MINUS, True),
    b"CONNECT": (ops.CONNECT, False),
    b"INFO": (ops.INFO, False),
    b"-ERR": (ops.ERR, True),
}

_BARE = {b"PING": ops.PING, b"PONG": ops.PONG, b"+OK": ops.OK}


def _readMessage(op: int, rest: bytes, rules: LineRules) -> Frame:
    """
    The head of a client's message with one more member, the queue groups (C{None} where the line
    names none).
    """
    arguments = splitBlanks(rest)
    sizes = 2 if op == ops.HMSG else 1
    targets = splitTargets(arguments[1:-sizes])
    if len(arguments) < 1 + sizes or b"\r" in rest or targets is None:
        return BAD
    reply, queues = targets
    headerText = arguments[-2] if sizes == 2 else b""
    head = checkedHead(op, arguments[0], reply, (headerText, arguments[-1]), rules)
    return head if head[0] == ops.FAULT else (*head, queues)


_HEADS = {ops.LMSG: _readMessage, ops.HMSG: _readMessage}

#: Reads what comes over a leafnode connection.
FROM_LEAF = LineReader(_OPERATIONS, _BARE, _HEADS)

#: The same where a spoke may say INFO before its CONNECT, to agree on compression.
FROM_NEW_LEAF = LineReader(_OPERATIONS, _BARE, _HEADS, (b"C", b"c", b"I", b"i"))


def splitInterest(line: bytes, account: bytes) -> LinkInterest | None:
    """
    Cut the arguments of LS+.

    @param account: the connection's.
    @return: C{None} if they are wrong.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    if len(arguments) == 1:
        return LinkInterest(account, b"", arguments[0], b"")
    weight = parseWeight(arguments[2]) if len(arguments) == 3 else -1
    if weight < 0:
        return None
    return LinkInterest(account, b"", arguments[0], arguments[1], weight)


def splitLost(line: bytes, account: bytes) -> LinkInterest | None:
    """
    Cut the arguments of LS-.

    @param account: the connection's.
    @return: C{None} if they are wrong.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    if not 1 <= len(arguments) <= 2:
        return None
    return LinkInterest(account, b"", arguments[0], b"".join(arguments[1:]))


def interestLine(pattern: bytes, queue: bytes, weight: int) -> bytes:
    return b"LS+ %b %b %d\r\n" % (pattern, queue, weight) if queue else b"LS+ %b\r\n" % pattern


def lostLine(pattern: bytes, queue: bytes) -> bytes:
    return b"LS- %b %b\r\n" % (pattern, queue) if queue else b"LS- %b\r\n" % pattern


def messageFrame(message: Message, queues: Sequence[bytes], headers: bool) -> bytes:
    """
    @param headers: whether the peer understands headers; without, they are stripped.
    """
    return frameOf(b"LMSG", message.subject, message, queues, headers)
