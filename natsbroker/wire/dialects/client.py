"""
The client dialect: the operations of a client, and the division of its lines into arguments::

    CONNECT {json}
    PUB <subject> [reply] <size>                    then the payload and CRLF
    HPUB <subject> [reply] <header size> <size>     then headers, payload and CRLF
    SUB <subject> [queue] <sid>
    UNSUB <sid> [max]
    PING  PONG  +OK                                 the rest of the line is ignored
    INFO {json}                                     accepted and ignored
    -ERR <text>                                     the client gives up: closed in silence

Operations in any case; arguments are cut at runs of blanks and tabs; LF alone ends a line but a
payload must be followed by CRLF; a size is one to nine digits. (The client protocol document and
PROTOCOL part 2, rows 7 to 26, 37, 43 and 44.)
"""

from __future__ import annotations

from collections.abc import Mapping

from natsbroker.wire import ops

#: The most digits that nats-server takes for a size.
MAX_SIZE_DIGITS = 9

#: The operations of every dialect whose arguments run to the end of the line, with whether a space
#: must follow the name.
COMMON_OPERATIONS: Mapping[bytes, tuple[int, bool]] = {
    b"CONNECT": (ops.CONNECT, False),
    b"INFO": (ops.INFO, False),
    b"-ERR": (ops.ERR, True),
}

LINE_OPERATIONS: Mapping[bytes, tuple[int, bool]] = {
    b"PUB": (ops.PUB, True),
    b"HPUB": (ops.HPUB, True),
    b"SUB": (ops.SUB, True),
    b"UNSUB": (ops.UNSUB, True),
    **COMMON_OPERATIONS,
}

#: Operations that are complete with their name; what follows on the line is skipped.
BARE_OPERATIONS: Mapping[bytes, int] = {b"PING": ops.PING, b"PONG": ops.PONG, b"+OK": ops.OK}


def splitBlanks(line: bytes) -> list[bytes]:
    """Cut a line at runs of blanks and tabs, and at nothing else. No argument is empty."""
    arguments = line.split(b" ")
    if b"\t" in line:
        arguments = line.replace(b"\t", b" ").split(b" ")
    if b"" in arguments:
        arguments = [argument for argument in arguments if argument]
    return arguments


def parseSize(text: bytes) -> int:
    """Read a size of one to nine ASCII digits as nats-server does; -1 for anything else."""
    if len(text) > MAX_SIZE_DIGITS or not text.isdigit():
        return -1
    return int(text)


def splitSubscription(line: bytes) -> tuple[bytes, bytes, bytes] | None:
    """
    Subject, queue group (or empty) and sid; C{None} for a wrong number of arguments. CR counts as a
    space.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    if len(arguments) == 2:
        return arguments[0], b"", arguments[1]
    if len(arguments) == 3:
        return arguments[0], arguments[1], arguments[2]
    return None


def splitUnsubscription(line: bytes) -> tuple[bytes, int] | None:
    """
    The sid and its maximum, which is 0 for at once or if it is not a number; C{None} for a wrong
    number of arguments.
    """
    arguments = splitBlanks(line.replace(b"\r", b" "))
    if len(arguments) == 1:
        return arguments[0], 0
    if len(arguments) == 2:
        return arguments[0], max(parseSize(arguments[1]), 0)
    return None
