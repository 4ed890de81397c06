"""
The API requests about the cluster itself, which only the system account may send.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.jetstream.cluster.leadership import ClusterLeadership
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.requests import parseStepDown
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

_SUBJECT = b"$JS.API.META.LEADER.STEPDOWN"
_TYPE = "io.nats.jetstream.api.v1.meta_leader_stepdown_response"


@implementer(ISubscriber)
class MetaResponder:
    """
    Has another broker answer for whole accounts, on request.
    """

    def __init__(self, bus: IMessageBus, leadership: ClusterLeadership) -> None:
        """
        @param bus: that of the system account.
        """
        self._bus = bus
        self._leadership = leadership
        self._subscription: ISubscription | None = None

    def open(self) -> None:
        """
        Receive requests.
        """
        self._subscription = self._bus.subscribe(_SUBJECT, self)

    def close(self) -> None:
        """
        Receive nothing more.
        """
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.cancel()

    def deliver(self, message: Message, tag: Any) -> None:
        if self._leadership.isMeta and message.reply:
            Deferred.fromCoroutine(self._answer(message)).addErrback(_failed)

    async def _answer(self, message: Message) -> None:
        answer: dict[str, Any] = {"type": _TYPE}
        try:
            target = self._leadership.target(_placementOf(message.payload))
            await self._leadership.stepDown(target)
            answer["success"] = True
        except JetStreamError as error:
            answer["error"] = error.toJSON()
        self._bus.publishInternal(message.reply, encode(answer))

    def subscriptionEnded(self, tag: Any) -> None:
        """
        Not called: the subscription has no maximum.
        """


def _placementOf(body: bytes) -> Any:
    """
    Where the request wants the leader. As in nats-server, one that cannot be read says nothing.
    """
    try:
        return parseStepDown(body)
    except JetStreamError:
        return None


def _failed(failure: Failure) -> None:
    _log.failure("The leader of JetStream did not step down", failure)
