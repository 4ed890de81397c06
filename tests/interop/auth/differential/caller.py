"""
A client that plays a script and returns the frames that it receives.

When a call returns, its effects have been received. Random values are replaced by a star.
"""

from __future__ import annotations

import base64
import json
import select
import socket
from collections.abc import Callable
from typing import Any

import nkeys  # type: ignore[import-untyped]

from tests.conformance.frames import splitFrames
from tests.interop.auth.differential.attempts import Login, Script
from tests.interop.neighbours import partsOf, plain
from tests.interop.servers import PATIENCE

__all__ = ["Caller", "converse"]

#: A nonce that no server has sent.
_OTHER_NONCE = b"AAAAAAAAAAAAAAA"

#: A key that nobody has.
_OTHER_SEED = b"SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4"

_GONE = b"[closed]"

#: What servers tell of themselves is no verdict.
_EVENTS = b"$SYS.ACCOUNT."

#: Seconds. Nothing fails when it is too short, but that a conversation is tried again.
_MOMENT = 0.003


class Caller:
    """
    One connection.

    @ivar isGone: whether the server has closed the connection.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._reply = b"nowhere"
        self.isGone = self._hasEnded = False
        [info] = self._read(1)
        self._info: dict[str, Any] = json.loads(info[5:])

    def logIn(self, login: Login) -> list[bytes]:
        """Send CONNECT."""
        options: dict[str, Any] = {"verbose": False, "pedantic": False, **dict(login.options)}
        if login.seed:
            options.update(self._signed(login))
        return self.say(b"CONNECT %b\r\n" % json.dumps(options).encode())

    def _signed(self, login: Login) -> dict[str, str]:
        nonce = self._info.get("nonce", "").encode()
        seed = login.seed.encode()
        key = nkeys.from_seed(bytearray(seed))
        options = {"nkey": key.public_key.decode()}
        if login.signature == "of another nonce":
            nonce = _OTHER_NONCE
        elif login.signature == "of another key":
            key = nkeys.from_seed(bytearray(_OTHER_SEED))
        if login.signature == "garbage":
            options["sig"] = "bm8"
        elif login.signature != "missing":
            options["sig"] = base64.urlsafe_b64encode(key.sign(nonce)).rstrip(b"=").decode()
        return options

    def say(self, data: bytes) -> list[bytes]:
        """Send bytes, and return all frames that they cause."""
        if self.isGone:
            return []
        try:
            self._socket.sendall(data.replace(b"{reply}", self._reply) + b"PING\r\n")
        except ConnectionError:
            pass  # what it had to say is still to be read
        heard = []
        for frame in self._read():
            _, subject, _, reply, _ = partsOf(frame)
            if subject.startswith(_EVENTS):
                continue
            self._reply = reply or self._reply
            heard.append(frame if frame == _GONE else plain(frame, False))
        return heard

    def listen(self, cut: bool = False) -> list[bytes]:
        """
        Return the frames that others have caused.

        @param cut: whether the server may just have closed the connection. Then its output is
            awaited for a moment, because a client that writes to a closed connection may lose it.
        """
        if cut and not self.isGone and select.select([self._socket], [], [], _MOMENT)[0]:
            self._take()
        return self.say(b"")

    def _take(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        self._rest += data
        self._hasEnded = not data

    def _read(self, count: int = 0) -> list[bytes]:
        """
        @param count: the number of frames; 0 for all up to the PONG.
        """
        received: list[bytes] = []
        while not self.isGone:
            frames, self._rest = splitFrames(self._rest)
            received += [
                frame for frame in frames if count or not frame.startswith((b"INFO ", b"PING"))
            ]
            if b"PONG\r\n" in received:
                received.remove(b"PONG\r\n")
                break
            if count and len(received) >= count:
                break
            self._take()
            if self._hasEnded:
                self.isGone = True
                received.append(_GONE)
        return received

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def converse(
    port: int, conversation: Script, change: Callable[[], object] | None = None
) -> list[list[bytes]]:
    """
    @param change: called after half of the attempts.
    @return: the frames that each client received after each login, each attempt and the change, in
        a fixed order.
    """
    callers: list[Caller] = []
    told: list[list[bytes]] = []
    try:
        for login in conversation.logins:
            callers.append(Caller(port))
            told.append(callers[-1].logIn(login))
        for place, attempt in enumerate(conversation.tries):
            if change is not None and place == len(conversation.tries) // 2:
                change()
                told += [sorted(caller.listen(cut=True)) for caller in callers]
            said = callers[attempt.who].say(attempt.data)
            told.append(sorted(said))
            told += [
                sorted(caller.listen())
                for number, caller in enumerate(callers)
                if number != attempt.who
            ]
    finally:
        for caller in callers:
            caller.close()
    return told
