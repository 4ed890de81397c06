"""
A broker in memory with its monitoring pages: clients on one side, HTTP on the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from twisted.internet.address import IPv4Address

from natsbroker.clients.state import BrokerState
from natsbroker.config.model import Monitoring, Settings
from natsbroker.jetstream.pages import showJetStream
from natsbroker.monitoring.answers import Answer
from natsbroker.monitoring.resource import monitorSite
from natsbroker.runtime.process import ProcessUsage
from natsbroker.server.kinds import KINDS
from natsbroker.system.pages import ServerPages
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.support import Doorkeeper, Wire, World

#: The moment at which every stage begins: 2026-11-20T16:00:00Z.
BEGIN = 1_795_190_400.0


@dataclass(frozen=True)
class Response:
    """
    An HTTP response.

    @ivar headers: by their names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Stage:
    """
    @ivar world: clients.
    @ivar model: the pages.
    @ivar site: the pages over HTTP.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        limits: Settings | None = None,
        required: bool = False,
    ) -> None:
        self.world = World(limits, Doorkeeper(grantFor, required))
        self.world.clock.rightNow = BEGIN
        self.settings = settings or Settings()
        self.process = ProcessUsage(self.world.clock.seconds, lambda: 0.5, lambda: 4096, lambda: 2)
        accounts = [self.world.accounts[name] for name in ("$G", "$SYS", "A", "B")]
        context = self.world.context
        state = BrokerState(context, accounts, self.settings, BEGIN, BEGIN, self.process)
        self.figures: Any = None
        self.model = ServerPages(state, kinds=KINDS)
        showJetStream(self.model, lambda: self.figures)
        self.site = monitorSite(self.model)

    def client(self, user: str = "", **options: Any) -> Wire:
        """
        Let a client in.

        @param user: C{NAME@ACCOUNT}, or a name in the global account.
        @param options: what else CONNECT says.
        """
        said = {"verbose": False, "user": user, **options}
        return self.world.client(b"CONNECT " + json.dumps(said).encode() + b"\r\n")

    def page(self, path: str, **query: str) -> Any:
        """
        The JSON of a page, without HTTP.
        """
        answer = self.answer(path, **query)
        assert answer.status == 200, b"".join(answer.body)
        return json.loads(b"".join(answer.body))

    def answer(self, path: str, **query: str) -> Answer:
        """The answer of the model."""
        answer = self.model.answer(path, query)
        assert answer is not None
        return answer

    def refusal(self, path: str, **query: str) -> str:
        """
        The text of a refusal.
        """
        answer = self.answer(path, **query)
        assert answer.status == 400
        return b"".join(answer.body).decode()

    def dial(self) -> MemoryTransport:
        """
        Connect to the monitoring port.
        """
        peer = IPv4Address("TCP", "127.0.0.1", 50001)
        protocol = self.site.buildProtocol(peer)
        assert protocol is not None
        transport = MemoryTransport(self.world.clock, protocol, peer)
        transport.connect()
        return transport

    def get(self, path: str, method: str = "GET", **headers: str) -> Response:
        """Request a page over HTTP, and wait for the answer."""
        transport = self.dial()
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in {"Host": "localhost", **headers}.items()]
        transport.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.world.settle()
        return parsed(transport.take())


def grantFor(hello: ConnectRequest) -> Grant:
    """
    C{NAME@ACCOUNT} gets into the account, C{NAME} into the global one.
    """
    user = hello.text("user")
    return Grant(user.partition("@")[2] or "$G", user)


def parsed(data: bytes) -> Response:
    """
    Read a response that is there as a whole.
    """
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Response(int(status.split()[1]), headers, body)


def monitoring(**changes: Any) -> Settings:
    """
    Settings with another C{Monitoring}.
    """
    return Settings(monitoring=replace(Monitoring(), **changes))
