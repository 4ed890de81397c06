"""
Acknowledgement subjects and payloads.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.consumers.acks import (
    Ack,
    AckKind,
    DeliveredAs,
    ackFormat,
    parseAck,
    parseAckSubject,
)


def test_subject() -> None:
    """A formatted acknowledgement subject is read back."""
    subject = ackFormat("S", "C") % (2, 7, 5, 123, 4)
    assert subject == b"$JS.ACK.S.C.2.7.5.123.4"
    assert parseAckSubject(subject) == DeliveredAs(2, 7, 5)


def test_percentInName() -> None:
    """A percent sign in a name is not part of the format."""
    assert ackFormat("a%d", "b") % (1, 2, 3, 4, 5) == b"$JS.ACK.a%d.b.1.2.3.4.5"


@pytest.mark.parametrize("numbers", [b"a.b.c.d.e", b"1.0.1.1.1", b"1..1.1.1", b"1.-2.1.1.1"])
def test_noDelivery(numbers: bytes) -> None:
    """An acknowledgement subject with tokens that are not numbers is not parsed."""
    assert parseAckSubject(b"$JS.ACK.S.C." + numbers) is None


@pytest.mark.parametrize(
    ("payload", "ack"),
    [
        (b"", Ack(AckKind.ACK)),
        (b"+ACK", Ack(AckKind.ACK)),
        (b"+OK", Ack(AckKind.ACK)),
        (b" +ACK", Ack(AckKind.UNKNOWN)),
        (b"+ACK ", Ack(AckKind.UNKNOWN)),
        (b"+WPI", Ack(AckKind.PROGRESS)),
        (b"+WPI ", Ack(AckKind.UNKNOWN)),
        (b"-NAK", Ack(AckKind.NAK)),
        (b"-NAK ", Ack(AckKind.NAK)),
        (b"-NAK 100ms", Ack(AckKind.NAK, delay=100_000_000)),
        (b'-NAK {"delay": 5}', Ack(AckKind.NAK, delay=5)),
        (b"-NAK {}", Ack(AckKind.NAK, delay=0)),
        (b"-NAK zork", Ack(AckKind.NAK, isMalformed=True)),
        (b'-NAK {"delay": "x"}', Ack(AckKind.NAK, isMalformed=True)),
        (b'-NAK {"delay":' + b"[" * 2000 + b"]" * 2000 + b"}", Ack(AckKind.NAK, isMalformed=True)),
        (b'-NAK {"delay": true}', Ack(AckKind.NAK, isMalformed=True)),
        (b"+TERM", Ack(AckKind.TERMINATE)),
        (b"+TERM because ", Ack(AckKind.TERMINATE, reason="because")),
        (b"+NXT", Ack(AckKind.NEXT)),
        (b"+NXT 5", Ack(AckKind.NEXT, request=b" 5")),
        (b"zork", Ack(AckKind.UNKNOWN)),
    ],
)
def test_payload(payload: bytes, ack: Ack) -> None:
    """Payloads have the same meaning as in nats-server."""
    assert parseAck(payload) == ack
