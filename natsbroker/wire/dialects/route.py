"""
The dialect of routes since NATS 2.0, between members of a cluster::

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
to one account, nobody names the account. A message names the queue groups that its sender chose.
One member of each gets it, and no other queue groups do. (PROTOCOL 1.3 B.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from natsbroker.wire import ops
from natsbroker.wire.dialects import client
from natsbroker.wire.dialects.client import splitBlanks
from natsbroker.wire.dialects.linklines import frameOf, parseWeight, splitTargets
from natsbroker.wire.lines import BAD, CONNECTING, Frame, LineReader, LineRules, checkedHead
from natsbroker.wire.values import Message

#: The operations with arguments, as L{LineReader} takes them.
OPERATIONS = {
    b"RMSG": (ops.RMSG, True),
    b"HMSG": (ops.HMSG, True),
    b"RS+": (ops.RS_PLUS, True),
    b"RS-": (ops.RS_MINUS, True),
    b"LMSG": (ops.LMSG, True),
    b"LS+": (ops.LS_PLUS, True),
    b"LS-": (ops.LS_MINUS, True),
    **client.COMMON_OPERATIONS,
}


class LinkInterest(NamedTuple):
    """
    Interest. C{origin} is a leafnode's cluster or empty. C{weight} is the number of the group's
    members, or 0.
    """

    account: bytes
    origin: bytes
    pattern: bytes
    queue: bytes
    weight: int = 0


class RouteLines(LineReader):
    """
    Reads lines of a route. Messages also have an account, queue groups (or C{None}) and an origin.
    """

    __slots__ = ("_account",)

    def __init__(
        self,
        account: bytes = b"",
        operations: Mapping[bytes, tuple[int, bool]] = OPERATIONS,
        first: tuple[bytes, ...] = CONNECTING,
    ) -> None:
        """
        C{account} is the dedicated one; C{first} are the lines' beginnings that an unknown peer may
        send.
        """
        messages = {ops.RMSG, ops.HMSG, ops.LMSG} & {op for op, _ in operations.values()}
        super().__init__(
            operations, client.BARE_OPERATIONS, dict.fromkeys(messages, self._readMessage), first
        )
        self._account = account

    def _readMessage(self, op: int, rest: bytes, rules: LineRules) -> Frame:
        arguments = splitBlanks(rest)
        sizes = 1 if op == ops.RMSG else 2
        names = 1 if op == ops.LMSG else 0
        if self._account:
            arguments[names:names] = [self._account]
        names += 2
        targets = splitTargets(arguments[names:-sizes])
        if len(arguments) < names + sizes or b"\r" in rest or targets is None:
            return BAD
        reply, queues = targets
        headerText = arguments[-2] if sizes == 2 else b""
        head = checkedHead(op, arguments[names - 1], reply, (headerText, arguments[-1]), rules)
        if head[0] == ops.FAULT:
            return head
        origin = arguments[0] if op == ops.LMSG else b""
        return (*head, arguments[names - 2], queues, origin)


#: Reads what comes over a route that is not dedicated to an account.
FROM_ROUTE = RouteLines()


def routeLines(account: bytes = b"") -> RouteLines:
    return RouteLines(account) if account else FROM_ROUTE


def splitInterest(line: bytes, isLeaf: bool = False, account: bytes = b"") -> LinkInterest | None:
    """
    The arguments of RS+ or LS+; C{None} if they are wrong. The account may be a dedicated one.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    origin = arguments.pop(0) if isLeaf and arguments else b""
    if account:
        arguments.insert(0, account)
    if len(arguments) == 2:
        return LinkInterest(arguments[0], origin, arguments[1], b"")
    if len(arguments) != 4:
        return None
    weight = parseWeight(arguments[3])
    if weight < 0:
        return None
    return LinkInterest(arguments[0], origin, arguments[1], arguments[2], weight)


def splitLost(line: bytes, hasOrigin: bool = False, account: bytes = b"") -> LinkInterest | None:
    """
    The arguments of RS- or LS-; C{None} if they are wrong. There may be an origin, and the account
    may be a dedicated one.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    origin = arguments.pop(0) if hasOrigin and arguments else b""
    if account:
        arguments.insert(0, account)
    if not 2 <= len(arguments) <= 3:
        return None
    return LinkInterest(arguments[0], origin, arguments[1], b"".join(arguments[2:]))


def interestLine(
    account: bytes, pattern: bytes, queue: bytes, weight: int, origin: bytes = b""
) -> bytes:
    """An RS+ line; with a leafnode's cluster, an LS+ line. A dedicated account is left empty."""
    names = _named(account, pattern)
    start = b"LS+ %b %b" % (origin, names) if origin else b"RS+ " + names
    return b"%b %b %d\r\n" % (start, queue, weight) if queue else start + b"\r\n"


def lostLine(account: bytes, pattern: bytes, queue: bytes, origin: bytes = b"") -> bytes:
    """An RS- or LS- line, as L{interestLine}."""
    names = _named(account, pattern)
    start = b"LS- %b %b" % (origin, names) if origin else b"RS- " + names
    return b"%b %b\r\n" % (start, queue) if queue else start + b"\r\n"


def unnamedLostLine(account: bytes, pattern: bytes, queue: bytes) -> bytes:
    """An LS- line for peers whose LS- lines do not name the origin."""
    line = lostLine(account, pattern, queue)
    return b"L" + line[1:]


def messageFrame(
    account: bytes, message: Message, queues: Sequence[bytes], headers: bool, origin: bytes = b""
) -> bytes:
    names = _named(account, message.subject)
    if origin:
        return frameOf(b"LMSG", b"%b %b" % (origin, names), message, queues, headers, True)
    return frameOf(b"RMSG", names, message, queues, headers)


def _named(account: bytes, subject: bytes) -> bytes:
    return b"%b %b" % (account, subject) if account else subject
