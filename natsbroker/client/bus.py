"""A message bus on another NATS server, as a broker's own L{IMessageBus}."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.batches import Batcher
from natsbroker.client.client import Client, ClientSubscription
from natsbroker.client.errors import ClientError
from natsbroker.errors import BrokerError
from natsbroker.interfaces import (
    IBatchSubscriber,
    ILinkSubscriber,
    IMessageBus,
    IPeerOrigin,
    IReadiness,
    IRunSubscriber,
    ISubscriber,
    ISubscription,
)
from natsbroker.runtime.readiness import Readiness
from natsbroker.subjects.grammar import isValidLiteral, isValidSubject
from natsbroker.subjects.requests import isRequest
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo, Message

__all__ = ["PATIENCE", "RECONNECT", "RETRY", "RemoteBus", "RemoteSubscription"]

_log = Logger(namespace="natsbroker.client")

RECONNECT = 2.0
"""The longest pause between two attempts to connect, in seconds."""

PATIENCE = 5.0
"""Seconds in which the first connection must be made; both servers may be started at once."""

RETRY = 0.02
"""
Seconds until the second attempt to connect; each further pause is twice as long. The first attempt
follows the loss of a connection at once, and the first pauses are short, because clients get no
answer until another member of the cluster is found.
"""

Dial = Callable[[Sequence[str]], Deferred[Client]]
"""Connects to the next server; called with C{host:port} of the known members of the cluster."""


@implementer(ISubscription)
class RemoteSubscription:
    def __init__(
        self, bus: RemoteBus, pattern: bytes, queue: bytes, tag: Any, subscriber: ISubscriber
    ) -> None:
        self.pattern = pattern
        self.queue = queue
        self.tag = tag
        self.delivered = 0
        self.closed = False
        self.permissions: Any = None
        self._bus = bus
        self._subscriber = subscriber
        self._maximum = 0
        self._there: ClientSubscription | None = None

    def connected(self, client: Client) -> None:
        self._there = client.subscribe(self.pattern, self._received, self.queue)
        self._limit()

    def disconnected(self) -> None:
        self._there = None

    def cancel(self) -> None:
        if not self.closed:
            self.closed = True
            there, self._there = self._there, None
            if there is not None:
                there.cancel()
            self._bus.forget(self)

    def cancelAfter(self, count: int) -> None:
        if count <= self.delivered:
            self.cancel()
        else:
            self._maximum = count
            self._limit()

    def _limit(self) -> None:
        there = self._there
        if self._maximum and there is not None:
            there.cancelAfter(there.delivered + self._maximum - self.delivered)

    def reweigh(self, weight: int) -> None:
        """Do nothing: each member of a group counts once on a connection."""

    def _received(self, message: Message) -> None:
        if self.closed:
            return
        self.delivered += 1
        message.origin = self._bus
        self._subscriber.deliver(message, self.tag)
        if 0 < self._maximum <= self.delivered and not self.closed:
            self.cancel()
            self._subscriber.subscriptionEnded(self.tag)


@implementer(IMessageBus, IPeerOrigin, ILinkSubscriber, IReadiness)
class RemoteBus(Service):
    """
    A bus over one connection, which is made again whenever it is lost, with its subscriptions.
    Messages that are published meanwhile are lost.

    It is the origin of all messages from the server, which has admitted their publishers and
    checked their subjects, as a peer in a cluster would.

    @ivar account: the account's name here; the server does not tell it.
    @ivar matcher: C{None}: the server knows the subscribers.
    """

    def __init__(self, reactor: IReactorTime, dial: Dial, account: str = "$G") -> None:
        self.account = account
        self.grant = Grant()
        self.isPeer = True
        self.matcher = None
        self._reactor = reactor
        self._dial = dial
        self._batch = hot.FlushBatch(lambda call: reactor.callLater(0, call), _log.failure)
        self._collectors: dict[int, tuple[Any, Any]] = {}
        self._subscriptions: dict[int, RemoteSubscription] = {}
        self._client: Client | None = None
        self._dialling: Deferred[Any] | None = None
        self._again: IDelayedCall | None = None
        self._readiness = Readiness()
        self._until = 0.0
        self._attempts = 1
        self._heardOf: list[str] = []

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._until = self._reactor.seconds() + PATIENCE
        self._connect()

    def stopService(self) -> Deferred[None]:
        super().stopService()  # type: ignore[no-untyped-call]
        again, self._again = self._again, None
        if again is not None:
            again.cancel()
        dialling, self._dialling = self._dialling, None
        if dialling is not None:
            dialling.cancel()
        client = self._client
        if client is None:
            return succeed(None)
        return client.close().addCallback(lambda _: None)

    def whenPrepared(self) -> Deferred[None]:
        """Prepared by the first connection; fails after L{PATIENCE}."""
        return self._readiness.wait()

    @property
    def maxPayload(self) -> int:
        largest = None if self._client is None else self._client.info.get("max_payload")
        return largest if isinstance(largest, int) and largest > 0 else 0

    def _connect(self) -> None:
        self._again = None
        self._dialling = dialling = self._dial(self._heardOf)
        dialling.addCallbacks(self._connected, self._failed)

    def _connected(self, client: Client) -> None:
        self._dialling = None
        if not self.running:
            client.close()
            return
        self._client = client
        self._attempts = 0
        name = client.info.get("server_name") or client.info.get("server_id")
        _log.info("Connected to NATS server {name}", name=name)
        for subscription in list(self._subscriptions.values()):
            subscription.connected(client)
        client.whenClosed().addCallback(self._lost)
        self._readiness.reached()

    def _failed(self, failure: Failure) -> None:
        self._dialling = None
        if not self.running or failure.check(CancelledError):
            return
        if self._readiness.outcome is None and self._reactor.seconds() >= self._until:
            self._readiness.failed(failure)
            return
        _log.debug("Cannot connect to the NATS server: {why}", why=failure.getErrorMessage())
        self._connectLater()

    def _connectLater(self) -> None:
        # The exponent is bounded, because an outage may last for days.
        delay = min(RETRY * (2 ** min(self._attempts, 16) // 2), RECONNECT)
        self._attempts += 1
        self._again = self._reactor.callLater(delay, self._connect)

    def _lost(self, reason: ClientError) -> None:
        client, self._client = self._client, None
        for subscription in self._subscriptions.values():
            subscription.disconnected()
        if client is not None:
            self._hear(client)
        if self.running:
            _log.error("Lost the connection to the NATS server: {why}", why=str(reason))
            self._connectLater()

    def _hear(self, client: Client) -> None:
        urls = client.info.get("connect_urls")
        if isinstance(urls, list):
            self._heardOf = [url for url in urls if isinstance(url, str)]

    # IMessageBus

    def mapped(self, subject: bytes) -> bytes:
        return subject

    def publish(
        self, message: Message, later: Callable[[Generator[None, None, int]], None] | None = None
    ) -> int:
        """Send a message and return 1, whatever its receivers; C{later} is not called."""
        if message.origin is None and isRequest(message.subject):
            return 0
        client = self._open(message.subject, len(message.body))
        if client is None:
            return 0
        client.publishMany(message.subject, [message.body], message.reply, message.headerLength)
        return 1

    def publishInternal(self, subject: bytes, payload: bytes) -> int:
        return self.publishBatch(subject, [payload])

    def publishBatch(self, subject: bytes, payloads: list[bytes]) -> int:
        if isRequest(subject):
            # The other server would treat it as a request with the rights of this connection.
            return 0
        client = self._open(subject, max(map(len, payloads), default=0))
        if client is None:
            return 0
        client.publishMany(subject, payloads)
        return 1

    def _open(self, subject: bytes, size: int) -> Client | None:
        client = self._client
        if client is None or not client.isOpen or not isValidLiteral(subject):
            return None
        if 0 < self.maxPayload < size:
            _log.error(
                "A message of {size} bytes to {subject} is lost: the NATS server takes {largest}",
                size=size,
                subject=subject,
                largest=self.maxPayload,
            )
            return None
        return client

    def refresh(self) -> None:
        """Do nothing: nothing is cached."""

    def subscribe(
        self,
        pattern: bytes,
        subscriber: ISubscriber | ILinkSubscriber,
        tag: Any = None,
        queue: bytes = b"",
        weight: int = 1,
    ) -> ISubscription:
        if not isValidSubject(pattern):
            raise ValueError(f"not a valid subject: {pattern!r}")
        if not ISubscriber.providedBy(subscriber):
            raise BrokerError("links cannot subscribe over a connection to another server")
        taker = self._takerFor(subscriber)
        made = RemoteSubscription(self, pattern, queue, tag, taker)
        self._subscriptions[id(made)] = made
        if self._client is not None and self._client.isOpen:
            made.connected(self._client)
        return made

    def serve(
        self, pattern: bytes, subscriber: ISubscriber, tag: Any = None, queue: bytes = b""
    ) -> ISubscription:
        return self.subscribe(pattern, subscriber, tag, queue)

    def forget(self, subscription: RemoteSubscription) -> None:
        del self._subscriptions[id(subscription)]

    def _takerFor(self, subscriber: Any) -> Any:
        """
        The one taker for all subscriptions of a subscriber, so that it gets messages in order.
        """
        if not (IRunSubscriber.providedBy(subscriber) or IBatchSubscriber.providedBy(subscriber)):
            return subscriber
        known = self._collectors.get(id(subscriber))
        if known is None:
            make: Any = hot.Collector if IRunSubscriber.providedBy(subscriber) else Batcher
            collector = make(subscriber, self._batch, _log.failure)
            # The subscriber is kept too, so that no other object gets its id.
            known = self._collectors[id(subscriber)] = (subscriber, collector)
        return known[1]

    def cancelAll(self, subscriptions: Iterable[ISubscription]) -> None:
        for subscription in list(subscriptions):
            subscription.cancel()

    def hasInterest(self, subject: bytes, isRequest: bool = True) -> bool:
        return self._client is not None and self._client.isOpen

    def watchInterest(
        self,
        watcher: Any,
        interestFilter: Any = None,
        isPatient: bool = False,
        whenTold: Any = None,
    ) -> Any:
        """Raise L{BrokerError} always: a server does not tell its clients about subscriptions."""
        raise BrokerError("the interest of another server cannot be watched")

    # ILinkSubscriber and IOrigin

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self.publish(message)

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        """The account alone: the server does not tell its clients who publishes."""
        return ClientInfo(acc=self.account)
