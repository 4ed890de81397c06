"""
Connections and their errors in the log, in nats-server's words (observed), without secrets. Peers'
texts stand in quotes, with everything escaped that is not printable ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from natsbroker import errors
from natsbroker.errors import logText
from natsbroker.wire.grants import Grant

_REDACTED = "[REDACTED]"


def inQuotes(text: str | bytes) -> str:
    return f'"{logText(text)}"'


def clientLabel(
    host: str,
    port: int,
    cid: int,
    options: Mapping[str, Any],
    grant: Grant | None,
    letters: str = "cid",
    forwardedFor: str = "",
) -> str:
    """
    The client at the beginning of a log line: its address and number and, once it has logged in,
    its own description and its user.

    @param letters: the letters before the number.
    @param forwardedFor: the address that a proxy says it has; empty for none.
    """
    label = f"{host}:{port} - {letters}:{cid}"
    if forwardedFor:
        label = f"[{forwardedFor}]/{label}" if ":" in forwardedFor else f"{forwardedFor}/{label}"
    if grant is None:
        return label
    version = options.get("version")
    parts = [f"v{version}" if version else "", options.get("lang"), options.get("name")]
    described = ":".join(str(part)[:256] for part in parts if part)
    if described:
        label += f" - {inQuotes(described)}"
    if grant.user:
        label += f" - {inQuotes(f'{grant.account}/user:{grant.user}')}"
    return label


class ClientLabel:
    """The label of a client as it is now, made when a line is shown; no secret in its C{repr}."""

    __slots__ = ("_arguments",)

    def __init__(self, *arguments: Any) -> None:
        """Take the arguments of L{clientLabel}."""
        self._arguments = arguments

    def __str__(self) -> str:
        return clientLabel(*self._arguments)

    __repr__ = __str__


def authenticationFailure(options: Mapping[str, Any]) -> str:
    for name, form in _WHO.items():
        if options.get(name):
            return f"authentication error - {form(str(options[name])[:256])}"
    return "authentication error"


def claimedUser(options: Mapping[str, Any]) -> str:
    """
    The user that CONNECT's options claim, as nats-server shows it; never a secret. Empty if they
    claim none.
    """
    key = str(options.get("nkey") or "")
    if key.startswith("U"):
        return key
    return str(options.get("user") or "")[:256] or (_REDACTED if options.get("auth_token") else "")


def _publicKey(key: str) -> str:
    """
    The public key that is shown for a key, which may be a secret one that was sent by mistake.
    """
    return key if key.startswith("U") else _REDACTED


_WHO: dict[str, Callable[[str], str]] = {
    "nkey": lambda key: f"Nkey {inQuotes(_publicKey(key))}",
    "user": lambda name: f"User {inQuotes(name)}",
    "jwt": lambda token: 'JWT User ""',
    "auth_token": lambda token: f"Token {inQuotes(_REDACTED)}",
}

_PUBLISHING = {errors.PUBLISH_DENIED: "Subject", errors.REPLY_DENIED: "Reply"}


def violationText(violation: errors.ProtocolViolation, sid: bytes = b"") -> str:
    error, arguments = violation.error, [inQuotes(argument) for argument in violation.arguments]
    if error in _PUBLISHING:
        return f"Publish Violation - {_PUBLISHING[error]} {arguments[0]}"
    number = logText(sid)
    if error == errors.SUBSCRIBE_DENIED:
        return f"Subscription Violation - Subject {arguments[0]}, SID {number}"
    if error == errors.QUEUE_DENIED:
        subject, queue = arguments
        return f"Subscription Violation - Subject {subject}, Queue: {queue}, SID {number}"
    if error == errors.TOO_MANY_TOKENS:
        return f"Subscription Violation Too Many Tokens - Subject {arguments[0]}, SID {number}"
    return error.text
