"""
A connection kind that the broker does not have: peers that send and receive lines of text.

Each line that a peer sends is published to C{lines.in}. Each message to C{lines.out} is sent to
every peer as a line. The page C{/linez} of the monitoring pages lists the peers.

Run it with the port for clients and the port for lines, and end it with Ctrl-C::

    python examples/line_bridge.py 4222 7000

Then, with any NATS client and any program that speaks TCP::

    nats --server nats://127.0.0.1:4222 sub lines.in
    nc 127.0.0.1 7000
    nats --server nats://127.0.0.1:4222 pub lines.out 'to everybody'

A broker with a configuration file takes the kind as a plugin: a module in C{twisted/plugins/} of an
installed package says C{lines = LineBridge()}, and the file says
C{services { lines { port: 7000 } }}.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.task import react
from twisted.plugin import IPlugin
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.config.model import Settings
from natsbroker.interfaces import IBrokerHost, IConnectionKind, ILinks, ISubscriber, Message
from natsbroker.links.service import ConnectionService
from natsbroker.monitoring.answers import Answer, jsonAnswer
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.pluginoptions import PluginOptions

#: Lines from peers are published here.
RECEIVED = b"lines.in"

#: Messages to this subject are sent to the peers.
SENT = b"lines.out"


@implementer(IPushProducer)
class LinePeer(LineOnlyReceiver):
    """
    One peer. While it reads too slowly it misses lines, so that they do not fill the memory.
    """

    delimiter = b"\n"
    transport: Any

    def __init__(self, service: LineService) -> None:
        self._service = service
        self._isPaused = False

    def connectionMade(self) -> None:
        """Add this peer to the others."""
        self.transport.registerProducer(self, True)
        self._service.peers[self] = self.transport.getPeer().host

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Remove this peer from the others."""
        self._service.lost(self)

    def lineReceived(self, line: bytes) -> None:
        """
        Publish a line.
        """
        self._service.publish(line.rstrip(b"\r"))

    def send(self, line: bytes) -> None:
        """Send a line, unless the peer has not read the lines before."""
        if not self._isPaused:
            self.transport.write(line + b"\n")

    def pauseProducing(self) -> None:
        self._isPaused = True

    def resumeProducing(self) -> None:
        self._isPaused = False

    def stopProducing(self) -> None:
        pass


@implementer(ISubscriber)
class LineService(ConnectionService):
    """
    The peers of one broker. See L{natsbroker.interfaces.IConnectionService}.

    @ivar peers: those that are connected, with their addresses.
    """

    section = "lines"

    def __init__(self, host: IBrokerHost, address: str, port: int) -> None:
        self._host = host
        self._address = address
        self._wanted = port
        self._bus = host.bus()
        self._subscription: Any = None
        self._port: Any = None
        self._closing: Deferred[None] | None = None
        self.peers: dict[LinePeer, str] = {}

    async def open(self, settings: Settings) -> None:
        """
        Listen, and subscribe for the peers.
        """
        endpoint = TCP4ServerEndpoint(self._host.reactor, self._wanted, interface=self._address)
        try:
            self._port = await endpoint.listen(Factory.forProtocol(lambda: LinePeer(self)))
        except CannotListenError as error:
            raise StartError(f"Error listening for lines: {error}") from error
        self._subscription = self._bus.subscribe(SENT, self)

    def urls(self) -> list[str]:
        """The addresses on which it listens."""
        if self._port is None:
            return []
        place = self._port.getHost()
        return [f"lines://{place.host}:{place.port}"]

    def publish(self, line: bytes) -> None:
        """
        Publish the line of a peer.
        """
        self._bus.publish(Message(RECEIVED, line))

    def deliver(self, message: Message, tag: object) -> None:
        """
        See L{ISubscriber.deliver}: send a message to the peers, without its headers.
        """
        line = bytes(message.body[message.headerLength :]).replace(b"\n", b" ")
        for peer in self.peers:
            peer.send(line)

    def subscriptionEnded(self, tag: object) -> None:
        """
        See L{ISubscriber.subscriptionEnded}. This one has no limit.
        """

    async def stopListening(self) -> None:
        """
        Admit no further peers.
        """
        port, self._port = self._port, None
        if port is not None:
            self._subscription.cancel()
            await port.stopListening()

    async def close(self) -> None:
        """
        Wait until no peer is left.
        """
        if self.peers:
            self._closing = Deferred()
            for peer in list(self.peers):
                peer.transport.abortConnection()
            await self._closing

    def lost(self, peer: LinePeer) -> None:
        """
        Forget a peer.
        """
        self.peers.pop(peer, None)
        if not self.peers and self._closing is not None:
            closing, self._closing = self._closing, None
            closing.callback(None)


class LinesPage:
    """
    The page C{/linez}.

    @ivar peers: the peers of the service; none without one.
    """

    def __init__(self) -> None:
        self.peers: Mapping[LinePeer, str] = {}

    def __call__(self, query: Mapping[str, str]) -> Answer:
        return jsonAnswer({"peers": sorted(self.peers.values())})


@implementer(IPlugin, IConnectionKind)
class LineBridge:
    """
    The kind. See L{natsbroker.interfaces.IConnectionKind}.
    """

    name = "lines"
    key = "lines"
    dialect = "lines"
    page = "/linez"
    reloadError = "config reload not supported for lines: they begin with the broker"

    def __init__(self, port: int | None = None) -> None:
        """
        @param port: where peers connect if the settings have no section; C{None} for nowhere.
        """
        self._port = port

    def isConfigured(self, settings: Settings) -> bool:
        """
        Whether there is a port or a section.
        """
        return self._port is not None or self.name in settings.services

    def accounts(self, settings: Settings) -> Iterable[str]:
        """The global account only."""
        return ()

    def makePage(self, state: Any) -> LinesPage:
        """
        The page, at first without peers.
        """
        return LinesPage()

    def makeService(self, host: IBrokerHost, links: ILinks) -> LineService:
        """
        Read the section.
        """
        options = PluginOptions(host.settings.services.get(self.name, {}))
        address = options.text("host", "127.0.0.1")
        port = options.count("port", self._port or 0)
        options.end()
        return LineService(host, address, port)

    def contribute(self, service: LineService, monitoring: Any) -> None:
        """
        Have the page list the peers.
        """
        monitoring.links[self.name].peers = service.peers


async def main(reactor: Any, clients: str = "4222", lines: str = "7000") -> None:
    """
    Serve until the process ends.

    @param clients: the port for clients; 0 for any that is free.
    @param lines: the port for lines; 0 for any that is free.
    """
    settings = Settings(host="127.0.0.1", port=int(clients) or -1)
    broker = Broker(settings, reactor=reactor, connectionKinds=[LineBridge(int(lines))])
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("clients at {}:{}".format(*broker.clientAddress()), flush=True)
    print("lines at", *broker.addresses()["lines"], flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
