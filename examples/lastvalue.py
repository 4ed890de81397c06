"""
A custom service on the message bus: it keeps the last message of each subject.

The answer to a request to C{last.SUBJECT} is the last message that was published to that subject,
with its headers. The service uses only what the broker offers to every service: a bus and its
section of the configuration.

Run it with the port that clients connect to, and end it with Ctrl-C::

    python examples/lastvalue.py 4222

Then, with any NATS client::

    nats --server nats://127.0.0.1:4222 pub weather.oslo '12 degrees'
    nats --server nats://127.0.0.1:4222 request last.weather.oslo ''

To have every broker of a machine run it, put L{LastValue} into an installed package, an object of
it into a module in C{twisted/plugins/}, and name it in the configuration::

    plugins { lastvalue { subjects: "weather.>", most: 1000 } }
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.plugin import IPlugin
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.config.model import Settings
from natsbroker.interfaces import (
    IBrokerHost,
    IBrokerService,
    IMessageBus,
    ISubscriber,
    ISubscription,
)
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import Message

_QUESTIONS = b"last."


@implementer(ISubscriber)
class LastValueService(Service):
    """
    The running service.

    @ivar values: the last message of each subject, the one that was seen longest ago first.
    """

    def __init__(self, bus: IMessageBus, subjects: bytes, most: int) -> None:
        """
        @param subjects: the pattern of what is kept.
        @param most: how many subjects are kept; then the oldest goes.
        """
        self.values: OrderedDict[bytes, Message] = OrderedDict()
        self._bus = bus
        self._subjects = subjects
        self._most = most
        self._subscriptions: list[ISubscription] = []

    def startService(self) -> None:
        """Subscribe."""
        super().startService()  # type: ignore[no-untyped-call]
        self._subscriptions = [
            self._bus.subscribe(self._subjects, self, self._keep),
            self._bus.serve(_QUESTIONS + b">", self, self._answer),
        ]

    def stopService(self) -> None:
        """Unsubscribe."""
        for subscription in self._subscriptions:
            subscription.cancel()
        super().stopService()  # type: ignore[no-untyped-call]

    def deliver(self, message: Message, tag: Any) -> None:
        """Store a message, or answer a request; the tag says which."""
        tag(message)

    def subscriptionEnded(self, tag: Any) -> None:
        """
        Subscriptions without a maximum do not end by themselves.
        """

    def _keep(self, message: Message) -> None:
        if message.subject.startswith((_QUESTIONS, b"_INBOX.")):
            return
        self.values[message.subject] = message
        self.values.move_to_end(message.subject)
        if len(self.values) > self._most:
            self.values.popitem(last=False)

    def _answer(self, question: Message) -> None:
        if not question.reply:
            return
        kept = self.values.get(question.subject[len(_QUESTIONS) :])
        if kept is None:
            block = Headers(status=404, description="No Value").block()
            self._bus.publish(Message(question.reply, block, headerLength=len(block)))
        else:
            self._bus.publish(Message(question.reply, kept.body, headerLength=kept.headerLength))


@implementer(IPlugin, IBrokerService)
class LastValue:
    """
    Makes the service for a broker.
    """

    name = "lastvalue"

    def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> IService:
        unknown = ", ".join(sorted(set(section) - {"account", "subjects", "most"}))
        if unknown:
            raise ValueError(f"unknown: {unknown}")
        subjects = str(section.get("subjects", ">")).encode("utf-8")
        most = section.get("most", 10_000)
        if not isValidSubject(subjects):
            raise ValueError("subjects must be a subject, which may have wildcards")
        if not isinstance(most, int) or most < 1:
            raise ValueError("most must be a number, 1 at least")
        bus = host.bus(str(section.get("account", "$G")))
        service: IService = LastValueService(bus, subjects, most)
        return service


async def main(reactor: Any, port: str = "4222") -> None:
    """
    Serve until the process ends.

    @param port: for clients; 0 for any that is free.
    """
    settings = Settings(host="127.0.0.1", port=int(port) or -1)
    broker = Broker(settings, reactor=reactor, services=[LastValue()])
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
