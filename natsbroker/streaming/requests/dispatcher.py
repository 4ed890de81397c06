"""
The subscriber to the subjects of the service, which gives each message to its handler.

Messages are handled in the order in which clients sent them, across subjects: earlier messages are
in force when a request is handled. The messages that one chunk of input brings are stored together.
A reply subject that the requester may not subscribe to is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IRunSubscriber, ISubscription
from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.model import ChannelSubscription
from natsbroker.streaming.requests.access import requesterOf
from natsbroker.streaming.requests.acks import AckHandler
from natsbroker.streaming.requests.close import CloseHandler
from natsbroker.streaming.requests.connect import ConnectHandler
from natsbroker.streaming.requests.publish import PublishHandler
from natsbroker.streaming.requests.subscribe import SubscribeHandler
from natsbroker.wire.values import Message, Run

_log = Logger(namespace="natsbroker.streaming")

COST = 1500
"""The cost of a request, in the units of L{natsbroker.pure.backlog}."""


class RequestHandler(NamedTuple):
    handle: Callable[[Message], object]
    cost: int = COST


@implementer(IRunSubscriber)
class Dispatcher:
    """
    The one subscriber to all subjects of the service, which receives everything in order. The tag
    of a bus subscription names the handler: C{None} for published messages, a
    L{ChannelSubscription} for its acknowledgements, a L{RequestHandler} for requests.
    """

    def __init__(self, context: StreamingContext) -> None:
        self._bus = context.bus
        self.close = CloseHandler(context)
        self.publish = PublishHandler(context)
        self.acks = AckHandler(context, self.close.withdraw)
        self.subscribe = SubscribeHandler(context, self.close, self)
        self.connect = ConnectHandler(context, self.close.dismiss)
        subjects = context.subjects
        self._handlers: dict[bytes, RequestHandler | None] = {
            subjects.publish + b".>": None,
            subjects.discover: RequestHandler(self.connect.connect),
            subjects.pings: RequestHandler(self.connect.ping),
            subjects.subscribe: RequestHandler(self.subscribe.subscribe),
            subjects.unsubscribe: RequestHandler(self.close.unsubscribe),
            subjects.subClose: RequestHandler(self.close.closeSubscription),
            subjects.close: RequestHandler(self.close.close),
        }
        self._subscriptions: list[ISubscription] = []
        # The origin of the last message, and its grant.
        self._origin: object = _NOTHING
        self._grant: object = None
        self._requester = requesterOf(_NOTHING)

    def start(self) -> None:
        self._subscriptions = [
            self._bus.serve(subject, self, handler) for subject, handler in self._handlers.items()
        ]

    def stop(self) -> None:
        """End the subscriptions. Messages that still arrive are ignored."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()

    def deliver(self, message: Message, tag: Any) -> None:
        run = Run(
            message.subject, message.reply, [message.body], message.headerLength, message.origin
        )
        self.deliverRuns([(run, tag)])

    def deliverRuns(self, runs: list[tuple[Run, Any]]) -> None:
        if not self._subscriptions:
            return
        for run, tag in runs:
            try:
                run = self._answerable(run)
                if tag is None:
                    self.publish.take(run, self._requester)
                elif type(tag) is ChannelSubscription:
                    self.acks.take(run, tag)
                else:
                    self._flush()
                    _serve(tag.handle, run)
            except Exception:
                _log.failure("Messages on {subject} failed", subject=run.subject)
        self._flush()

    def _answerable(self, run: Run) -> Run:
        """The run, without a reply subject that its requester may not subscribe to."""
        grant = getattr(run.origin, "grant", None)
        if run.origin is not self._origin or grant is not self._grant:
            self._requester = requesterOf(run.origin)
            self._origin, self._grant = run.origin, grant
        requester = self._requester
        if not run.reply or requester.hearsAll or requester.mayHear(run.reply):
            return run
        return Run(run.subject, b"", run.bodies, run.headerLength, run.origin)

    def _flush(self) -> None:
        try:
            self.publish.flush()
            self.acks.flush()
        except Exception:
            _log.failure("Messages of clients failed")

    def subscriptionEnded(self, tag: Any) -> None:
        """Do nothing: L{ChannelSubscription} ends the subscriptions for acknowledgements."""


def _serve(serve: Callable[[Message], object], requests: Run) -> None:
    for message in requests:
        try:
            serve(message)
        except Exception:
            _log.failure("A message on {subject} failed", subject=message.subject)


#: An origin that no message has.
_NOTHING = object()
