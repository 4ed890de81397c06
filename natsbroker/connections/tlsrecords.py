"""
TLS records in bulk: an OpenSSL connection whose records are read and written many at a time.

Twisted takes one record at a time from OpenSSL and hands on one at a time. Here all input is
decrypted into the decoder's own buffer, and all output is encrypted and sent at once. The compiled
lane calls OpenSSL by itself; without it, and for everything that is not plainly shaking hands,
reading or writing, pyOpenSSL does. Alerts, closing and errors stay Twisted's and pyOpenSSL's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL
from twisted.logger import Logger

from natsbroker import hot

_log = Logger(namespace="natsbroker")

#: The bytes that are read from or written to the socket at a time.
_READ_SIZE = 262144
_SEND_SIZE = 524288

#: The most that one record holds, and more than any cipher adds to it.
_RECORD = 16384
_OVERHEAD = 256


def widen(transport: Any) -> None:
    transport.bufferSize = _READ_SIZE
    transport.SEND_LIMIT = _SEND_SIZE


_FUNCTIONS = (
    *("SSL_read", "SSL_write", "BIO_read", "BIO_write"),
    *("SSL_do_handshake", "SSL_get_error", "ERR_clear_error"),
)


@cache
def opensslFunctions() -> tuple[int, ...]:
    """
    The addresses of OpenSSL's functions for a C{hot.Seal}, from private parts of cryptography. If
    it does not have them, there are none, which is logged once.
    """
    try:
        library = import_module("cryptography.hazmat.bindings._rust")._openssl
        return tuple(_addressOf(library.ffi.addressof(library.lib, name)) for name in _FUNCTIONS)
    except (AttributeError, ImportError, TypeError) as error:
        _log.warn(
            "TLS connections do not use the lane: cryptography does not tell where OpenSSL is"
            " ({error})",
            error=error,
        )
        return ()


_binding: Any = Binding()
_ffi: Any = _binding.ffi


def _addressOf(pointer: Any) -> int:
    return int(_ffi.cast("uintptr_t", pointer))


#: The attributes of a pyOpenSSL connection with its C{SSL}, and the BIOs of its input and output.
_PARTS = ("_ssl", "_into_ssl", "_from_ssl")

#: The buffer for bytes that are taken from a BIO.
_ROOM = _ffi.new("char[]", _RECORD)


def _moveRest(library: Any, before: Any, after: Any) -> None:
    while (count := library.BIO_read(before, _ROOM, _RECORD)) > 0:
        library.BIO_write(after, _ROOM, count)


class SealedConnection(SSL.Connection):
    _reading: tuple[Any, hot.Decoder, Callable[[], None]] | None = None
    _seal: Any = None

    def seal(self) -> Any:
        """A C{hot.Seal} for handshake and records, or C{None} without its parts."""
        if self._seal is None:
            parts = [getattr(self, name, None) for name in _PARTS]
            if hot.Seal is None or None in parts or not opensslFunctions():
                return None
            connection, *buffers = parts
            self._seal = hot.Seal(connection, _addressOf(connection), *opensslFunctions())
            self._seal.use(*map(_addressOf, buffers))
        return self._seal

    def renewBuffers(self) -> None:
        """Free what memory BIOs keep of the handshake; what waits in them moves on."""
        parts: Any = self
        library: Any = SSL._lib  # type: ignore[attr-defined]
        made = [library.BIO_new(library.BIO_s_mem()) for _ in range(2)]
        for before, after in zip((parts._into_ssl, parts._from_ssl), made, strict=True):
            _moveRest(library, before, after)
        library.SSL_set_bio(parts._ssl, *made)
        parts._into_ssl, parts._from_ssl = made
        self._seal.use(*map(_addressOf, made))

    def readInto(self, seal: Any, decoder: hot.Decoder, proceed: Callable[[], None]) -> None:
        """
        Put input into a decoder, instead of returning it from L{recv}. C{proceed} is called for it.
        """
        self._reading = seal, decoder, proceed

    def forget(self) -> None:
        self._reading = None

    def recv(self, bufsiz: int, flags: int | None = None) -> bytes:
        """
        Return decrypted input. Where a decoder takes the input, this always raises that no more has
        come.
        """
        if self._reading is None:
            return super().recv(bufsiz, flags)
        seal, decoder, proceed = self._reading
        raise seal.read(decoder, self._readOne, proceed)

    def _readOne(self) -> bytes:
        return super().recv(_RECORD)


@dataclass(eq=False, slots=True)
class Records:
    """
    Encrypts the output of a connection and hands it on as a whole; Twisted would take 16 KiB at a
    time.

    @ivar layer: Twisted's protocol between the connection, whose handshake is complete, and the
        transport.
    """

    connection: SSL.Connection
    layer: Any
    seal: Any = None
    _isOver: bool = field(default=False, init=False)

    def send(self, data: bytes) -> None:
        if not self._isOver:
            data = self.write(data)
            self._isOver = bool(data)
        if data:
            self.layer.write(data)

    def write(self, data: bytes) -> bytes:
        """
        Send data, and return the rest that was not sent because the connection closes, fails or
        waits. The layer must take that rest.
        """
        connection, layer = self.connection, self.layer
        if layer.disconnecting:
            return data
        rest = memoryview(data)
        if self.seal is not None:
            done, encrypted, isMore = self.seal.write(data)
            if encrypted:
                layer.transport.write(encrypted)
            if done == len(data) and not isMore:
                return b""
            rest = rest[done:]
        try:
            while rest:
                rest = rest[connection.send(rest) :]
        except SSL.Error:
            pass  # The layer sends the rest itself, and handles the error.
        size = len(data) + _OVERHEAD * (len(data) // _RECORD + 2)
        try:
            while len(encrypted := connection.bio_read(size)) == size:
                layer.transport.write(encrypted)
            layer.transport.write(encrypted)
        except SSL.WantReadError:
            pass  # The BIO contained a multiple of the size.
        return bytes(rest)
