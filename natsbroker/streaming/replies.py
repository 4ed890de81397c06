"""
Answers to requests.
"""

from __future__ import annotations

from typing import Any

from natsbroker.interfaces import IMessageBus
from natsbroker.streaming.protocol import (
    CloseResponse,
    ConnectResponse,
    PubAck,
    SubscriptionResponse,
)

__all__ = ["Replies"]


class Replies:
    """
    Sends answers. A request without a reply subject gets none.
    """

    def __init__(self, bus: IMessageBus) -> None:
        self._bus = bus

    def send(self, reply: bytes, response: Any) -> None:
        """
        Send a message of the protocol.
        """
        if reply:
            self._bus.post(reply, response.SerializeToString())

    def connectError(self, reply: bytes, text: str) -> None:
        """
        A client was not let in.
        """
        self.send(reply, ConnectResponse(error=text))

    def publishError(self, reply: bytes, guid: str, text: str) -> None:
        """
        A message was not stored.
        """
        self.send(reply, PubAck(guid=guid, error=text))

    def subscription(self, reply: bytes, text: str = "") -> None:
        """
        A request about a subscription was refused or, without text, granted.
        """
        self.send(reply, SubscriptionResponse(error=text))

    def close(self, reply: bytes, text: str = "") -> None:
        """
        A request to close a connection was refused or, without text, granted.
        """
        self.send(reply, CloseResponse(error=text))
