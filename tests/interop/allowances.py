"""
Differences from nats-server that are meant, each with its reason.

This module must never know how the answers were obtained.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

#: Bytes that natsbroker refuses in subjects; blanks and line ends never get into one.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True)
class Answer:
    """
    What a server said to a script, as far as it is determined.

    @ivar errors: the texts of -ERR, in order.
    @ivar deliveries: MSG and HMSG without their sid (a queue group chooses one), sorted.
    @ivar pongs: how often it said PONG; the script's last line is a PING, so an answered one means
        that the connection was still open.
    @ivar oks: how often it said +OK.
    @ivar infos: how often it said INFO after the first.
    @ivar rest: anything that is no frame.
    """

    errors: tuple[bytes, ...]
    deliveries: tuple[bytes, ...]
    pongs: int
    oks: int
    infos: int
    rest: bytes


@dataclass(frozen=True)
class Allowance:
    """
    One accepted difference.

    @ivar reason: why it is accepted.
    @ivar explains: whether it explains a difference: script, nats-server's answer, ours.
    """

    reason: str
    explains: Callable[[bytes, Answer, Answer], bool]


def _controlBytes(script: bytes, theirs: Answer, ours: Answer) -> bool:
    if not CONTROL.search(script):
        return False
    more = Counter(ours.errors) - Counter(theirs.errors)
    fewer = Counter(theirs.deliveries) - Counter(ours.deliveries)
    refused = set(more) <= {b"'Invalid Subject'", b"'Invalid Publish Subject'"}
    return refused and bool(more or fewer) and theirs.pongs == ours.pongs


_WIDER = re.compile(rb"'Permissions Violation for Subscription to \"[^\"]*>\".*'")


def _widerPattern(script: bytes, theirs: Answer, ours: Answer) -> bool:
    more = Counter(ours.errors) - Counter(theirs.errors)
    fewer = Counter(theirs.errors) - Counter(ours.errors)
    return bool(more) and not fewer and all(_WIDER.fullmatch(error) for error in more)


_LONE_CR = re.compile(rb"\r[^\n]")


def _loneCarriageReturn(script: bytes, theirs: Answer, ours: Answer) -> bool:
    return bool(_LONE_CR.search(script))


_LF_FIRST = re.compile(rb"(CONNECT|H?PUB|SUB|UNSUB|INFO)[ \t]*\n", re.IGNORECASE)


def _lineFeedFirst(script: bytes, theirs: Answer, ours: Answer) -> bool:
    return bool(_LF_FIRST.search(script))


def _saidTwice(script: bytes, theirs: Answer, ours: Answer) -> bool:
    more = Counter(theirs.errors) - Counter(ours.errors)
    fewer = Counter(ours.errors) - Counter(theirs.errors)
    return more == {b"'Invalid Publish Subject'": 1} and not fewer and theirs.pongs == ours.pongs


ALLOWANCES = [
    Allowance(
        "a carriage return without a line feed is a blank; to nats-server it also means to drop the "
        "byte before the line feed, whatever that is",
        _loneCarriageReturn,
    ),
    Allowance(
        "a line feed ends the line even where it is the first byte of the arguments; nats-server "
        "takes it for a blank there, and the next line for the arguments",
        _lineFeedFirst,
    ),
    Allowance(
        "nats-server reads the arguments of a publish again, and complains again, when the payload "
        "does not come with them",
        _saidTwice,
    ),
    Allowance(
        "a subscription to foo.> is wider than an allowed foo.*, and refused as such",
        _widerPattern,
    ),
    Allowance(
        "control bytes in a subject are an invalid subject: such subjects have served to attack "
        "what stands behind a broker",
        _controlBytes,
    ),
]


def allowed(script: bytes, theirs: Answer, ours: Answer) -> Allowance | None:
    """
    @return: the allowance that explains a difference, if there is one.
    """
    for allowance in ALLOWANCES:
        if allowance.explains(script, theirs, ours):
            return allowance
    return None
