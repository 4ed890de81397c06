"""
Taking what clients send, in the order in which they sent it.

Promises: whatever came before a request is in force when the request is served, whatever subjects
they came on; all messages that one chunk of input brings are stored together. Who asks to have the
answer sent to where it may not listen itself gets none.
Must never know: what a request means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IMessageBus, IRunSubscriber, ISubscription
from natsbroker.streaming.groups import Subscription
from natsbroker.streaming.names import Subjects
from natsbroker.streaming.requests.access import Requester, requesterOf
from natsbroker.streaming.requests.acks import AckHandler
from natsbroker.streaming.requests.publish import PublishHandler
from natsbroker.wire.values import Message, Run

__all__ = ["Dispatcher"]

_log = Logger(namespace="natsbroker.streaming")

Request = Callable[[Message], object]


@implementer(IRunSubscriber)
class Dispatcher:
    """
    The one subscriber to all subjects of the service: being one, it gets everything in order. The
    tag of a bus subscription is what takes the message: C{None} for what is published, a
    L{Subscription} for acknowledgements, a function for requests.
    """

    def __init__(self, bus: IMessageBus, subjects: Subjects) -> None:
        self._bus = bus
        self._subjects = subjects
        self._publishing: PublishHandler | None = None
        self._acknowledging: AckHandler | None = None
        self._listening: list[ISubscription] = []
        self._origin: object = _NOTHING
        self._limited: Requester | None = None

    def open(
        self,
        publishing: PublishHandler,
        acknowledging: AckHandler,
        requests: Mapping[bytes, Request],
    ) -> None:
        """
        Take what clients send from now on.

        @param requests: what serves the requests on each subject.
        """
        self._publishing = publishing
        self._acknowledging = acknowledging
        subscribe = self._bus.subscribe
        self._listening = [subscribe(self._subjects.publish + b".>", self, None)]
        for subject, serve in requests.items():
            self._listening.append(subscribe(subject, self, serve))

    def close(self) -> None:
        """
        Take nothing more.
        """
        for subscription in self._listening:
            subscription.cancel()
        self._listening = []
        self._publishing = self._acknowledging = None

    def deliver(self, message: Message, tag: Any) -> None:
        """
        See L{IRunSubscriber}.
        """
        run = Run(
            message.subject, message.reply, [message.body], message.headerLength, message.origin
        )
        self.deliverRuns([(run, tag)])

    def deliverRuns(self, runs: list[tuple[Run, Any]]) -> None:
        """
        See L{IRunSubscriber}.
        """
        publishing, acknowledging = self._publishing, self._acknowledging
        if publishing is None or acknowledging is None:
            return
        self._origin = _NOTHING
        for run, tag in runs:
            try:
                run = self._answerable(run)
                if tag is None:
                    publishing.take(run)
                elif type(tag) is Subscription:
                    acknowledging.take(run, tag)
                else:
                    self._flush(publishing, acknowledging)
                    _serve(tag, run)
            except Exception:
                _log.failure("Messages on {subject} failed", subject=run.subject)
        self._flush(publishing, acknowledging)

    def _answerable(self, run: Run) -> Run:
        """
        The run, without a reply subject where the requester may not listen.
        """
        if run.origin is not self._origin:
            self._origin = run.origin
            requester = requesterOf(run.origin)
            self._limited = None if requester.hearsAll else requester
        if not run.reply or self._limited is None or self._limited.mayHear(run.reply):
            return run
        return Run(run.subject, b"", run.bodies, run.headerLength, run.origin)

    def _flush(self, publishing: PublishHandler, acknowledging: AckHandler) -> None:
        try:
            publishing.flush()
            acknowledging.flush()
        except Exception:
            _log.failure("What clients sent failed")

    def subscriptionEnded(self, tag: Any) -> None:
        """
        See L{IRunSubscriber}.
        """


def _serve(serve: Request, requests: Run) -> None:
    for message in requests:
        try:
            serve(message)
        except Exception:
            _log.failure("A message on {subject} failed", subject=message.subject)


#: An origin that no message has.
_NOTHING = object()
