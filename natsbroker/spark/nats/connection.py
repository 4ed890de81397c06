"""A blocking connection to a NATS server, for code that runs in a Spark worker."""

from __future__ import annotations

import errno
import itertools
import json
import secrets
import socket
import ssl
import time
from typing import Any

from natsbroker.config.addresses import RemoteURL
from natsbroker.spark.errors import ApiError, ConnectionFailed, CredentialsRefused, TimedOut
from natsbroker.spark.nats.addresses import ServerAccess, connectFields
from natsbroker.wire import ops
from natsbroker.wire.headers import Headers
from natsbroker.wire.serverside import Frame, ServerDecoder, connectLine, publishLine, subscribeLine

_CHUNK = 1 << 18
_INBOX = b"1"

#: The signs of a lost server: the end of the stream, or the errors of a reset connection.
_GONE = "the server closed the connection"
_CLOSED = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)

#: The status of an answer that nobody gives.
_NO_RESPONDERS = 503


def connect(peer: ServerAccess, first: int = 0) -> BlockingConnection:
    """
    Connect. C{first} is the server to begin with, so that not all workers choose the same one.
    """
    first %= len(peer.addresses)
    failures: list[Exception] = []
    for address in peer.addresses[first:] + peer.addresses[:first]:
        try:
            return BlockingConnection(peer, address)
        except (ConnectionFailed, TimedOut) as error:
            failures.append(error)
    isRefused = all(isinstance(failure, CredentialsRefused) for failure in failures)
    kind = CredentialsRefused if isRefused else ConnectionFailed
    raise kind("; ".join(map(str, failures)))


