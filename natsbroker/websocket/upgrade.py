"""
The HTTP request with which a WebSocket begins, and the answer to it, on the accepting side; without
a transport.

A request is refused as nats-server refuses it, and the connection may try again until its time for
the handshake is over. h11 reads requests, and bounds their headers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from types import MappingProxyType
from urllib.parse import urlsplit

import h11

from natsbroker.websocket.deflate import NAME, OFFER
from natsbroker.websocket.origins import OriginCheck

#: The most bytes of headers of a request, and the most headers.
_LARGEST = 1 << 16
_MOST = 1000

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

NO_MASKING = "Nats-No-Masking"

#: The end of the path of leafnodes, and of MQTT.
LEAFNODE_PATH = "/leafnode"
_MQTT_PATH = "/mqtt"

#: Like nats-server's, and sent to clients of MQTT that did not ask for it too.
_MQTT_PROTOCOL = "Sec-Websocket-Protocol: mqtt"


def acceptKey(key: bytes) -> str:
    return base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode("ascii")


@dataclass(frozen=True)
class HandshakeTerms:
    """
    @ivar headers: go into each accepting answer.
    @ivar cookies: give the members of CONNECT.
    @ivar hasMQTT: whether clients of MQTT are expected.
    """

    origins: OriginCheck = field(default_factory=OriginCheck)
    compression: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    hasMQTT: bool = False


@dataclass(frozen=True)
class Upgrade:
    """
    The agreement of the two sides.

    @ivar credentials: members of CONNECT that came as cookies.
    @ivar forwardedFor: the address that a proxy says the client has; empty for none.
    @ivar isBrowser: whether the client says that it is one.
    @ivar isSafari: whether it does not understand compressed messages in several frames.
    """

    isLeafnode: bool = False
    isCompressed: bool = False
    isMasked: bool = True
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    forwardedFor: str = ""
    isBrowser: bool = False
    isSafari: bool = False
    isMQTT: bool = False


class HandshakeRefused(Exception):
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ServerHandshake:
    """
    @ivar upgrade: C{None} until a request was accepted.
    @ivar rest: the input behind the request.
    @ivar isOver: whether the connection ends when the answer is sent.
    """

    def __init__(
        self,
        terms: HandshakeTerms,
        isTLS: bool,
        date: Callable[[], str],
        report: Callable[[str], None],
    ) -> None:
        self.upgrade: Upgrade | None = None
        self.rest = b""
        self.isOver = False
        self._terms = terms
        self._isTLS = isTLS
        self._date = date
        self._report = report
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST)
        self._request: h11.Request | None = None

    def received(self, data: bytes) -> bytes:
        """Take input, and return the bytes to send, perhaps none."""
        answer = b""
        try:
            self._http.receive_data(data)
            while self.upgrade is None and not self.isOver:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._request = event
                    _check(event)
                    if _hasBody(event) and event.method == b"GET":
                        answer += self._answered()
                elif isinstance(event, h11.EndOfMessage):
                    answer += self._answered()
                elif event is h11.NEED_DATA or event is h11.PAUSED:
                    break
                elif isinstance(event, h11.ConnectionClosed):
                    self.isOver = True
        except h11.RemoteProtocolError as error:
            line = _unreadable(HTTPStatus(error.error_status_hint), str(error))
            # Not the exception's text: it repeats the line, perhaps one with a password.
            self._report(f"websocket handshake error: {line}")
            self.isOver = True
            answer += (
                f"HTTP/1.1 {line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Connection: close\r\n\r\n{line}"
            ).encode("ascii")
        return answer

    def _answered(self) -> bytes:
        request = self._request
        if request is None:
            raise RuntimeError("the end of a request without its beginning")
        try:
            headers = _Headers(request)
            upgrade, answer = self._accepted(request, headers)
        except HandshakeRefused as refusal:
            self._report(f"websocket handshake error: {refusal}")
            return self._refused(refusal.status)
        rest, _ = self._http.trailing_data
        if rest:
            self._report("websocket handshake error: client sent data before handshake is complete")
            self.isOver = True
            return b""
        self.upgrade = upgrade
        return answer

    def _accepted(self, request: h11.Request, headers: _Headers) -> tuple[Upgrade, bytes]:
        path = urlsplit(request.target.decode("latin-1")).path
        if path.endswith(_MQTT_PATH) and not self._terms.hasMQTT:
            raise HandshakeRefused(HTTPStatus.NOT_FOUND, "mqtt websocket endpoint not enabled")
        if request.method != b"GET":
            raise HandshakeRefused(HTTPStatus.METHOD_NOT_ALLOWED, "request method must be GET")
        if _hasBody(request):
            # The two sides of a proxy could disagree where the frames begin.
            raise HandshakeRefused(HTTPStatus.BAD_REQUEST, "request with a body")
        if not headers.first("host"):
            raise HandshakeRefused(HTTPStatus.BAD_REQUEST, "'Host' missing in request")
        for name, token in (("Upgrade", "websocket"), ("Connection", "upgrade")):
            if token not in headers.tokens(name):
                raise HandshakeRefused(HTTPStatus.BAD_REQUEST, f"invalid value for header '{name}'")
        key = headers.first("sec-websocket-key")
        if not key:
            raise HandshakeRefused(HTTPStatus.BAD_REQUEST, "key missing")
        if not _isKey(key):
            raise HandshakeRefused(HTTPStatus.BAD_REQUEST, "invalid websocket key")
        if "13" not in headers.tokens("sec-websocket-version"):
            raise HandshakeRefused(HTTPStatus.BAD_REQUEST, "invalid version")
        origin = headers.first("origin") or headers.first("sec-websocket-origin")
        problem = self._terms.origins.problem(origin, headers.first("host"), self._isTLS)
        if problem:
            raise HandshakeRefused(HTTPStatus.FORBIDDEN, f"origin not allowed: {problem}")
        upgrade = self._upgradeFor(path, headers)
        return upgrade, self._agreement(acceptKey(key.encode("latin-1")), upgrade)

    def _upgradeFor(self, path: str, headers: _Headers) -> Upgrade:
        isLeafnode = path.endswith(LEAFNODE_PATH)
        isCompressed = self._terms.compression and offersDeflate(headers.all(_EXTENSIONS))[0]
        isMasked = headers.first(NO_MASKING.lower()) != "true"
        forwarded = headers.first("x-forwarded-for")
        forwarded = forwarded if _isAddress(forwarded) else ""
        if isLeafnode:
            return Upgrade(True, isCompressed, isMasked, forwardedFor=forwarded)
        agent = headers.first("user-agent")
        isBrowser = agent.startswith("Mozilla/")
        isMQTT = path.endswith(_MQTT_PATH)
        return Upgrade(
            False,
            isCompressed,
            isMasked,
            # As in nats-server, cookies are no login of clients of MQTT.
            {} if isMQTT else self._credentials(headers),
            forwarded,
            isBrowser,
            isBrowser and "Version/" in agent and "Safari/" in agent,
            isMQTT,
        )

    def _credentials(self, headers: _Headers) -> Mapping[str, str]:
        known = self._terms.cookies
        cookies = {known[name]: value for name, value in headers.cookies() if name in known}
        return MappingProxyType(cookies)

    def _agreement(self, accept: str, upgrade: Upgrade) -> bytes:
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accept}",
        ]
        if upgrade.isCompressed:
            lines.append(f"Sec-WebSocket-Extensions: {OFFER}")
        if not upgrade.isMasked:
            lines.append(f"{NO_MASKING}: true")
        if upgrade.isMQTT:
            lines.append(_MQTT_PROTOCOL)
        lines += [f"{name}: {value}" for name, value in self._terms.headers.items()]
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("utf-8", "surrogateescape")

    def _refused(self, status: HTTPStatus) -> bytes:
        body = f"{status.phrase}\n".encode("ascii")
        http = self._http
        response = h11.Response(
            status_code=status,
            reason=status.phrase.encode("ascii"),
            headers=[
                ("Content-Type", "text/plain; charset=utf-8"),
                ("Sec-Websocket-Version", "13"),
                ("X-Content-Type-Options", "nosniff"),
                ("Date", self._date()),
                ("Content-Length", str(len(body))),
            ],
        )
        request = self._request
        isBodyless = request is not None and request.method == b"HEAD"
        parts = [http.send(response)]
        if not isBodyless:
            parts.append(http.send(h11.Data(data=body)))
        parts.append(http.send(h11.EndOfMessage()))
        self._request = None
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
        else:
            self.isOver = True
        return b"".join(part for part in parts if part)


def _hasBody(request: h11.Request) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
        for name, value in request.headers
    )


def _check(request: h11.Request) -> None:
    """Raise C{h11.RemoteProtocolError} for lines that h11 accepts and Go's library does not."""
    if not request.http_version.startswith(b"1."):
        raise h11.RemoteProtocolError(_VERSION, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    if request.method != b"OPTIONS" and not urlsplit(request.target).path.startswith(b"/"):
        raise h11.RemoteProtocolError("a path that does not begin with a slash")
    if len(request.headers) > _MOST:
        raise h11.RemoteProtocolError("too many", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    if any(_CONTROL.search(value) for _, value in request.headers):
        raise h11.RemoteProtocolError("control bytes in a header")


_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

_VERSION = "unsupported protocol version"

#: The text that Go's library adds to the status, by the error.
_DETAILS = {_VERSION: _VERSION, "Missing mandatory Host: header": "missing required Host header"}


def _unreadable(status: HTTPStatus, problem: str) -> str:
    """The status line for malformed requests, in the words of Go's library."""
    detail = _DETAILS.get(problem)
    return f"{int(status)} {status.phrase}" + (f": {detail}" if detail else "")


_EXTENSIONS = "sec-websocket-extensions"


class _Headers:
    def __init__(self, request: h11.Request) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in request.headers:
            values = self._values.setdefault(name.decode("latin-1"), [])
            values.append(value.decode("utf-8", "surrogateescape"))

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def first(self, name: str) -> str:
        return self.all(name)[0] if name in self._values else ""

    def tokens(self, name: str) -> set[str]:
        parts = (part for value in self.all(name.lower()) for part in value.split(","))
        return {part.strip(" \t").lower() for part in parts}

    def cookies(self) -> list[tuple[str, str]]:
        cookies = []
        for line in self.all("cookie"):
            for part in line.split(";"):
                name, equals, value = part.strip(" \t").partition("=")
                if equals:
                    cookies.append((name, value.strip('"') if value.startswith('"') else value))
        return cookies


def offersDeflate(values: list[str]) -> tuple[bool, bool]:
    """
    Whether C{Sec-WebSocket-Extensions} offers compression, and offers it without context takeover.
    """
    for extension in (part for value in values for part in value.split(",")):
        name, *parameters = (part.strip(" \t").lower() for part in extension.split(";"))
        if name == NAME:
            return True, set(OFFER.split("; ")[1:]) <= set(parameters)
    return False, False


def _isKey(key: str) -> bool:
    try:
        return len(base64.b64decode(key.encode("latin-1"), validate=True)) == 16
    except (binascii.Error, UnicodeEncodeError):
        return False


def _isAddress(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
