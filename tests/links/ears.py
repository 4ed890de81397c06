"""
Clients with real outboxes, on either lane, at a broker in memory.

The outboxes of ears write the bytes that they receive. A mouth publishes as a session does, first
by the lane.
"""

from __future__ import annotations

from typing import Any, Protocol

from zope.interface import implementer

from natsbroker.interfaces import IOutboxSubscriber
from natsbroker.wire import ops
from natsbroker.wire.values import Message
from tests.support import Names

__all__ = ["Ear", "Home", "Mouth"]


class Home(Protocol):
    """A broker with a bus for clients."""

    @property
    def batch(self) -> Any:
        """The flush batch of outboxes."""

    def bus(self) -> Any:
        """The bus for clients."""


@implementer(IOutboxSubscriber)
class Ear:
    """
    A client with an outbox.

    @ivar heard: the bytes that it has received.
    """

    def __init__(self, names: Names, home: Home) -> None:
        self.heard = b""
        self.outbox = names.Outbox(home.batch, self, self._write, 1 << 24)
        self.outbox.headers = True

    def _write(self, data: bytes) -> None:
        self.heard += data

    def deliver(self, message: Message, tag: Any) -> None:
        self.outbox.deliver(message, tag)

    def subscriptionEnded(self, tag: Any) -> None:
        pass

    def outboxOverflowed(self) -> None:
        pass

    def outboxFailed(self) -> None:
        pass


class Mouth(Ear):
    """A client that publishes, like a session."""

    def __init__(self, names: Names, home: Home) -> None:
        super().__init__(names, home)
        self._home = home
        self._decoder = names.Decoder()
        self._decoder.headers = True
        self._lane = names.Lane(self._decoder, self.outbox, home.bus().matcher, None, False)

    def say(self, data: bytes) -> int:
        """
        Publish frames.

        @return: the number of messages that the lane took.
        """
        self._decoder.append(data)
        taken = 0
        self._home.batch.enter()
        while True:
            taken += int(self._lane.forward())
            frame = self._decoder.next()
            if frame is None:
                break
            assert frame[0] in (ops.PUB, ops.HPUB)
            _, subject, reply, header, body, size, head = frame
            self._home.bus().publish(Message(subject, body, reply, header, self, size, head))
        self._home.batch.leave()
        return taken
