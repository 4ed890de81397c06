"""Wire errors in one table with nats-server's texts and reasons, and exceptions."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LETTERS = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
"""Characters that are escaped by a letter, not by a number."""


def escaped(text: str) -> str:
    """
    Escape a name as nats-server does between quotes: control characters, quotes, backslashes, and
    bytes that are not UTF-8 (C{surrogateescape}).
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(map(_escapedCharacter, text))


def _escapedCharacter(character: str) -> str:
    if character in _LETTERS:
        return _LETTERS[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code < 0xDD00:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_UNPRINTABLE = re.compile(r"[^ -~]")


def printableASCII(text: str) -> str:
    return _UNPRINTABLE.sub(lambda match: ascii(match.group())[1:-1], text)


def logText(text: str | bytes) -> str:
    """Escape text of a peer or of a file for a log line: as L{escaped}, in printable ASCII."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return printableASCII(escaped(text))


@dataclass(frozen=True, slots=True)
class WireError:
    """
    @ivar text: the text of the C{-ERR} line; empty where nats-server closes in silence.
    @ivar reason: as C{/connz?state=closed} shows it; empty where the connection stays open.
    """

    text: str
    reason: str = ""

    @property
    def closes(self) -> bool:
        return bool(self.reason)

    def line(self, *arguments: str) -> bytes:
        """The C{-ERR} line with the values of C{%s}; empty for a silent error."""
        if not self.text:
            return b""
        return b"-ERR '" + self.filled(*arguments).encode("utf-8", "surrogateescape") + b"'\r\n"

    def filled(self, *arguments: str) -> str:
        """The text with the L{escaped} values of C{%s}."""
        return self.text % tuple(map(escaped, arguments)) if arguments else self.text


UNKNOWN_OPERATION = WireError("Unknown Protocol Operation", "Protocol Violation")
BAD_ARGUMENTS = WireError("", "Protocol Violation")
CONTROL_LINE = WireError("maximum control line exceeded", "Maximum Control Line Exceeded")
PAYLOAD = WireError("Maximum Payload Violation", "Maximum Message Payload Exceeded")
AUTHORIZATION = WireError("Authorization Violation", "Authentication Failure")
PROXY_NOT_TRUSTED = WireError("Authorization Violation", "Proxy Not Trusted")
PROXY_REQUIRED = WireError("Authorization Violation", "Proxy Required")
AUTH_TIMEOUT = WireError("Authentication Timeout", "Authentication Timeout")
AUTH_EXPIRED = WireError("User Authentication Expired", "Authentication Expired")
AUTH_REVOKED = WireError("User Authentication Revoked", "Credentials Revoked")
#: A user that a reload deleted or moved to another account; nats-server is silent.
AUTH_GONE = WireError("", "Client Closed")
ACCOUNT_EXPIRED = WireError("Account Authentication Expired", "Authentication Expired")
STALE = WireError("Stale Connection", "Stale Connection")
MAX_CONNECTIONS = WireError("maximum connections exceeded", "Maximum Connections Exceeded")
MAX_ACCOUNT_CONNECTIONS = WireError(
    "maximum account active connections exceeded", "Maximum Account Connections Exceeded"
)
SUBSCRIPTIONS_EXCEEDED = WireError(
    "maximum subscriptions exceeded", "Maximum Subscriptions Exceeded"
)
KICKED = WireError("", "Kicked")
SERVER_SHUTDOWN = WireError("", "Server Shutdown")
BAD_PROTOCOL = WireError("invalid client protocol", "Bad Client Protocol Version")
NO_RESPONDERS_HEADERS = WireError(
    "no responders requires headers support", "No Responders Requires Headers"
)
SLOW_PENDING = WireError("", "Slow Consumer (Pending Bytes)")
SLOW_DEADLINE = WireError("", "Slow Consumer (Write Deadline)")
THROTTLED = WireError(
    "Connection throttling is active. Please try again later.", "Maximum Connections Exceeded"
)
TLS_HANDSHAKE = WireError("", "TLS Handshake Failure")
PEER_ERROR = WireError("", "Parse Error")
INTERNAL = WireError("", "Internal Client")

WRONG_ROUTE_PORT = WireError("attempted to connect to route port", "Incorrect Port")
GATEWAY_ON_ROUTE = WireError(
    'Rejecting connection from gateway "%s" on the Route port', "Wrong Gateway"
)
CLUSTER_NAME = WireError(
    'Rejecting connection, cluster name "%s" does not match "%s"', "Cluster Name Conflict"
)
CLUSTER_CONFLICT = WireError("", "Cluster Name Conflict")
DUPLICATE_SERVER_NAME = WireError("", "Duplicate Server Name")
DUPLICATE_ROUTE = WireError("", "Duplicate Route")
ROUTE_REMOVED = WireError("", "Route Removed")
NO_DEDICATED_ROUTE = WireError(
    'Not possible to have a dedicated route for account "%s" between those servers',
    "Protocol Violation",
)
UNKNOWN_ROUTE_ACCOUNT = WireError('No route for account "%s"', "Protocol Violation")
MISSING_ROUTE_ACCOUNT = WireError(
    'Unable to lookup account "%s": account missing', "Protocol Violation"
)
WRONG_POOL_INDEX = WireError("Invalid route pool index: %s - pool size is %s", "Protocol Violation")
SET_POOL_INDEX = WireError(
    "Route pool index should not be set but is set to %s", "Protocol Violation"
)

ONLY_CLASSIC = WireError(
    "Rejecting connection, routes speak the classic dialect here", "Wrong Dialect"
)
NOT_CLASSIC = WireError(
    "Rejecting connection, routes do not speak the classic dialect here", "Wrong Dialect"
)
OTHER_NAME = WireError("", "Wrong Server Name")

CLASSIC_ERRORS = {
    BAD_ARGUMENTS: WireError("Parser Error", "Protocol Violation"),
    CONTROL_LINE: WireError("Maximum Control Line Exceeded", "Maximum Control Line Exceeded"),
    PAYLOAD: WireError("Maximum Payload Exceeded", "Maximum Message Payload Exceeded"),
    AUTH_TIMEOUT: WireError("Authorization Timeout", "Authentication Timeout"),
}
"""The error for a route of the classic dialect, by the error for other routes."""

#: The text of nats-server, which is the same for leafnodes.
COMPRESSION_MODE = WireError('unsupported route compression mode "%s"', "Protocol Violation")
#: The input is no S2 stream. No error is sent, since the peer could not read it.
S2_DAMAGED = WireError("", "Read Error")
FRAMES_DAMAGED = WireError("", "Read Error")
#: A reload changed the compression, which two servers negotiate only at the start of a link.
RENEGOTIATION = WireError("", "Client Closed")

WRONG_LEAF_PORT = WireError("attempted to connect to leaf node port", "Incorrect Port")
#: We dialled a port that is not for leafnodes.
NO_LEAF_PORT = WireError("", "Incorrect Port")
GATEWAY_ON_LEAF = WireError(
    'Rejecting connection from gateway "%s" on the leafnode port', "Wrong Gateway"
)
CLUSTER_BLANKS = WireError("cluster name cannot contain spaces", "Protocol Violation")
SAME_CLUSTER = WireError("remote leafnode has same cluster name", "Cluster Names Identical")
LEAF_TOO_OLD = WireError(
    'connection rejected since minimum version required is "%s"', "Minimum Version Required"
)
LEAF_LOOP = WireError(
    'Loop detected for leafnode account="%s". Delaying attempt to reconnect for 30s',
    "Protocol Violation",
)
LEAF_STALE = WireError("Stale Leaf Node Connection - Closing", "Stale Connection")
#: A reload deleted the remote.
LEAF_REMOVED = WireError("", "Client Closed")
LEAF_SILENT = WireError("", "Read Error")
DUPLICATE_LEAF = WireError(
    "Duplicate Remote LeafNode Connection", "Duplicate Remote LeafNode Connection"
)
LEAF_PUBLISH = WireError('Permissions Violation for Publish to "%s"', "Protocol Violation")
LEAF_SUBSCRIBE = WireError('Permissions Violation for Subscription to "%s"', "Protocol Violation")
MISSING_ACCOUNT = WireError("", "Missing Account")

WRONG_GATEWAY_PORT = WireError("attempted to connect to gateway port", "Incorrect Port")
NO_GATEWAY_THERE = WireError(
    'Attempt to connect to gateway "%s" using wrong port', "Incorrect Port"
)
UNKNOWN_GATEWAY = WireError('Connection to gateway "%s" rejected', "Wrong Gateway")
WRONG_GATEWAY = WireError(
    'Connection from "%s" rejected, wanted to connect to "%s", this is "%s"', "Wrong Gateway"
)
DUPLICATE_GATEWAY = WireError("", "Wrong Gateway")
WRONG_DIRECTION = WireError("", "Protocol Violation")
NO_COMMAND_ACCOUNT = WireError(
    "Account absent from receive-all-subscriptions-%s command", "Protocol Violation"
)

INVALID_SUBJECT = WireError("Invalid Subject")
INVALID_PUBLISH_SUBJECT = WireError("Invalid Publish Subject")
MAX_SUBSCRIPTIONS = WireError("maximum subscriptions exceeded")
MAX_SHAPES = WireError("maximum subscription shapes exceeded")
PUBLISH_DENIED = WireError('Permissions Violation for Publish to "%s"')
REPLY_DENIED = WireError('Permissions Violation for Publish with Reply of "%s"')
SUBSCRIBE_DENIED = WireError('Permissions Violation for Subscription to "%s"')
QUEUE_DENIED = WireError('Permissions Violation for Subscription to "%s" using queue "%s"')
TOO_MANY_TOKENS = WireError('Permissions Violation for Subscription to "%s", too many tokens')
PERMISSION_REMOVED = WireError('Permissions Violation for Subscription to "%s" (sid "%s")')
QUEUE_REMOVED = WireError(
    'Permissions Violation for Subscription to "%s" using queue "%s" (sid "%s")'
)


class BrokerError(Exception):
    """Base of the exceptions for a program that embeds the broker."""


class ConnectionLimit(BrokerError):
    def __init__(self, error: WireError) -> None:
        super().__init__(error.text)
        self.error = error


class ProtocolViolation(BrokerError):
    def __init__(self, error: WireError, *arguments: str) -> None:
        super().__init__(error.text or error.reason)
        self.error = error
        self.arguments = arguments


class Unauthorized(BrokerError):
    """
    An authorizer denies a login. The text is for our log only.

    @ivar error: the error for a client that was admitted before. Any other client receives
        L{AUTHORIZATION}, with the closed reason of this error if it concerns a proxy.
    @ivar asked: the account whose auth callout service was asked; empty for none. Its users may
        read the text too.
    """

    asked = ""

    def __init__(self, text: str = "", error: WireError = AUTHORIZATION) -> None:
        super().__init__(text)
        self.error = error


class NoResponders(BrokerError):
    def __init__(self, subject: bytes) -> None:
        super().__init__(f"nobody responds to {subject.decode('utf-8', 'replace')}")
        self.subject = subject


class RequestTimeout(BrokerError, TimeoutError):
    """A request was not answered in C{timeout} seconds."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g}s")
        self.timeout = timeout
