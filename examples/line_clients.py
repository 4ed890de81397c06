"""
A connection kind whose peers log in: clients with a protocol of lines, as telnet speaks it.

A client sends ``CONNECT user password``, and may then ``SUB subject``, ``UNSUB subject`` and ``PUB
subject text``. It gets ``OK``, ``ERR reason`` and ``MSG subject text``. It is a client like those
that speak the protocol of NATS: its user's permissions and limits hold, and C{/connz} has it.

Run it with the port for clients of NATS and the port for lines, and end it with Ctrl-C::

    python examples/line_clients.py 4222 7000

Two more arguments, the files of a certificate and of its key, encrypt the lines.

The only user is C{device} with the password C{secret}, who may publish to C{state.>} and subscribe
to C{orders.>}. With any program that speaks TCP, and any NATS client without a login::

    nc 127.0.0.1 7000
    CONNECT device secret
    SUB orders.*
    PUB state.lamp open

    nats --server nats://127.0.0.1:4222 sub 'state.>'
    nats --server nats://127.0.0.1:4222 pub orders.lamp close

A broker with a configuration file takes the kind as a plugin: a module in C{twisted/plugins/} of an
installed package says C{lines = LineClients()}, and the file says
C{services { lines { port: 7000 } }}, perhaps with C{cert_file} and C{key_file}.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.plugin import IPlugin
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.clients.dialect import ClientDialect
from natsbroker.config.model import Settings
from natsbroker.config.tls import TLSSettings
from natsbroker.errors import ProtocolViolation, WireError
from natsbroker.interfaces import (
    IBrokerHost,
    IClientSession,
    IConnectionKind,
    ILinks,
    Message,
)
from natsbroker.links.listener import LinkPort
from natsbroker.links.service import ConnectionService
from natsbroker.runtime.pluginoptions import PluginOptions


class LineDialect(ClientDialect):
    """The protocol of one client."""

    session: IClientSession

    def __init__(self, session: IClientSession) -> None:
        super().__init__(session)
        self._input = b""
        self._operations: dict[bytes, Callable[[bytes], None]] = {
            b"CONNECT": self._connect,
            b"SUB": self._subscribe,
            b"UNSUB": self._unsubscribe,
            b"PUB": self._publish,
        }

    def feed(self, data: bytes) -> None:
        self._input += data

    def next(self) -> tuple[Callable[[bytes], None], bytes] | None:
        """The method for the next line with what stands behind its first word."""
        line, end, rest = self._input.partition(b"\n")
        if not end:
            return None
        self._input = rest
        word, _, argument = line.rstrip(b"\r").partition(b" ")
        if word not in self._operations:
            raise ValueError("no operation of this protocol")
        return self._operations[word], argument

    def handle(self, operation: tuple[Callable[[bytes], None], bytes]) -> None:
        call, argument = operation
        try:
            call(argument)
        except ProtocolViolation as violation:
            text = violation.error.filled(*violation.arguments)
            self.session.write(b"ERR %b\n" % text.encode("utf-8", "replace"))

    def _connect(self, argument: bytes) -> None:
        user, _, password = argument.decode("utf-8", "replace").partition(" ")
        self.session.login({"user": user, "pass": password, "lang": "lines"})

    def admitted(self) -> None:
        self.session.write(b"OK\n")

    def _subscribe(self, subject: bytes) -> None:
        self.session.subscribe(subject, tag=subject)
        self.session.write(b"OK\n")

    def _unsubscribe(self, subject: bytes) -> None:
        self.session.unsubscribe(subject)
        self.session.write(b"OK\n")

    def _publish(self, argument: bytes) -> None:
        subject, _, text = argument.partition(b" ")
        self.session.publish(subject, text)

    def encode(self, message: Message, tag: bytes) -> bytes:
        return b"MSG %b %b\n" % (message.shownSubject, message.payload.replace(b"\n", b" "))

    def subscriptionEnded(self, tag: bytes, isForbidden: bool) -> None:
        self.session.write(b"ERR %b is no longer allowed\n" % tag)

    def leaving(self) -> None:
        self.session.write(b"ERR the server stops soon\n")

    def farewell(self, error: WireError) -> bytes:
        return b"ERR %b\n" % error.reason.encode()


class LineService(ConnectionService):
    """The listener of one broker."""

    section = "lines"

    def __init__(self, host: IBrokerHost, address: str, port: int, tls: TLSSettings | None) -> None:
        factory: Any = host.clientFactory(LineDialect, "LINES", tls=tls)
        scheme = "lines" if tls is None else "lines+tls"
        self._port = LinkPort(host.reactor, address, port, factory, "lines", scheme)

    async def open(self, settings: Settings) -> None:
        await self._port.open()

    def urls(self) -> Sequence[str]:
        return self._port.urls()

    async def stopListening(self) -> None:
        await self._port.close()


@implementer(IPlugin, IConnectionKind)
class LineClients:
    """The kind. See L{natsbroker.interfaces.IConnectionKind}."""

    name = "lines"
    key = "lines"
    dialect = "lines"
    page = ""
    reloadError = "config reload not supported for lines: they begin with the broker"

    def isConfigured(self, settings: Settings) -> bool:
        return self.name in settings.services

    def accounts(self, settings: Settings) -> Iterable[str]:
        return ()

    def makePage(self, state: Any) -> None:
        """There is none: the clients are in C{/connz}."""

    def makeService(self, host: IBrokerHost, links: ILinks) -> LineService:
        options = PluginOptions(host.settings.services.get(self.name, {}))
        address = options.text("host", "127.0.0.1")
        port = options.count("port", 0, least=-1)
        pair = options.text("cert_file"), options.text("key_file")
        options.end()
        tls = TLSSettings(certs=(pair,)) if pair[0] else None
        return LineService(host, address, port, tls)

    def contribute(self, service: LineService, monitoring: Any) -> None:
        pass


CONFIG = """
listen: "127.0.0.1:{clients}"
authorization {{
    users: [
        {{user: anybody, pass: anything}}
        {{
            user: device, pass: secret, allowed_connection_types: [LINES]
            permissions {{ publish: "state.>", subscribe: "orders.>" }}
        }}
    ]
}}
services {{ lines {{ port: {lines}, cert_file: "{cert}", key_file: "{key}" }} }}
no_auth_user: anybody
"""


async def main(
    reactor: Any, clients: str = "4222", lines: str = "7000", cert: str = "", key: str = ""
) -> None:
    """
    Serve until the process ends.

    @param clients: the port for clients of NATS; 0 for any that is free.
    @param lines: the port for lines; 0 for any that is free.
    @param cert: the file of a certificate for lines; empty for lines in the clear.
    @param key: the file of its key.
    """
    ports = {"clients": int(clients) or -1, "lines": int(lines) or -1}
    text = CONFIG.format(**ports, cert=cert, key=key)
    broker = Broker.fromText(text, reactor=reactor, connectionKinds=[LineClients()])
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("clients at {}:{}".format(*broker.clientAddress()), flush=True)
    print("lines at", *broker.addresses()["lines"], flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
