"""
A custom observer and a custom publish filter.

The observer counts the open connections of each user. The filter sees every message of an account
before it is routed; it masks payment card numbers, and drops messages of clients to C{internal.>}.
An account with a filter leaves the compiled lane; other accounts do not.

Run it with the port that clients connect to, and end it with Ctrl-C::

    python examples/observer.py 4222

Then, with any NATS client::

    nats --server nats://127.0.0.1:4222 sub 'orders.>'
    nats --server nats://127.0.0.1:4222 pub orders.1 'two apples'
    nats --server nats://127.0.0.1:4222 pub orders.2 'paid with 4111 1111 1111 1111'
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.advisories import Advisory, ClientConnected, ClientDisconnected
from natsbroker.config.model import Settings
from natsbroker.interfaces import IObserver, IPublishFilter
from natsbroker.wire.values import Kind, Message

_CARD = re.compile(rb"\b(?:\d[ -]?){15}\d\b")


@implementer(IObserver)
class ConnectionCounter:
    """
    Counts connections.

    @ivar connected: those of each user that are open.
    """

    def __init__(self) -> None:
        self.connected: Counter[str] = Counter()

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, ClientConnected):
            self.connected[advisory.user] += 1
        elif isinstance(advisory, ClientDisconnected):
            self.connected[advisory.user] -= 1


@implementer(IPublishFilter)
class CardFilter:
    """
    Masks card numbers in messages of clients, and drops those of clients below C{internal}.

    @ivar masked: the messages with a card number.
    """

    def __init__(self) -> None:
        self.masked = 0

    def filterMessage(self, message: Message, kind: int) -> Message | None:
        if kind != Kind.CLIENT:
            return message
        if message.subject.startswith(b"internal."):
            return None
        body, count = _CARD.subn(b"****", message.body)
        if not count:
            return message
        self.masked += 1
        headers = len(_CARD.sub(b"****", message.body[: message.headerLength]))
        return Message(message.subject, body, message.reply, headers, message.origin)


async def main(reactor: Any, port: str = "4222") -> None:
    """
    Serve until the process ends.

    @param port: for clients; 0 for any that is free.
    """
    counter = ConnectionCounter()
    settings = Settings(host="127.0.0.1", port=int(port) or -1)
    broker = Broker(settings, reactor=reactor, observers=[counter])
    broker.addFilter("$G", CardFilter())
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
