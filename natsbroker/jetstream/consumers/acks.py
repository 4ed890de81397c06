"""Acknowledgements: the subjects that deliveries carry as reply subjects, and their payloads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from natsbroker.wire.durations import nanosecondsFrom
from natsbroker.wire.text import decoded


class DeliveredAs(NamedTuple):
    """
    The delivery that an acknowledgement subject names.

    @ivar deliveries: of the message, this one included.
    @ivar sequence: the stream sequence.
    @ivar consumerSequence: the number of the delivery.
    """

    deliveries: int
    sequence: int
    consumerSequence: int


class AckKind(Enum):
    ACK = "+ACK"
    NAK = "-NAK"
    PROGRESS = "+WPI"
    NEXT = "+NXT"
    TERMINATE = "+TERM"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Ack:
    """
    The payload of an acknowledgement.

    @ivar delay: with C{NAK}: nanoseconds until the redelivery; C{None} for at once.
    @ivar isMalformed: with C{NAK}: the delay cannot be understood, and counts as none.
    """

    kind: AckKind
    delay: int | None = None
    isMalformed: bool = False
    reason: str = ""
    request: bytes = b""


_ACK = Ack(AckKind.ACK)
_UNKNOWN = Ack(AckKind.UNKNOWN)

#: The payloads that need no parsing.
_PLAIN = {
    b"": _ACK,
    b"+ACK": _ACK,
    b"+OK": _ACK,
    b"-NAK": Ack(AckKind.NAK),
    b"+WPI": Ack(AckKind.PROGRESS),
}


def ackFormat(stream: str, consumer: str) -> bytes:
    """
    The acknowledgement subjects of a consumer, as a format for deliveries, stream sequence,
    consumer sequence, timestamp and the number of pending messages.
    """
    names = f"{stream}.{consumer}".replace("%", "%%").encode()
    return b"$JS.ACK." + names + b".%d.%d.%d.%d.%d"


def parseAckSubject(subject: bytes) -> DeliveredAs | None:
    """The delivery that a subject of the right number of tokens names; C{None} for none."""
    parts = subject.rsplit(b".", 5)
    try:
        deliveries, sequence, consumerSequence = int(parts[1]), int(parts[2]), int(parts[3])
    except (IndexError, ValueError):
        return None
    if sequence <= 0:
        return None
    return DeliveredAs(deliveries, sequence, consumerSequence)


def parseAck(payload: bytes) -> Ack:
    """Read the payload of an acknowledgement; C{UNKNOWN} for any other payload."""
    plain = _PLAIN.get(payload)
    if plain is not None:
        return plain
    for prefix, parse in _PARSERS:
        if payload.startswith(prefix):
            return parse(payload[len(prefix) :])
    return _UNKNOWN


def _parseNak(argument: bytes) -> Ack:
    text = argument.strip()
    if not text:
        return _PLAIN[b"-NAK"]
    try:
        if text.startswith(b"{"):
            delay = _delayOf(json.loads(text))
        else:
            delay = nanosecondsFrom(text.decode())
    except (ValueError, RecursionError):
        return Ack(AckKind.NAK, isMalformed=True)
    return Ack(AckKind.NAK, delay=delay)


def _delayOf(options: object) -> int:
    """The delay; C{ValueError} if it is not a whole number."""
    delay = options.get("delay") if isinstance(options, dict) else None
    if delay is None:
        return 0
    if isinstance(delay, bool) or not isinstance(delay, int):
        raise ValueError("the delay is not a whole number")
    return delay


def _parseNext(argument: bytes) -> Ack:
    return Ack(AckKind.NEXT, request=argument)


def _parseTerminate(argument: bytes) -> Ack:
    return Ack(AckKind.TERMINATE, reason=decoded(argument.strip()))


_PARSERS: tuple[tuple[bytes, Callable[[bytes], Ack]], ...] = (
    (b"+NXT", _parseNext),
    (b"-NAK", _parseNak),
    (b"+TERM", _parseTerminate),
)
