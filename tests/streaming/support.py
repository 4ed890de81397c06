"""
A stage for the streaming service: a bus, a clock, a store in memory, and clients.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces import IOrigin, ISubscriber
from natsbroker.storage.memory import MemoryStore
from natsbroker.streaming import protocol
from natsbroker.streaming.monitoring import StreamingModel
from natsbroker.streaming.service import StreamingService
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo, Kind, Message
from tests.support import Router

SECOND = 1_000_000_000

#: What the wall clock shows when a stage is set.
BEGINNING = 1_700_000_000 * SECOND


@implementer(IOrigin)
class Connection:
    """
    The origin of a message.

    @ivar grant: what it may do.
    """

    def __init__(self, grant: Grant | None = None) -> None:
        self.grant = grant

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        return ClientInfo()


class Stage:
    """
    A service and what it needs.

    @ivar service: the service that runs now.
    @ivar store: its store, which outlives it.
    """

    def __init__(
        self,
        settings: Streaming | None = None,
        makeStore: Callable[[Stage], Any] | None = None,
        start: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or Clock()
        if clock is None:
            self.clock.advance(BEGINNING // SECOND)
        self.steps = 0
        self._batch = hot.FlushBatch(lambda call: self.clock.callLater(0, call))
        self.account = Account("A", Router(), AccountDependencies(self._batch, Random(1)))
        self.bus = self.account.busFor(Kind.CLIENT)
        self.settings = settings or Streaming()
        self._inboxes = count(1)
        self.store = (makeStore or Stage.makeStore)(self)
        self.opening: Callable[[], Deferred[Any]] = lambda: succeed(_Lent(self.store))
        self.service = self._makeService()
        if start:
            self.start()

    def makeStore(self) -> Any:
        """A store in memory."""
        return MemoryStore(self.clock, now=self.now)

    def _makeService(self) -> StreamingService:
        return StreamingService(
            self.account.busFor(Kind.INTERNAL),
            self.clock,
            lambda: self.opening(),
            self.settings,
            self.clock.seconds,
            self.now,
            self.newInbox,
        )

    def now(self) -> int:
        """The wall clock, in nanoseconds; C{steps} seconds are what somebody set it by."""
        return round((self.clock.seconds() + self.steps) * SECOND)

    def newInbox(self) -> bytes:
        """A subject that no other test client uses."""
        return b"_INBOX.%022d" % next(self._inboxes)

    # The service.

    def start(self) -> None:
        """Start the service, and wait until it is ready."""
        outcome: list[Any] = []
        self.service.startService()
        self.service.whenPrepared().addBoth(outcome.append)
        self.settle()
        assert outcome == [None], outcome

    def stop(self) -> None:
        """Stop the service properly."""
        outcome: list[Any] = []
        self.service.stopService().addBoth(outcome.append)
        self.settle()
        assert outcome == [None], outcome
        assert self.clock.getDelayedCalls() == []

    def crash(self) -> None:
        """
        End the service as kill -9 would: nothing more is written, and clients keep their
        connections.
        """
        context = self.service.context
        self.service.dispatcher.stop()
        context.deadlines.stop()
        for channel in context.channels:
            for subscription in channel.subscriptions:
                if subscription.acks is not None:
                    subscription.acks.cancel()

    def restart(self, settings: Streaming | None = None) -> None:
        """Start a new service on what the store has."""
        self.settings = settings or self.settings
        self.service = self._makeService()
        self.start()

    @property
    def model(self) -> StreamingModel:
        """The figures of the service."""
        return StreamingModel(self.service)

    # Time.

    def settle(self) -> None:
        """Run the calls that are due now."""
        for _ in range(1000):
            due = [call.getTime() for call in self.clock.getDelayedCalls()]
            if not due or min(due) > self.clock.seconds():
                return
            self.clock.advance(0)
        raise AssertionError("this never settles")

    def advance(self, seconds: float) -> None:
        """Let time pass, from event to event."""
        end = self.clock.seconds() + seconds
        self.settle()
        while True:
            due = min((call.getTime() for call in self.clock.getDelayedCalls()), default=end)
            if due > end:
                break
            if due >= end and end <= self.clock.seconds():
                break
            self.clock.advance(max(due - self.clock.seconds(), 0))
            self.settle()
        self.clock.advance(max(end - self.clock.seconds(), 0))
        self.settle()

    # Clients.

    def ask(self, subject: bytes, request: Any, kind: Any, origin: object = None) -> Any:
        """
        Send a request and return the answer.

        @param request: a message of the protocol, or bytes.
        @param kind: the class of the answer.
        @return: the answer, or C{None} if none comes at once.
        """
        inbox = Inbox(self)
        self.send(subject, request, inbox.subject, origin)
        self.settle()
        inbox.close()
        return kind.FromString(inbox.got[0].payload) if inbox.got else None

    def send(self, subject: bytes, request: Any, reply: bytes = b"", origin: object = None) -> None:
        """Send a message, without letting the service react yet."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        self.bus.publish(Message(subject, data, reply, origin=origin or _ANYBODY))

    def client(self, clientID: str = "me", **more: Any) -> Client:
        """A connected client."""
        client = Client(self, clientID, **more)
        response = client.connect()
        assert response is not None and not response.error, response
        return client


