"""
Connections that the parent accepts and passes to workers.

If the account of a client can be read from a CONNECT in clear text, the parent sends INFO and reads
that line, and the worker continues from there. Other connections are passed to a worker at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random
from socket import socket
from typing import Any, Protocol

from twisted.internet import protocol
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IAddress, IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.clients.info import ServerInfo
from natsbroker.clients.session import newNonce
from natsbroker.config.model import Settings
from natsbroker.connections.peer import placeOf
from natsbroker.wire.connect import parseConnect
from natsbroker.workers.accounts import AccountFinder
from natsbroker.workers.channel import GATHER
from natsbroker.workers.messages import (
    CLIENTS,
    Adopt,
)
from natsbroker.workers.placing import WorkerLoad, chosen

OF_SERVERS = frozenset({"gateway", "leafnodes"})
"""The listeners, by configuration key, at which other servers connect."""

_VERB = b"connect"

_CHUNK = 4096


class Place(Protocol):
    """
    A worker, as a place for connections.

    @ivar info: the INFO of the worker for clients; C{None} while there is no worker.
    @ivar connections: the connections of clients.
    @ivar links: the connections of other servers, which do not count towards limits of clients.
    """

    info: ServerInfo | None
    connections: WorkerLoad
    links: WorkerLoad

    @property
    def isReady(self) -> bool: ...

    @property
    def isHung(self) -> bool: ...

    def sendAll(self, messages: Sequence[tuple[object, Sequence[socket]]]) -> None: ...


class FirstLine:
    """
    The first line of a client, as far as it has been received.

    @ivar read: all input.
    @ivar account: the account of the client; empty if it is unknown.
    """

    def __init__(self, finder: AccountFinder, limit: int) -> None:
        """
        @param limit: the maximum length of the line, in bytes: the worker refuses a longer one.
        """
        self.read = b""
        self.account = ""
        self._finder = finder
        self._limit = limit

    def received(self, data: bytes) -> bool:
        """Add input, and return whether the line is complete, or can name no account."""
        self.read += data
        verb = self.read[: len(_VERB)].lower()
        if not _VERB.startswith(verb):
            # A guest sends another operation than CONNECT.
            self.account = self._finder.accountOf({})
            return True
        line, end, _ = self.read.partition(b"\n")
        if not end:
            return len(line) > self._limit
        try:
            self.account = self._finder.accountOf(parseConnect(line[len(_VERB) :].strip()))
        except ValueError:
            self.account = ""
        return True


@implementer(IReadDescriptor)
class _Caller:
    """A client that was sent INFO, and whose CONNECT has not been received."""

    def __init__(
        self,
        acceptor: Acceptor,
        accepted: socket,
        cid: int,
        peer: tuple[str, int],
        nonce: str,
        now: float,
    ) -> None:
        self.accepted = accepted
        self.cid = cid
        self.peer = peer
        self.nonce = nonce
        self.since = now
        self.timer: Any = None
        self.line = acceptor.firstLine()
        self._acceptor = acceptor

    def doRead(self) -> None:
        try:
            data = self.accepted.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._acceptor.left(self)
        elif self.line.received(data):
            self._acceptor.heard(self)

    def fileno(self) -> int:
        return self.accepted.fileno()

    def logPrefix(self) -> str:
        return "acceptor"

    def connectionLost(self, reason: Failure) -> None:
        self._acceptor.left(self)


class Acceptor(protocol.Factory):
    """
    The factory of listening ports, which passes their connections to workers. While no worker is
    ready, connections wait to be accepted.
    """

    noisy = False

    def __init__(
        self,
        reactor: Any,
        places: Sequence[Place],
        settings: Settings,
        random: Random | None = None,
        nonceBytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """
        @param places: the workers.
        """
        self._reactor = reactor
        self._places = places
        self._random = random or Random()
        self._nonceBytes = nonceBytes
        self._ports: list[Any] = []
        # The numbers in between are for connections that workers accept themselves.
        stride = len(places) + 1
        self._numbers = count(stride, stride)
        self._callers: set[_Caller] = set()
        self._held: dict[socket, Any] = {}
        self._passed: dict[Place, list[tuple[Adopt, list[socket]]]] | None = None
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Use other settings for later connections."""
        self._settings = settings
        self._finder = AccountFinder(settings)

    def attend(self, port: Any, listener: str = CLIENTS) -> None:
        """
        Pass on the connections of a listening port while a worker is ready.

        @param listener: the configuration key of the listener.
        """
        self._ports.append(port)
        port.transport = partial(self._accepted, listener)
        port.doRead = partial(self._accept, port.doRead)
        port.stopReading()

    def changed(self) -> None:
        """
        Read from the ports only while a worker is ready; called when one becomes ready or ends.
        """
        isReady = bool(self._ready(self._places))
        for port in self._ports:
            if port.disconnected:
                continue
            if isReady:
                port.startReading()
            else:
                port.stopReading()

    def close(self) -> None:
        """Close the connections that were not passed to a worker yet."""
        for caller in list(self._callers):
            self.left(caller)
        for accepted, call in self._held.items():
            call.cancel()
            accepted.close()
        self._held.clear()

    def buildProtocol(self, addr: IAddress | None) -> protocol.Protocol:
        return protocol.Protocol()

    def firstLine(self) -> FirstLine:
        return FirstLine(self._finder, self._settings.max_control_line)

    def _ready(self, places: Sequence[Place]) -> list[Place]:
        """The workers that take connections: while some hang, the others do."""
        ready = [place for place in places if place.isReady]
        return [place for place in ready if not place.isHung] or ready

    def _accept(self, accept: Callable[[], Any]) -> Any:
        """Accept all connections that wait, and then hand them on together."""
        self._passed = {}
        try:
            return accept()
        finally:
            passed, self._passed = self._passed, None
            for place, messages in passed.items():
                place.sendAll(messages)

    def _send(self, place: Place, accepted: socket, message: Adopt) -> None:
        if self._passed is None:
            place.sendAll([(message, [accepted])])
        else:
            self._passed.setdefault(place, []).append((message, [accepted]))

    def _accepted(
        self,
        listener: str,
        accepted: socket,
        unused: Any,
        client: Any,
        port: Any,
        number: int,
        reactor: Any,
    ) -> None:
        self.welcome(accepted, (client[0], client[1]), listener)

    def welcome(self, accepted: socket, peer: tuple[str, int], listener: str = CLIENTS) -> None:
        """Accept a connection, and pass it on now or after its CONNECT."""
        take = partial(self._take, accepted, peer, listener)
        if listener in OF_SERVERS or not self._isFull():
            take()
        else:
            # Workers report the ends of connections with a delay of up to GATHER.
            self._held[accepted] = self._reactor.callLater(
                2 * GATHER, self._release, accepted, take
            )

    def _release(self, accepted: socket, take: Callable[[], None]) -> None:
        del self._held[accepted]
        take()

    def _take(self, accepted: socket, peer: tuple[str, int], listener: str) -> None:
        cid = next(self._numbers)
        if listener in OF_SERVERS:
            self._passLink(accepted, Adopt(cid, peer, listener=listener))
            return
        isFull = self._isFull()
        if listener != CLIENTS or not self._finder.isNeeded or isFull:
            self._pass(accepted, Adopt(cid, peer, listener=listener, isExcess=isFull))
            return
        info = next(
            (place.info for place in self._ready(self._places) if place.info is not None), None
        )
        host, _ = placeOf(IPv4Address("TCP", *peer))
        nonce = newNonce(self._nonceBytes) if self._finder.hasNonce else ""
        caller = _Caller(self, accepted, cid, peer, nonce, self._reactor.seconds())
        try:
            accepted.setblocking(False)
            if info is None or not _isSent(accepted, info.line(cid, host, nonce=nonce)):
                accepted.close()
                return
        except OSError:
            accepted.close()
            return
        self._callers.add(caller)
        timeout = self._settings.authorization.timeout
        caller.timer = self._reactor.callLater(timeout, self.heard, caller)
        self._reactor.addReader(caller)

    def _isFull(self) -> bool:
        maximum = self._settings.max_connections
        total = len(self._callers)
        for place in self._places:
            total += len(place.connections)
        return 0 < maximum <= total

    def heard(self, caller: _Caller) -> None:
        """Pass on a client that has sent CONNECT, or whose time for it is over."""
        if self._forget(caller):
            waited = self._reactor.seconds() - caller.since
            line = caller.line
            message = Adopt(
                caller.cid, caller.peer, line.read, caller.nonce, isGreeted=True, waited=waited
            )
            self._pass(caller.accepted, message, line.account)

    def left(self, caller: _Caller) -> None:
        if self._forget(caller):
            caller.accepted.close()

    def _forget(self, caller: _Caller) -> bool:
        if caller not in self._callers:
            return False
        self._callers.discard(caller)
        self._reactor.removeReader(caller)
        if caller.timer.active():
            caller.timer.cancel()
        return True

    def _pass(self, accepted: socket, message: Adopt, account: str = "") -> None:
        places = self._places[:1] if self._finder.isForFirst(account) else self._places
        ready = self._ready(places)
        if not ready:
            accepted.close()
            return
        loads = [place.connections for place in ready]
        place = ready[chosen(account, loads, self._random)]
        place.connections[message.cid] = account
        self._send(place, accepted, message)

    def _passLink(self, accepted: socket, message: Adopt) -> None:
        """Pass on the connection of another server, to the worker that has fewest."""
        ready = self._ready(self._places)
        if not ready:
            accepted.close()
            return
        place = min(ready, key=lambda place: (len(place.links), len(place.connections)))
        place.links[message.cid] = ""
        self._send(place, accepted, message)


def _isSent(accepted: socket, line: bytes) -> bool:
    """Whether the whole line was sent. The buffer of a new socket has room for it."""
    return accepted.send(line) == len(line)
