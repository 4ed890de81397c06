"""
The base of subscribers that pass messages on to another account: imported services, responses, and
shadows of subscriptions. A message carries the imports that it has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from zope.interface import implementer

from natsbroker import hot
from natsbroker.config.settings.accounts import ServiceExport
from natsbroker.interfaces import IOrigin, ISubscriber
from natsbroker.wire.values import ClientInfo, Kind, Message

#: The most imports that a message may pass; then it is dropped.
MOST_HOPS = 16


@implementer(ISubscriber)
class Relay:
    """Passes messages on. Other brokers learn of its subscriptions if it C{isAdvertised}."""

    __slots__ = ()

    isAdvertised: ClassVar[bool] = True

    def relay(self, message: Message, kind: Kind, path: ImportPath | None) -> bool:
        raise NotImplementedError

    def reaches(self, subject: bytes, kind: Kind, hops: int) -> bool:
        """
        Whether a message to a literal subject would have a receiver after this number of imports.
        """
        raise NotImplementedError

    def deliver(self, message: Message, tag: Any) -> None:
        raise NotImplementedError("a relay gets messages by relay(), not by deliver()")

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: a relay's subscription has no maximum."""


@dataclass(eq=False, slots=True)
class ImportHop:
    """
    An import that a message has passed. No message passes one C{export} twice. C{isAnswer} marks
    replies.
    """

    isAnswer: ClassVar[bool] = False

    export: ServiceExport
    share: bool


@dataclass(eq=False, slots=True)
class ImportPath:
    """
    The imports that a message has passed, from first to last, with the last one's requestor, or
    C{None} for responses.
    """

    hops: tuple[ImportHop, ...]
    requestor: ClientInfo | None

    @property
    def isAnswer(self) -> bool:
        """Whether the subject is a reply subject, which its publisher did not choose."""
        return any(hop.isAnswer for hop in self.hops)

    def refuses(self, export: ServiceExport) -> bool:
        """
        Whether a message may not pass an export, because it has passed it before, or too many.
        """
        hops = self.hops
        return len(hops) >= MOST_HOPS or any(hop.export is export for hop in hops)


def originOf(message: Message) -> Any:
    origin = message.origin
    return origin if origin is not None and IOrigin.providedBy(origin) else None


def relaySubscription(account: Any, pattern: bytes, relay: Relay) -> hot.Subscription:
    return hot.Subscription(account, pattern, b"", int(Kind.INTERNAL), relay, None)
