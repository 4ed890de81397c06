"""
The table of errors.
"""

from __future__ import annotations

import pytest

from natsbroker import errors
from natsbroker.errors import (
    BrokerError,
    ConnectionLimit,
    ProtocolViolation,
    Unauthorized,
    WireError,
    printableASCII,
)

TABLE = {name: value for name, value in vars(errors).items() if isinstance(value, WireError)}

#: The texts that clients' libraries look for, from nats-server.
TEXTS = {
    "UNKNOWN_OPERATION": "Unknown Protocol Operation",
    "CONTROL_LINE": "maximum control line exceeded",
    "PAYLOAD": "Maximum Payload Violation",
    "AUTHORIZATION": "Authorization Violation",
    "AUTH_TIMEOUT": "Authentication Timeout",
    "ACCOUNT_EXPIRED": "Account Authentication Expired",
    "AUTH_EXPIRED": "User Authentication Expired",
    "AUTH_REVOKED": "User Authentication Revoked",
    "STALE": "Stale Connection",
    "MAX_CONNECTIONS": "maximum connections exceeded",
    "MAX_ACCOUNT_CONNECTIONS": "maximum account active connections exceeded",
    "BAD_PROTOCOL": "invalid client protocol",
    "NO_RESPONDERS_HEADERS": "no responders requires headers support",
    "INVALID_SUBJECT": "Invalid Subject",
    "INVALID_PUBLISH_SUBJECT": "Invalid Publish Subject",
    "MAX_SUBSCRIPTIONS": "maximum subscriptions exceeded",
}


class TestTable:
    """Every error."""

    @pytest.mark.parametrize("name", TEXTS)
    def test_texts(self, name: str) -> None:
        """The text is nats-server's."""
        assert TABLE[name].text == TEXTS[name]
        assert TABLE[name].line() == b"-ERR '" + TEXTS[name].encode() + b"'\r\n"

    @pytest.mark.parametrize("name", sorted(TABLE))
    def test_saysOrCloses(self, name: str) -> None:
        """An error has a text, or closes the connection, or both. Its text is one line."""
        error = TABLE[name]
        assert error.text or error.closes
        line = error.line(*["x"] * error.text.count("%s"))
        assert line == b"" or (line.startswith(b"-ERR '") and line.endswith(b"'\r\n"))
        assert line.count(b"\n") == bool(line)

    def test_silentClose(self) -> None:
        """An error for which nats-server closes without a text has no line."""
        for error in (errors.BAD_ARGUMENTS, errors.SLOW_PENDING, errors.SLOW_DEADLINE):
            assert error.line() == b""
            assert error.closes


class TestLines:
    """Texts with names in them."""

    def test_arguments(self) -> None:
        """Names in an error are quoted."""
        assert errors.PUBLISH_DENIED.line("foo") == (
            b"-ERR 'Permissions Violation for Publish to \"foo\"'\r\n"
        )
        assert errors.QUEUE_DENIED.line("foo", "q") == (
            b'-ERR \'Permissions Violation for Subscription to "foo" using queue "q"\'\r\n'
        )

    def test_percent(self) -> None:
        """A percent sign in a name is shown unchanged."""
        assert b'"100%s"' in errors.PUBLISH_DENIED.line("100%s")


class TestExceptions:
    """The exceptions."""

    def test_family(self) -> None:
        """All exceptions have one base class, which a program can catch."""
        for error in (
            ConnectionLimit(errors.MAX_CONNECTIONS),
            ProtocolViolation(errors.INVALID_SUBJECT),
            Unauthorized("no"),
        ):
            assert isinstance(error, BrokerError)

    def test_carryTheirError(self) -> None:
        """An exception about the peer has the error for the peer."""
        limit = ConnectionLimit(errors.MAX_CONNECTIONS)
        assert (limit.error, str(limit)) == (errors.MAX_CONNECTIONS, "maximum connections exceeded")
        violation = ProtocolViolation(errors.PUBLISH_DENIED, "foo")
        assert (violation.error, violation.arguments) == (errors.PUBLISH_DENIED, ("foo",))
        assert str(ProtocolViolation(errors.BAD_ARGUMENTS)) == "Protocol Violation"


def test_printableASCII() -> None:
    """Printable ASCII is shown unchanged, including backslashes."""
    text = "".join(map(chr, range(0x20, 0x7F)))
    assert printableASCII(text) == text
