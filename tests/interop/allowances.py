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


ALLOWANCES = [
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
