"""
The dialect of routes before NATS 2.0, between members of a cluster::

    INFO {json}  CONNECT {json}  PING  PONG  +OK  -ERR '<text>'
    SUB <subject> RSID:<ssid>:<sid>                   interest of a client of the sender
    SUB <subject> <queue> QRSID:<ssid>:<sid>          the same of a member of a queue group
    UNSUB <sid> [max]                                 a sid as the sender's SUB had it
    MSG <subject> <sid> [reply] <size>                then the payload and CRLF
    PUB <subject> [reply] <size>                      likewise; understood, and never said

The sid of a MSG comes from its receiver. With a sid that begins with C{QRSID}, the message is for
that member of a queue group only. With any other, it is for all subscribers without a group. Sids
of others are opaque. There are neither accounts nor headers. (The cluster protocol document; where
gnatsd 0.9.4 to 1.4.1 do otherwise, what they do.)
"""

from __future__ import annotations

from natsbroker.wire import ops
from natsbroker.wire.dialects import client
from natsbroker.wire.dialects.client import parseSize, splitBlanks
from natsbroker.wire.lines import BAD, Frame, LineReader, LineRules, checkedHead
from natsbroker.wire.values import Message

_DIRECTED = b"QRSID"

_SIDS = (b"RSID:", b"QRSID:")

#: The most digits that a number of ours has in a sid.
_DIGITS = 18

_OPERATIONS = {
    b"MSG": (ops.MSG, True),
    b"SUB": (ops.SUB, True),
    b"UNSUB": (ops.UNSUB, True),
    b"PUB": (ops.PUB, True),
    **client.COMMON_OPERATIONS,
}


def _readMessage(op: int, rest: bytes, rules: LineRules) -> Frame:
    arguments = splitBlanks(rest)
    sids = 1 if op == ops.MSG else 0
    if not 2 + sids <= len(arguments) <= 3 + sids or b"\r" in rest:
        return BAD
    reply = arguments[1 + sids] if len(arguments) == 3 + sids else b""
    head = checkedHead(op, arguments[0], reply, (b"", arguments[-1]), rules)
    return head if head[0] == ops.FAULT else (*head, arguments[1] if sids else b"")


#: Reads what comes over a route. The frames of messages are those of clients with one more member:
#: the sid, which is empty for a PUB.
FROM_MEMBER = LineReader(
    _OPERATIONS, client.BARE_OPERATIONS, {ops.MSG: _readMessage, ops.PUB: _readMessage}
)


def splitUnsubscription(line: bytes) -> tuple[bytes, int] | None:
    """
    The route's sid, behind an unused one, and the maximum, which is 0 for at once; C{None} if
    wrong.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    if len(arguments) > 1 and arguments[1].startswith(_SIDS):
        del arguments[0]
    if not 1 <= len(arguments) <= 2:
        return None
    maximum = parseSize(arguments[1]) if len(arguments) == 2 else 0
    return arguments[0], max(maximum, 0)


def isDirected(sid: bytes) -> bool:
    return sid.startswith(_DIRECTED)


def sidFor(number: int, member: int, queue: bytes) -> bytes:
    """
    A sid. C{number} is that of the interest, C{member} that of the group's member; without C{queue}
    it is plain.
    """
    return b"%bRSID:%d:%d" % (b"Q" if queue else b"", number, member)


def numberOf(sid: bytes) -> int:
    """
    The number of the interest in a sid that L{sidFor} made with a queue; -1 for any other sid.
    """
    parts = sid.split(b":")
    if len(parts) != 3 or parts[0] != _DIRECTED:
        return -1
    if not all(part.isdigit() and len(part) <= _DIGITS for part in parts[1:]):
        return -1
    return int(parts[1])


def subscriptionLine(pattern: bytes, queue: bytes, sid: bytes) -> bytes:
    """A SUB line. It has two blanks if there is no queue group, like gnatsd's."""
    return b"SUB %b %b %b\r\n" % (pattern, queue, sid)


def unsubscriptionLine(sid: bytes) -> bytes:
    return b"UNSUB %b\r\n" % sid


def messageFrame(message: Message, sid: bytes) -> bytes:
    """A MSG frame, without headers."""
    names = b"%b %b" % (message.subject, sid)
    if message.reply:
        names = b"%b %b" % (names, message.reply)
    if not message.headerLength:
        return b"MSG %b %b\r\n%b\r\n" % (names, message.sizeText, message.body)
    payload = message.payload
    return b"MSG %b %d\r\n%b\r\n" % (names, len(payload), payload)