@implementer(ISubscriber)
class Inbox:
    """
    An inbox that collects messages.

    @ivar subject: where.
    @ivar got: what came.
    """

    def __init__(self, stage: Stage, answer: Callable[[Message], object] | None = None) -> None:
        self.subject = b"_INBOX.client.%d" % next(stage._inboxes)
        self.got: list[Message] = []
        self._answer = answer
        self._subscription = stage.bus.subscribe(self.subject, self)

    def deliver(self, message: Message, tag: Any) -> None:
        self.got.append(message)
        if self._answer is not None:
            self._answer(message)

    def subscriptionEnded(self, tag: Any) -> None:
        """Nothing to do: the subscription ends with the client."""

    def close(self) -> None:
        """Unsubscribe the inbox."""
        self._subscription.cancel()


class Client:
    """
    A client of the service.

    @ivar origin: the connection that it uses.
    @ivar isAlive: whether it answers heartbeats.
    @ivar beats: how many heartbeats came.
    """

    def __init__(
        self,
        stage: Stage,
        clientID: str,
        grant: Grant | None = None,
        connID: bytes | None = None,
        protocolNumber: int = 1,
    ) -> None:
        self.stage = stage
        self.clientID = clientID
        self.origin = Connection(grant or Grant())
        self.connID = clientID.encode() + b"-connection" if connID is None else connID
        self.protocolNumber = protocolNumber
        self.isAlive = True
        self.beats = 0
        self._guids = count(1)
        self.heartbeats = Inbox(stage, self._heartbeat)
        self.cluster = stage.settings.cluster_id.encode()

    def _heartbeat(self, message: Message) -> None:
        self.beats += 1
        if self.isAlive:
            self.stage.bus.publish(Message(message.reply, origin=self.origin))

    def ask(self, subject: bytes, request: Any, kind: Any) -> Any:
        """Send a request and return the answer; see L{Stage.ask}."""
        return self.stage.ask(subject, request, kind, self.origin)

    def connect(self, **more: Any) -> Any:
        """Connect; return the answer."""
        request = protocol.ConnectRequest(
            clientID=self.clientID,
            heartbeatInbox=self.heartbeats.subject.decode(),
            protocol=self.protocolNumber,
            connID=self.connID,
            pingInterval=5,
            pingMaxOut=3,
        )
        for name, value in more.items():
            setattr(request, name, value)
        subject = b"_STAN.discover." + self.cluster
        return self.ask(subject, request, protocol.ConnectResponse)

    def ping(self, connID: bytes | None = None) -> str | None:
        """Ping; return the error, or C{None} if no answer comes."""
        subject = b"_STAN.discover." + self.cluster + b".pings"
        ping = protocol.Ping(connID=self.connID if connID is None else connID)
        response = self.ask(subject, ping, protocol.PingResponse)
        return None if response is None else response.error

    def close(self, clientID: str | None = None) -> str:
        """Close the connection; return the error."""
        request = protocol.CloseRequest(clientID=clientID or self.clientID)
        response = self.ask(b"_STAN.close." + self.cluster, request, protocol.CloseResponse)
        return str(response.error)

    def pubMsg(self, channel: str, data: bytes, **more: Any) -> Any:
        """The bytes of a publish."""
        message = protocol.PubMsg(
            clientID=self.clientID,
            guid=f"guid-{next(self._guids)}",
            subject=channel,
            data=data,
            connID=self.connID,
        )
        for name, value in more.items():
            setattr(message, name, value)
        return message

    def publish(self, channel: str, data: bytes = b"", **more: Any) -> str | None:
        """Publish, and return the error of the PubAck; C{None} if none comes."""
        message = self.pubMsg(channel, data, **more)
        subject = b"_STAN.pub." + self.cluster + b"." + (channel.encode() or b"none")
        ack = self.ask(subject, message, protocol.PubAck)
        assert ack is None or ack.guid == message.guid
        return None if ack is None else str(ack.error)

    def publishMany(self, channel: str, data: list[bytes]) -> Inbox:
        """Publish several messages in one chunk of input; the inbox collects the answers."""
        inbox = Inbox(self.stage)
        subject = b"_STAN.pub." + self.cluster + b"." + channel.encode()
        for byte in data:
            self.stage.send(subject, self.pubMsg(channel, byte), inbox.subject, self.origin)
        return inbox

    def subscribe(self, channel: str, **more: Any) -> Listener:
        """Subscribe, and demand success."""
        listener = Listener(self, channel)
        error = listener.subscribe(**more)
        assert error == "", error
        return listener


