"""
A broker inside an existing Twisted application.

The application is a web site that counts its visitors. The broker shares its reactor and its
process: the site publishes every visit to C{visits}, and answers requests for
C{visits.count}, over a client that needs no socket.

Run it with the ports of the site and of the broker, and end it with Ctrl-C::

    python examples/embedded.py 8080 4222

Then look at C{http://127.0.0.1:8080/} and, with any NATS client::

    nats --server nats://127.0.0.1:4222 sub visits
    nats --server nats://127.0.0.1:4222 request visits.count ""
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.web.resource import Resource
from twisted.web.server import Site

from natsbroker import Broker
from natsbroker.client.client import Client
from natsbroker.client.connecting import connectInProcess
from natsbroker.config.model import Settings
from natsbroker.wire.values import Message


class Counter(Resource):
    """
    The page, which was there before the broker was.

    @ivar visits: how many there were.
    @ivar client: tells of them.
    """

    isLeaf = True

    def __init__(self, client: Client) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.visits = 0
        self.client = client
        client.subscribe(b"visits.count", self.answer)

    def render_GET(self, request: Any) -> bytes:
        """Count a visit, and publish it."""
        self.visits += 1
        self.client.publish(b"visits", b"visit %d of %b" % (self.visits, request.path))
        return b"visit %d\n" % self.visits

    def answer(self, message: Message) -> None:
        """
        Answer a request for the number.
        """
        if message.reply:
            self.client.publish(message.reply, b"%d" % self.visits)


async def makeApplication(reactor: Any, settings: Settings) -> tuple[MultiService, Broker, Site]:
    """
    The application: one service, of which the broker is a child as others may be.
    """
    application: Any = MultiService()
    broker = Broker(settings, reactor=reactor)
    broker.setServiceParent(application)  # type: ignore[no-untyped-call]
    application.startService()
    await broker.whenReady()
    client = await connectInProcess(broker)
    site: Any = Site
    return application, broker, site(Counter(client))


async def main(reactor: Any, webPort: str = "8080", natsPort: str = "4222") -> None:
    """
    Serve until the process ends.

    @param webPort: of the site; 0 for any that is free.
    @param natsPort: of the broker, likewise.
    """
    settings = Settings(host="127.0.0.1", port=int(natsPort) or -1)
    application, broker, site = await makeApplication(reactor, settings)
    reactor.addSystemEventTrigger("before", "shutdown", application.stopService)
    page = reactor.listenTCP(int(webPort), site, interface="127.0.0.1")
    print("site on {}:{}".format("127.0.0.1", page.getHost().port), flush=True)
    print("broker on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
