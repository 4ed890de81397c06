"""A leafnode remote's HTTP request for a WebSocket and the answer, without a transport."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable

import h11

from natsbroker.websocket.deflate import OFFER
from natsbroker.websocket.upgrade import (
    LEAFNODE_PATH,
    NO_MASKING,
    Upgrade,
    acceptKey,
    offersDeflate,
)

#: The most bytes of headers of an answer.
_LARGEST = 1 << 14


class HandshakeError(ValueError):
    """The peer does not agree to speak WebSocket with us."""


class ClientHandshake:
    """C{upgrade} is C{None} until the peer has agreed. C{rest} is the input behind its answer."""

    def __init__(
        self,
        host: str,
        path: str,
        compresses: bool,
        masks: bool,
        randomBytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """C{host} is as C{host:port}; C{path} may be empty."""
        self.upgrade: Upgrade | None = None
        self.rest = b""
        self._compresses = compresses
        self._masks = masks
        self._key = base64.b64encode(randomBytes(16))
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST)
        headers = [
            ("Host", host),
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", self._key.decode("ascii")),
            ("Sec-WebSocket-Version", "13"),
        ]
        if compresses:
            headers.append(("Sec-WebSocket-Extensions", OFFER))
        if not masks:
            headers.append((NO_MASKING, "true"))
        target = f"/{path.strip('/')}".rstrip("/") + LEAFNODE_PATH
        asking = h11.Request(method="GET", target=target, headers=headers)
        sent = (self._http.send(asking), self._http.send(h11.EndOfMessage()))
        self.request = b"".join(part for part in sent if part)

    def received(self, data: bytes) -> None:
        """Take input. L{HandshakeError} if the peer does not agree."""
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError:
            # Without the exception and its text, which repeats a line of the answer.
            raise HandshakeError("the answer is not HTTP") from None
        if event is h11.NEED_DATA:
            return
        if not isinstance(event, h11.InformationalResponse):
            raise HandshakeError("invalid websocket connection")
        self._agreed(event)

    def _agreed(self, answer: h11.InformationalResponse) -> None:
        headers = {name: value.decode("latin-1") for name, value in answer.headers}
        isRight = (
            answer.status_code == 101
            and headers.get(b"upgrade", "").lower() == "websocket"
            and headers.get(b"connection", "").lower() == "upgrade"
            and headers.get(b"sec-websocket-accept") == acceptKey(self._key)
        )
        if not isRight:
            raise HandshakeError("invalid websocket connection")
        isCompressed, isWithoutContext = offersDeflate(
            [headers.get(b"sec-websocket-extensions", "")]
        )
        if isCompressed and not (self._compresses and isWithoutContext):
            raise HandshakeError("compression negotiation error")
        agrees = headers.get(NO_MASKING.lower().encode("ascii")) == "true"
        self.rest, _ = self._http.trailing_data
        self.upgrade = Upgrade(True, isCompressed, self._masks or not agrees)
