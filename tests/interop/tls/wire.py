"""
A client of NATS over TLS in every unusual way, on OpenSSL.
"""

from __future__ import annotations

import json
import socket
import ssl
import warnings
from pathlib import Path
from typing import Any

from tests.interop.servers import PATIENCE

__all__ = ["CONNECT", "Wire", "contextFor", "isAccepted", "shakeHands"]

CONNECT = b'CONNECT {"verbose":false,"pedantic":false%b}\r\n'

#: Everything that this OpenSSL can do at all.
ANYTHING = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"


def contextFor(
    directory: Path | None = None,
    certificate: str = "",
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion] | None = None,
    ciphers: str = "",
) -> ssl.SSLContext:
    """
    A client's context of TLS.

    @param directory: the folder of C{ca.pem} and the certificate; without it nothing is verified.
    @param certificate: the certificate for the server: C{NAME.pem} and C{NAME-key.pem}.
    @param versions: the lowest and the highest version.
    @param ciphers: OpenSSL's names of the suites that are offered up to TLS 1.2.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if directory is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(str(directory / "ca.pem"))
    if certificate and directory is not None:
        files = (directory / f"{certificate}.pem", directory / f"{certificate}-key.pem")
        context.load_cert_chain(*map(str, files))
    if ciphers:
        context.set_ciphers(ciphers)
    if versions is not None:
        with warnings.catch_warnings():
            # The old versions are there to be refused.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version, context.maximum_version = versions
    return context


class Wire:
    """One connection, in clear text until L{secure}."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        """
        @param context: do the handshake at once.
        """
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._rest = b""
        if context is not None:
            self.secure(context)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def secure(self, context: ssl.SSLContext, name: str = "localhost") -> Wire:
        """
        Do the handshake.

        @raise OSError: if that fails.
        """
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=name)
        except OSError:
            self.socket.close()
            raise
        return self

    def send(self, data: bytes) -> None:
        """Send bytes. A connection that the server has closed is detected by reading."""
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def line(self) -> bytes:
        """
        @return: the next line; empty at the end.
        """
        while b"\n" not in self._rest:
            try:
                data = self.socket.recv(65536)
            except (ConnectionError, ssl.SSLError):
                data = b""
            if not data:
                rest, self._rest = self._rest, b""
                return rest
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    def info(self) -> dict[str, Any]:
        """
        @return: the next line, which must be an INFO.
        """
        line = self.line()
        assert line.startswith(b"INFO "), line
        fields: dict[str, Any] = json.loads(line[5:])
        return fields

    def ask(self, data: bytes = b"") -> bytes:
        """
        Send bytes and a PING.

        @return: the output up to the PONG or the end of the connection, without the server's PINGs.
            The server sends the first PING two seconds after the connection began.
        """
        self.send(data + b"PING\r\n")
        answer = b""
        while line := self.line():
            if line != b"PING\r\n":
                answer += line
            if line == b"PONG\r\n":
                break
        return answer

    def rest(self) -> bytes:
        """
        @return: all output up to the end.
        """
        data = b""
        while line := self.line():
            data += line
        return data

    def silence(self, seconds: float) -> bytes:
        """
        @return: the output within some time.
        """
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(65536)
        except TimeoutError:
            return b""
        finally:
            self.socket.settimeout(PATIENCE)


def shakeHands(port: int, context: ssl.SSLContext) -> Wire:
    """
    Connect, read INFO in clear text, and do the handshake.

    @raise OSError: if that fails.
    """
    wire = Wire(port)
    wire.info()
    return wire.secure(context)


def isAccepted(port: int, context: ssl.SSLContext, first: bool = False) -> bool:
    """
    Whether a client gets a PONG.

    @param first: whether it does the handshake before INFO.
    """
    try:
        with Wire(port, context) if first else shakeHands(port, context) as wire:
            return wire.ask(CONNECT % b"").endswith(b"PONG\r\n")
    except OSError:
        return False
