"""
A protocol that records its events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer


@implementer(IPushProducer)
class Recording(Protocol):
    """
    A protocol and producer that records its calls.
    """

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.onData: Callable[[], None] = lambda: None

    def connectionMade(self) -> None:
        self.events.append("made")

    def dataReceived(self, data: bytes) -> None:
        self.events.append(data)
        self.onData()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.events.append(reason.type)

    def pauseProducing(self) -> None:
        self.events.append("pause")

    def resumeProducing(self) -> None:
        self.events.append("resume")

    def stopProducing(self) -> None:
        self.events.append("stop")
