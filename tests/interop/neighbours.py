"""Clients of several accounts of one server, and the messages that they receive."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.frames import splitFrames
from tests.interop.servers import CROSSING, PATIENCE, Server

__all__ = [
    "Client",
    "Scenario",
    "Step",
    "answer",
    "ask",
    "hpub",
    "partsOf",
    "plain",
    "play",
    "pub",
    "scenario",
    "sub",
]

_REPLY = re.compile(rb"_R_\.[0-9A-Za-z]{6}\.[0-9A-Za-z]{6}(\.[0-9A-Za-z_-]+)?(\.T)?")
_INFO = re.compile(rb"Nats-Request-Info: ([^\r\n]*)\r\n")
_BY_CHANCE = frozenset({"start", "id", "rtt", "server", "timestamp", "service", "system", "total"})

#: The service's event, told by its type.
_EVENT = b'{"type":"io.nats.server.metric'

LAST_REPLY = b"{reply}"


def pub(subject: bytes, body: bytes = b"x", reply: bytes = b"") -> bytes:
    """
    @return: a PUB.
    """
    return b"PUB %b %b%d\r\n%b\r\n" % (subject, reply + b" " if reply else b"", len(body), body)


def hpub(subject: bytes, headers: bytes, body: bytes = b"x", reply: bytes = b"") -> bytes:
    """
    @return: an HPUB.
    """
    block = b"NATS/1.0\r\n" + headers + b"\r\n"
    sizes = b"%d %d" % (len(block), len(block) + len(body))
    place = reply + b" " if reply else b""
    return b"HPUB %b %b%b\r\n%b%b\r\n" % (subject, place, sizes, block, body)


def sub(*patterns: bytes) -> bytes:
    """
    @param patterns: a queue group follows its pattern and a space.
    @return: a SUB for each, with sids from 1 on.
    """
    return b"".join(b"SUB %b %d\r\n" % (pattern, sid) for sid, pattern in enumerate(patterns, 1))


def ask(subject: bytes, reply: bytes = b"inbox.1", *, headers: bytes = b"") -> bytes:
    """
    @return: a request.
    """
    return hpub(subject, headers, b"?", reply) if headers else pub(subject, b"?", reply)


def answer(body: bytes, reply: bytes = b"") -> bytes:
    """
    @return: a PUB to the reply subject of the last request.
    """
    return pub(LAST_REPLY, body, reply)


@dataclass(frozen=True)
class Step:
    """
    One action of a client.

    @ivar who: its user, and a number for each further connection: C{a}, C{a/2}.
    @ivar data: the bytes that it sends; C{{reply}} stands for the reply subject of the last request
        that it received.
    @ivar awaits: the clients that receive something later, and the numbers of frames.
    @ivar quiet: the seconds in which nothing happens afterwards.
    @ivar ends: whether the client closes the connection.
    """

    who: str
    data: bytes = b""
    awaits: tuple[str, int] | None = None
    quiet: float = 0.0
    ends: bool = False


@dataclass(frozen=True)
class Scenario:
    """
    A scenario of some clients.

    @ivar name: the id of the test.
    @ivar steps: the steps in order.
    @ivar options: the CONNECT options of clients that differ from the default.
    @ivar anyMember: whether the member of a queue group that gets a message is random.
    """

    name: str
    steps: Sequence[Step]
    options: Mapping[str, Mapping[str, Any]] | None = None
    anyMember: bool = False


def scenario(
    name: str,
    *steps: Step | tuple[str, bytes],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    anyMember: bool = False,
) -> Scenario:
    """
    @param steps: the steps. Those with only a client and its bytes may be pairs.
    """
    done = [Step(*step) if isinstance(step, tuple) else step for step in steps]
    return Scenario(name, done, options, anyMember)


class Client:
    """
    One connection.

    @ivar reply: the reply subject of the last request that it received.
    """

    def __init__(self, server: Server, user: str, options: Mapping[str, Any]) -> None:
        self.reply = b""
        self._socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._later: list[bytes] = []
        hello = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "name": f"name-{user}",
            "lang": "python",
            "version": "1",
            "user": user.partition("/")[0],
            "pass": "x",
            **options,
        }
        self.send(b"CONNECT %b\r\n" % json.dumps(hello).encode())
        self.settle()

    def send(self, data: bytes) -> None:
        """Send bytes. A connection that the server has closed is detected by reading."""
        try:
            self._socket.sendall(data.replace(LAST_REPLY, self.reply))
        except ConnectionError:
            pass

    def settle(self) -> list[bytes]:
        """
        @return: every frame that the server sends until it has handled all input.
        """
        time.sleep(CROSSING)
        self.send(b"PING\r\n")
        frames, self._later = self._later, []
        while b"PONG\r\n" not in frames and b"[EOF]" not in frames:
            frames += self._read()
        if b"PONG\r\n" in frames:
            place = frames.index(b"PONG\r\n")
            frames, self._later = frames[:place], frames[place + 1 :]
        return self._seen(frames)

    def take(self, count: int) -> list[bytes]:
        """
        @return: at least that many frames.
        """
        later, self._later = self._later, []
        frames = self._seen(later)
        while len(frames) < count:
            frames += self._seen(self._read())
        return frames

    def takeWithin(self, seconds: float) -> list[bytes]:
        """
        @return: the frames that arrive within some time.
        """
        later, self._later = self._later, []
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                later += self._read()
            except TimeoutError:
                break
        self._socket.settimeout(PATIENCE)
        return self._seen(later)

    def close(self) -> None:
        """
        Close.
        """
        self._socket.close()

    def _read(self) -> list[bytes]:
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            return [b"[EOF]"]
        frames, self._rest = splitFrames(self._rest + data)
        return frames

    def _seen(self, frames: list[bytes]) -> list[bytes]:
        seen = []
        for frame in frames:
            self.reply = partsOf(frame)[3] or self.reply
            if frame != b"PING\r\n" and not frame.startswith(b"INFO "):
                seen.append(frame)
        return seen


def play(server: Server, scenario: Scenario) -> list[dict[str, list[bytes]]]:
    """
    @return: for each step the frames that each client received, sorted.
    """
    clients: dict[str, Client] = {}
    options = scenario.options or {}
    try:
        for step in scenario.steps:
            if step.who not in clients:
                clients[step.who] = Client(server, step.who, options.get(step.who, {}))
        return [_done(clients, step, scenario.anyMember) for step in scenario.steps]
    finally:
        for client in clients.values():
            client.close()


def _done(clients: dict[str, Client], step: Step, anyMember: bool) -> dict[str, list[bytes]]:
    actor = clients[step.who]
    if step.ends:
        actor.close()
        del clients[step.who]
    else:
        actor.send(step.data)
    seen = {} if step.ends else {step.who: actor.settle()}
    if step.quiet:
        seen[step.who] += actor.takeWithin(step.quiet)
    for who, client in clients.items():
        if who != step.who:
            seen[who] = client.settle()
    if step.awaits is not None:
        who, count = step.awaits
        seen[who] += clients[who].take(count - len(seen[who]))
    return {
        who: sorted(plain(frame, anyMember) for frame in frames)
        for who, frames in sorted(seen.items())
        if frames
    }


def partsOf(frame: bytes) -> tuple[bytes, bytes, bytes, bytes, int]:
    """
    @return: operation, subject, sid, reply subject and length of the headers of a message; nothing
        for any other frame.
    """
    words = frame.partition(b"\r\n")[0].split()
    if words[0] not in (b"MSG", b"HMSG"):
        return b"", b"", b"", b"", 0
    sizes = 2 if words[0] == b"HMSG" else 1
    reply = words[3] if len(words) == 4 + sizes else b""
    return words[0], words[1], words[2], reply, int(words[-2]) if sizes == 2 else 0


def plain(frame: bytes, anyMember: bool) -> bytes:
    """
    @return: a frame without random values and times.
    """
    kind, subject, sid, reply, header = partsOf(frame)
    if not kind:
        return _REPLY.sub(b"_R_.*", frame)
    line, _, body = frame[:-2].partition(b"\r\n")
    assert len(body) == int(line.split()[-1]), frame
    told = _INFO.search(body[:header])
    if told is not None:
        calm = _calmed(told[1])
        body = body.replace(told[1], calm, 1)
        header += len(calm) - len(told[1])
    if body.startswith(_EVENT):
        body = _calmed(body)
    shown = b"*" if anyMember else sid
    subject, reply = _REPLY.sub(b"_R_.*", subject), _REPLY.sub(b"_R_.*", reply)
    return b"%b %b %b %b %d %d\r\n%b" % (kind, subject, shown, reply, header, len(body), body)


def _calmed(text: bytes) -> bytes:
    """
    @return: JSON in its order, with a star for every random value and time.
    """

    def calm(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: "*" if name in _BY_CHANCE else value for name, value in pairs}

    return json.dumps(json.loads(text, object_pairs_hook=calm)).encode()
