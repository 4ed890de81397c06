"""Answers to API requests of accounts without JetStream. Requests with unknown names get none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zope.interface import implementer

from natsbroker.interfaces import IBatchSubscriber, IMessageBus, ISubscriber, ISubscription
from natsbroker.jetstream.api.dispatcher import PREFIX, ApiRoute, checkLevel
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import LONGEST
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.requests import parseConsumer, parseUnpin
from natsbroker.steps import finish
from natsbroker.subjects.grammar import matches
from natsbroker.wire.values import Kind, Message

_OF_CONSUMERS = (
    *("CREATE", "DURABLE", "INFO", "DELETE", "NAMES"),
    *("LIST", "LEADER", "PAUSE", "UNPIN", "RESET"),
)

FAMILIES = (
    *("*", "INFO.>", "STREAM.>", "META.>", "SERVER.>", "ACCOUNT.>", "CONSUMER.*", "CONSUMER.*.*"),
    *(f"CONSUMER.{action}.*.>" for action in _OF_CONSUMERS),
)
"""
The requests that are received here, behind the prefix. No subject matches two of these patterns.
Pulls and direct gets are not among them: without a consumer or stream they have no responders.
"""

UNANSWERED = ("META.>", "SERVER.>", "ACCOUNT.>")
"""Requests in the system account that get no answer here."""

_READ_FIRST: dict[str, Callable[[bytes], object]] = {
    "consumer_create": lambda body: finish(parseConsumer(body)),
    "consumer_unpin": parseUnpin,
}
"""The parsers of bodies that are checked before it is checked whether the account has JetStream."""

#: The kinds of requests that get no answer.
_SILENT = ("", "consumer_reset")

#: The kinds of requests that only brokers with shared streams answer.
_CLUSTERED = ("stream_leader_stepdown", "stream_remove_peer", "consumer_leader_stepdown")


@implementer(ISubscriber)
class ApiRefusals:
    """
    Refuses the requests of accounts without JetStream; C{isClustered} if brokers share streams.
    """

    def __init__(
        self,
        routes: tuple[ApiRoute, ...],
        hasJetStream: Callable[[str], bool],
        system: str,
        isClustered: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        The refusals; C{hasJetStream} takes the name of an account, C{system} may be empty.
        L{refresh} follows each change of the answers of C{hasJetStream}.
        """
        self._routes = routes
        self._hasJetStream = hasJetStream
        self._system = system
        self.isClustered = isClustered
        self._buses: dict[str, IMessageBus] = {}
        self._subscriptions: dict[str, list[ISubscription]] = {}
        self._silence = _Silence()

    def serve(self, name: str, bus: IMessageBus) -> None:
        """
        Answer the requests of an account while it does not have JetStream.

        @param bus: the account's bus for services of this broker only.
        """
        self._buses[name] = bus
        self.refresh(name)

    def refresh(self, name: str) -> None:
        """Follow a change of whether an account has JetStream."""
        bus = self._buses.get(name)
        if bus is None:
            return
        # Requests of accounts with JetStream are not looked at here, because that takes them off
        # the compiled lane.
        subscriber = self._silence if self._hasJetStream(name) else self
        before = self._subscriptions.pop(name, [])
        self._subscriptions[name] = [
            bus.serve(f"{PREFIX}{family}".encode(), subscriber, (name, bus))
            for family in ((">",) if name == self._system else FAMILIES)
        ]
        for subscription in before:
            subscription.cancel()

    def deliver(self, message: Message, tag: Any) -> None:
        name, bus = tag
        if not message.reply or self._isAnswered(bus, message.subject):
            return
        subject = message.subject[len(PREFIX) :]
        answer = (self._ofSystem if name == self._system else self._refused)(subject, message)
        if answer is not None:
            bus.publish(Message(message.reply, encode(answer)))

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscriptions have no maximum."""

    def _isAnswered(self, bus: Any, subject: bytes) -> bool:
        """
        Whether someone else receives the request, and will answer: an account from which this one
        imports JetStream, or a server behind a link. Clients do not count, as they may only listen.
        """
        receivers = bus.matcher.match(subject)
        others = sum(receiver.kind != Kind.CLIENT for receiver in receivers.plain) - 1
        return bool(others or receivers.links or receivers.groups)

    def _refused(self, subject: bytes, message: Message) -> Mapping[str, Any] | None:
        fitting = (
            candidate for candidate in self._routes if matches(candidate.subject.encode(), subject)
        )
        route = next(fitting, None)
        if route is None or route.kind in _SILENT:
            return None
        try:
            if len(message.payload) <= LONGEST:
                _READ_FIRST.get(route.kind, bytes)(message.payload)
            if route.kind in _CLUSTERED and not self.isClustered():
                raise errors.CLUSTER_REQUIRED()
            checkLevel(message)
            raise errors.NOT_ENABLED_FOR_ACCOUNT()
        except JetStreamError as error:
            return _failure(route.kind, error, route.missing)

    def _ofSystem(self, subject: bytes, message: Message) -> Mapping[str, Any] | None:
        if any(matches(pattern.encode(), subject) for pattern in UNANSWERED):
            return None
        if subject == b"INFO":
            return self._refused(subject, message)
        return _failure("system", errors.NOT_ENABLED_FOR_ACCOUNT(), {})


@implementer(IBatchSubscriber)
class _Silence:
    """The interest in requests with an unknown name, which get no answer but have a responder."""

    def deliver(self, message: Message, tag: Any) -> None:
        pass

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        pass

    def subscriptionEnded(self, tag: Any) -> None:
        pass


def _failure(kind: str, error: JetStreamError, missing: Mapping[str, Any]) -> Mapping[str, Any]:
    shown = {"type": f"io.nats.jetstream.api.v1.{kind}_response", "error": error.toJSON()}
    return {**shown, **missing}
