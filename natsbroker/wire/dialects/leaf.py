"""
The dialect of leafnodes, between a hub and a spoke. They share one account over a connection, and
lines do not name it::

    INFO {json}  CONNECT {json}  PING  PONG  +OK  -ERR '<text>'
    LS+ <subject> [<queue> <weight>]                 LS- <subject> [queue]
    LMSG <subject> [reply] <size>                    then the payload and CRLF
    LMSG <subject> + <reply> [queue ...] <size>
    LMSG <subject> | [queue ...] <size>
    HMSG                                             as LMSG, with <header size> <size>

A message names the queue groups that its sender chose. One member of each gets it, and no other
queue groups do. Lines that routes have too are read by L{natsbroker.wire.dialects.route}. (PROTOCOL
1.5.)
"""

from __future__ import annotations

from collections.abc import Sequence

from natsbroker.wire import ops
from natsbroker.wire.dialects import client
from natsbroker.wire.dialects.client import splitBlanks
from natsbroker.wire.dialects.linklines import frameOf, splitTargets
from natsbroker.wire.lines import BAD, Frame, LineReader, LineRules, checkedHead
from natsbroker.wire.values import Message

_OPERATIONS = {
    b"LMSG": (ops.LMSG, True),
    b"HMSG": (ops.HMSG, True),
    b"LS+": (ops.LS_PLUS, True),
    b"LS-": (ops.LS_MINUS, True),
    **client.COMMON_OPERATIONS,
}


def _readMessage(op: int, rest: bytes, rules: LineRules) -> Frame:
    """The head of a message. Its queue groups are C{None} if the line names none."""
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
FROM_LEAF = LineReader(_OPERATIONS, client.BARE_OPERATIONS, _HEADS)

#: The same where a spoke may say INFO before its CONNECT, to agree on compression.
FROM_NEW_LEAF = LineReader(_OPERATIONS, client.BARE_OPERATIONS, _HEADS, (b"C", b"c", b"I", b"i"))


def interestLine(pattern: bytes, queue: bytes, weight: int) -> bytes:
    return b"LS+ %b %b %d\r\n" % (pattern, queue, weight) if queue else b"LS+ %b\r\n" % pattern


def lostLine(pattern: bytes, queue: bytes) -> bytes:
    return b"LS- %b %b\r\n" % (pattern, queue) if queue else b"LS- %b\r\n" % pattern


def messageFrame(message: Message, queues: Sequence[bytes], headers: bool) -> bytes:
    """A message frame. Headers are removed for a peer that does not understand them."""
    return frameOf(b"LMSG", message.subject, message, queues, headers)
