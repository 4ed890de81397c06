"""
API requests about the cluster itself, which only the system account may send.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.cluster.leadership import ClusterLeadership
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.members import peerId
from natsbroker.jetstream.model.requests import parseServer, parseStepDown
from natsbroker.wire.clientinfo import eventId
from natsbroker.wire.timestamps import formatTime
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

_STEP_DOWN = "META.LEADER.STEPDOWN", "meta_leader_stepdown"
_REMOVE = "SERVER.REMOVE", "meta_server_remove"


@implementer(ISubscriber)
class MetaResponder:
    """Answers requests to move the meta leader and to remove a server."""

    def __init__(
        self,
        bus: IMessageBus,
        leadership: ClusterLeadership,
        now: Callable[[], int],
        domain: str = "",
    ) -> None:
        """The responder; C{bus} is the system account's, C{now} the wall clock in nanoseconds."""
        self._bus = bus
        self._leadership = leadership
        self._now = now
        self._domain = domain
        self._random = Random()
        self._subscriptions: list[ISubscription] = []

    def open(self) -> None:
        self._subscriptions = [
            self._bus.serve(f"$JS.API.{route[0]}".encode(), self, route)
            for route in (_STEP_DOWN, _REMOVE)
        ]

    def close(self) -> None:
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()

    def deliver(self, message: Message, tag: Any) -> None:
        if self._leadership.isMeta and message.reply:
            Deferred.fromCoroutine(self._answer(message, tag)).addErrback(_failed)

    async def _answer(self, message: Message, kind: tuple[str, str]) -> None:
        answer: dict[str, Any] = {"type": f"io.nats.jetstream.api.v1.{kind[1]}_response"}
        try:
            if kind is _REMOVE:
                await self._remove(parseServer(message.payload))
            else:
                target = self._leadership.target(_placementOf(message.payload))
                await self._leadership.stepDown(target)
            answer["success"] = True
        except JetStreamError as error:
            answer["error"] = error.toJSON()
        except StoreError:
            answer["error"] = errors.CLUSTER_NOT_AVAIL().toJSON()
        self._bus.publishInternal(message.reply, encode(answer))

    async def _remove(self, peer: str) -> None:
        name = await self._leadership.remove(peer)
        event = {
            "type": "io.nats.jetstream.advisory.v1.server_removed",
            "id": eventId(self._random),
            "timestamp": formatTime(self._now()),
            "server": name,
            "server_id": peerId(name),
            "cluster": self._leadership.members.cluster,
        }
        if self._domain:
            event["domain"] = self._domain
        self._bus.publishInternal(b"$JS.EVENT.ADVISORY.SERVER.REMOVED", encode(event))

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""


def _placementOf(body: bytes) -> Any:
    """The placement of the leader in a request. As in nats-server, an unreadable one is ignored."""
    try:
        return parseStepDown(body)
    except JetStreamError:
        return None


def _failed(failure: Failure) -> None:
    _log.failure("A request about the cluster failed", failure)
