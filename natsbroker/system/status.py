"""
The status that the broker publishes in the system account at intervals, as nats-server does::

    $SYS.SERVER.<id>.STATSZ
    $SYS.SERVER.<id>.LAMEDUCK      it takes no more connections
    $SYS.SERVER.<id>.SHUTDOWN      it stops

nats-servers with JetStream elect no leader until every member of the cluster, and every gateway of
their configuration, has reported whether it takes part. A broker that does not publish this blocks
them.

Nothing is published without a subscriber. Of several brokers that are one server one speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.advisories import Advisory, LameDuckStarted, ShutdownStarted
from natsbroker.interfaces import IMessageBus, IObserver
from natsbroker.runtime.responder import Describe
from natsbroker.wire.clientinfo import compact
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker")

#: Seconds before the first report, and the longest interval. Intervals double from the first on,
#: because the first reports may be sent before there are links that carry them.
_FIRST = 0.5
_USUAL = 10.0

#: The last word of the subject, by the kind of advisory.
_ENDS = {LameDuckStarted: "LAMEDUCK", ShutdownStarted: "SHUTDOWN"}


@implementer(IObserver)
class StatusReports(Service):
    name = "status"

    def __init__(
        self,
        bus: Callable[[], IMessageBus | None],
        serverId: str,
        describe: Describe,
        report: Callable[[], Deferred[bytes | None]],
        reactor: Any,
        isSpeaking: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        @param report: makes the body of C{STATSZ}; C{None} for no report.
        """
        self._bus = bus
        self._serverId = serverId
        self._describe = describe
        self._report = report
        self._reactor = reactor
        self._isSpeaking = isSpeaking
        self._timer: Any = None
        self._pause = _FIRST

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._pause = _FIRST
        self._timer = self._reactor.callLater(self._pause, self._publish)

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _publish(self) -> None:
        self._pause = min(2 * self._pause, _USUAL)
        self._timer = self._reactor.callLater(self._pause, self._publish)
        bus = self._bus()
        subject = f"$SYS.SERVER.{self._serverId}.STATSZ".encode("ascii")
        if bus is not None and self._isSpeaking() and bus.hasInterest(subject):
            reporting = self._report().addCallback(self._publishReport, bus, subject)
            reporting.addErrback(lambda why: _log.failure("The status cannot be published", why))

    def _publishReport(self, report: bytes | None, bus: IMessageBus, subject: bytes) -> None:
        if report is not None and self.running:
            bus.publish(Message(subject, report))

    def observe(self, advisory: Advisory) -> None:
        name = _ENDS.get(type(advisory))
        if name is None:
            return
        bus = self._bus()
        subject = f"$SYS.SERVER.{self._serverId}.{name}".encode("ascii")
        if bus is not None and bus.hasInterest(subject):
            bus.publish(Message(subject, compact(self._describe())))
