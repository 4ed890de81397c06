"""
The protocol of a connection in the log for C{-V}, with nats-server's lines. No password, token,
signature or JWT of a CONNECT ever appears.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from natsbroker.connections.labels import inQuotes
from natsbroker.wire import ops
from natsbroker.wire.lines import Frame
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.trace")

_SECRETS = ("pass", "auth_token", "token", "sig", "proxy_sig", "jwt", "nkey", "secret")

_REDACTED = "[REDACTED]"


def redactedConnect(argument: bytes) -> str:
    """CONNECT's argument without its secrets. An unreadable one is hidden as a whole."""
    try:
        options = json.loads(decoded(argument))
    except (ValueError, RecursionError):
        return _REDACTED
    if not isinstance(options, dict):
        return _REDACTED
    shown = {name: _REDACTED if _isSecret(name) else value for name, value in options.items()}
    return json.dumps(shown, separators=(",", ":"))


def _isSecret(name: str) -> bool:
    return any(secret in name.lower() for secret in _SECRETS)


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """A trace; C{longest} bytes of a payload are shown, 0 for all."""

    client: object
    longest: int
    headersOnly: bool

    def came(self, frame: Frame) -> None:
        reader = _READERS.get(frame[0])
        if reader is None:
            return
        self._line("<<-", f"[{reader(frame)}]")
        if frame[0] in _PUBLISHES:
            self._payload("<<-", frame[4], frame[3])

    def said(self, line: bytes) -> None:
        text = line.partition(b"\r\n")[0].decode("latin-1")
        if text.startswith("-ERR '"):
            text = f"-ERR {text[6:-1]}"
        self._line("->>", f"[{text.removeprefix('+')}]")

    def delivered(self, message: Message, sid: bytes, headers: bool) -> None:
        words = [b"MSG", message.shownSubject, sid]
        if message.reply:
            words.append(message.reply)
        body, headerLength = message.body, message.headerLength
        if headerLength and headers:
            words[0] = b"HMSG"
            words += [message.headerText, message.sizeText]
        elif headerLength:
            body, headerLength = message.payload, 0
            words.append(b"%d" % len(body))
        else:
            words.append(message.sizeText)
        self._line("->>", f"[{_text(*words)}]")
        self._payload("->>", body, headerLength)

    def mapped(self, subject: bytes, destination: bytes) -> None:
        self._line("<<-", f"[MAPPING {_text(subject, b'->', destination)}]")

    def ended(self, sid: bytes) -> None:
        self._line("<->", f"[DELSUB {_text(sid)}]")

    def _payload(self, arrow: str, body: bytes, headerLength: int) -> None:
        if self.headersOnly:
            body = body[: max(headerLength - 4, 0)]
        if not body:
            return
        longest = self.longest
        if 0 < longest < len(body):
            self._line(arrow, f'MSG_PAYLOAD: [{inQuotes(body[:longest])[:-1]}..."]')
        else:
            self._line(arrow, f"MSG_PAYLOAD: [{inQuotes(body)}]")

    def _line(self, arrow: str, text: str) -> None:
        _log.debug(
            "{client} - {arrow} {text}",
            client=str(self.client),
            arrow=arrow,
            text=text,
            trace=True,
        )


def _text(*words: bytes) -> str:
    return b" ".join(words).decode("latin-1")


def _publish(frame: Frame) -> str:
    _, subject, reply, headerLength, _, sizeText, headerText = frame
    words = [b"PUB", subject, sizeText]
    if frame[0] == ops.HPUB:
        words = [b"HPUB", subject, headerText or b"%d" % headerLength, sizeText]
    if reply:
        words.insert(2, reply)
    return _text(*words)


def _withArgument(name: bytes) -> Callable[[Any], str]:
    return lambda frame: _text(name, frame[1])


def _bare(name: str) -> Callable[[Any], str]:
    return lambda frame: name


_PUBLISHES = frozenset({ops.PUB, ops.HPUB})

_READERS: dict[int, Callable[[Any], str]] = {
    ops.CONNECT: lambda frame: f"CONNECT {redactedConnect(frame[1])}",
    ops.INFO: _withArgument(b"INFO"),
    ops.PUB: _publish,
    ops.HPUB: _publish,
    ops.SUB: _withArgument(b"SUB"),
    ops.UNSUB: _withArgument(b"UNSUB"),
    ops.PING: _bare("PING"),
    ops.PONG: _bare("PONG"),
}