class BlockingConnection:
    def __init__(self, peer: ServerAccess, address: RemoteURL) -> None:
        self.info: dict[str, Any] = {}
        self._peer = peer
        self._address = address
        self._decoder = ServerDecoder()
        self._inbox = f"{peer.inboxPrefix}.{secrets.token_hex(11)}.".encode()
        self._requests = itertools.count(1)
        self._isOpen = False
        self._lastWord = ""
        # The last valid subject: messages to one subject often follow each other.
        self._composedTo = b""
        deadline = time.monotonic() + peer.connectTimeout
        try:
            self._socket: socket.socket = socket.create_connection(
                (address.host, address.port), peer.connectTimeout
            )
        except OSError as error:
            raise ConnectionFailed(f"{address}: {error.strerror or error}") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._login(deadline)
        except BaseException:
            self.close()
            raise
        self._isOpen = True

    def close(self) -> None:
        self._isOpen = False
        self._socket.close()

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _login(self, deadline: float) -> None:
        peer = self._peer
        if peer.tlsFirst:
            self._startTLS(deadline)
        frame = self.receive(deadline)
        if frame[0] != ops.INFO:
            raise ConnectionFailed(f"{self._address}: this is not a NATS server: no greeting")
        wants = self.info.get("tls_required")
        ours = peer.isTLS or self._address.isTLS
        if not peer.tlsFirst and (ours or wants):
            if not (wants or self.info.get("tls_available")):
                raise ConnectionFailed(f"{self._address}: the server does not offer TLS")
            if self._decoder.pending:
                raise ConnectionFailed(
                    f"{self._address}: the server sent data before TLS could begin"
                )
            self._startTLS(deadline)
        nonce = self.info.get("nonce")
        fields = connectFields(
            peer.identityAt(self._address),
            nonce if isinstance(nonce, str) else "",
            isinstance(self._socket, ssl.SSLSocket),
        )
        # A server that was told to have no headers closes where this is wanted all the same.
        fields["no_responders"] = self.info.get("headers") is True
        subscription = subscribeLine(self._inbox + b"*", b"", _INBOX)
        self.send(connectLine(fields), subscription, b"PING\r\n")
        isIn = False
        while not isIn:
            isIn = self.receive(deadline)[0] == ops.PONG
            if self._lastWord:
                isRefused = self._lastWord.lower().startswith("authorization")
                kind = CredentialsRefused if isRefused else ConnectionFailed
                raise kind(f"{self._address}: {self._lastWord}")

    def _startTLS(self, deadline: float) -> None:
        context = self._peer.context()
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        name = self._peer.tlsServerName or self._address.host
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=name)
        except TimeoutError:
            raise TimedOut(f"{self._address}: TLS did not begin in time") from None
        except OSError as error:
            raise ConnectionFailed(f"{self._address}: TLS: {_reason(error)}") from None

    def send(self, *pieces: bytes) -> None:
        try:
            self._socket.settimeout(self._peer.requestTimeout)
            self._socket.sendall(b"".join(pieces))
        except TimeoutError:
            self.close()
            raise TimedOut(f"{self._address}: the server did not take data in time") from None
        except OSError as error:
            raise self._lost(_reason(error)) from None

    def receive(self, deadline: float) -> Frame:
        """The next frame for the caller. PINGs are answered meanwhile."""
        while True:
            while (frame := self._decoder.next()) is not None:
                op = frame[0]
                if op == ops.FAULT:
                    raise self._lost(f"this is not a NATS server: {frame[1]}")
                if op == ops.PING:
                    self.send(b"PONG\r\n")
                    continue
                if op == ops.ERR:
                    self._lastWord = frame[1]
                    if not self._isOpen:
                        return frame
                    # The answer that the caller waits for will not come.
                    raise ApiError(f"{self._address}: {self._lastWord}")
                elif op == ops.INFO:
                    self._informed(frame[1])
                    if not self._isOpen:
                        return frame
                elif op != ops.OK:
                    return frame
            self._fill(deadline)

    def _informed(self, text: bytes) -> None:
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise self._lost("INFO is malformed")
        self.info = fields

    def _fill(self, deadline: float) -> None:
        try:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(_CHUNK)
        except TimeoutError:
            raise TimedOut(f"{self._address}: no answer in time") from None
        except OSError as error:
            raise self._lost(_reason(error)) from None
        if not data:
            raise self._lost(_GONE)
        self._decoder.append(data)

    def _lost(self, text: str) -> ConnectionFailed:
        self.close()
        said = f" ({self._lastWord})" if self._lastWord else ""
        return ConnectionFailed(f"{self._address}: {text}{said}")

    def publish(
        self, subject: str, payload: bytes, reply: bytes = b"", headers: bytes = b""
    ) -> None:
        size = len(headers) + len(payload)
        line = publishLine(subject.encode("utf-8"), reply, len(headers), size)
        self.send(line, headers, payload, b"\r\n")

    def ask(self, subject: str, payload: bytes, headers: bytes = b"") -> bytes:
        reply, pieces = self.composed(subject.encode("utf-8"), payload, headers)
        self.send(*pieces)
        return reply

    def composed(
        self, subject: bytes, payload: bytes, headers: bytes, reply: bytes = b""
    ) -> tuple[bytes, list[bytes]]:
        """
        A request for L{send}, so that many can be sent together: the key of its answer, and its
        bytes.

        @param reply: where its answer comes, an L{inbox}; one of its own if it is not given.
        """
        reply = reply or self._inbox + b"%d" % next(self._requests)
        size = len(headers) + len(payload)
        if subject != self._composedTo:
            publishLine(subject, reply, len(headers), size)
            self._composedTo = subject
        sizes = b"%d %d\r\n" % (len(headers), size) if headers else b"%d\r\n" % size
        verb = b"HPUB " if headers else b"PUB "
        return reply, [verb, subject, b" ", reply, b" ", sizes, headers, payload, b"\r\n"]

    def inbox(self, name: str) -> bytes:
        return self._inbox + name.encode()

    def anyMessage(self, deadline: float | None = None) -> tuple[bytes, bytes, int, bytes]:
        """
        The next message to any of our subjects, answers to any request included.

        @param deadline: on the monotonic clock; by default for as long as a server may be silent.
        @return: its subject, by which an answer's request is known; its reply subject; how many of
            the bytes are headers, and the bytes.
        """
        until = time.monotonic() + self._peer.requestTimeout if deadline is None else deadline
        while (frame := self.receive(until))[0] not in (ops.MSG, ops.HMSG):
            pass
        return frame[1], frame[3], frame[4], frame[5]

    def answer(self, reply: bytes, subject: str = "") -> tuple[int, bytes]:
        """
        The number of header bytes and the bytes of the next answer to a request; late ones to
        earlier requests are dropped.
        """
        deadline = time.monotonic() + self._peer.requestTimeout
        try:
            while (message := self.anyMessage(deadline))[0] != reply:
                pass
        except TimedOut:
            wait = self._peer.requestTimeout
            raise TimedOut(f"{self._address}: no answer to {subject} within {wait:g}s") from None
        headerLength, body = message[2:]
        if headerLength == len(body) and headerLength:
            if Headers.fromBlock(body).status == _NO_RESPONDERS:
                raise ApiError(f"{self._address}: no responders for {subject}", _NO_RESPONDERS)
        return headerLength, body

    def request(self, subject: str, payload: bytes = b"") -> bytes:
        headerLength, body = self.answer(self.ask(subject, payload), subject)
        return body[headerLength:]


def _reason(error: OSError) -> str:
    if error.errno in _CLOSED or isinstance(error, ssl.SSLEOFError):
        return _GONE
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message}"
    return getattr(error, "reason", None) or error.strerror or str(error)