class Listener:
    """
    A subscription of a client.

    @ivar got: the messages that came.
    @ivar isAcking: whether each is acknowledged when it comes.
    @ivar answer: to the subscription request; C{None} while none has come.
    """

    def __init__(self, client: Client, channel: str, isAcking: bool = True) -> None:
        self.client = client
        self.stage = client.stage
        self.channel = channel
        self.isAcking = isAcking
        self.got: list[Any] = []
        self.ackInbox = b""
        self.answer: Any = None
        self.inbox = Inbox(client.stage, self._came)

    def _came(self, message: Message) -> None:
        delivered = protocol.MsgProto.FromString(message.payload)
        self.got.append(delivered)
        if self.isAcking:
            self.ack(delivered.sequence)

    def request(self, **more: Any) -> Any:
        """
        The bytes of a subscription request; by default for everything from the first message on.
        """
        request = protocol.SubscriptionRequest(
            clientID=self.client.clientID,
            subject=self.channel,
            inbox=self.inbox.subject.decode(),
            maxInFlight=1024,
            ackWaitInSecs=30,
            startPosition=protocol.FIRST,
        )
        for name, value in more.items():
            setattr(request, name, value)
        return request

    def subscribe(self, **more: Any) -> str:
        """Subscribe; return the error. C{isAcking} is whether messages are acknowledged."""
        self.isAcking = more.pop("isAcking", self.isAcking)
        self.answer = None
        answers = Inbox(self.stage, self._answered)
        subject = b"_STAN.sub." + self.client.cluster
        self.stage.send(subject, self.request(**more), answers.subject, self.client.origin)
        self.stage.settle()
        return "no answer" if self.answer is None else str(self.answer.error)

    def _answered(self, message: Message) -> None:
        assert not self.got, "a message came before the answer"
        self.answer = protocol.SubscriptionResponse.FromString(message.payload)
        self.ackInbox = self.answer.ackInbox.encode()

    def ack(self, *sequences: int) -> None:
        """Acknowledge messages."""
        for sequence in sequences:
            ack = protocol.Ack(subject=self.channel, sequence=sequence)
            self.stage.send(self.ackInbox, ack, origin=self.client.origin)

    def ackNow(self, *sequences: int) -> None:
        """Acknowledge messages, and run the calls that are due then."""
        self.ack(*sequences)
        self.stage.settle()

    def unsubscribe(self) -> str:
        """Unsubscribe; return the error."""
        return self._end(b"_STAN.unsub.")

    def close(self) -> str:
        """Close the subscription, so that a durable one can be resumed; return the error."""
        return self._end(b"_STAN.subclose.")

    def _end(self, prefix: bytes) -> str:
        request = protocol.UnsubscribeRequest(
            clientID=self.client.clientID, subject=self.channel, inbox=self.ackInbox.decode()
        )
        subject = prefix + self.client.cluster
        response = self.client.ask(subject, request, protocol.SubscriptionResponse)
        return str(response.error)

    def taken(self) -> list[Any]:
        """The messages that came since the last call."""
        self.stage.settle()
        got, self.got = self.got, []
        return got

    @property
    def sequences(self) -> list[int]:
        """The sequences of the messages that came since the last call."""
        return [message.sequence for message in self.taken()]

    @property
    def data(self) -> list[bytes]:
        """The data of the messages that came since the last call."""
        return [message.data for message in self.taken()]

    @property
    def again(self) -> list[tuple[int, int]]:
        """
        The sequence and redelivery count of each message since the last call; the count is 0 for a
        new message.
        """
        return [
            (message.sequence, message.redeliveryCount if message.redelivered else 0)
            for message in self.taken()
        ]


class _Lent:
    """A store that stays open when its service stops."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> Deferred[None]:
        """Leave the store open."""
        return succeed(None)


def refused(error: Exception) -> Callable[[], Deferred[Any]]:
    """A store that cannot be opened."""
    return lambda: fail(error)


_ANYBODY = Connection(Grant())
