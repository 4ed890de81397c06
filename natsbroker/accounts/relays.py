"""
What stands among an account's subscribers and hands messages on to another account.

The base of imports, of answers to imported services, and of the subscriptions that other
accounts have here; a message that goes through several accounts carries with it which way it came.
"""

from __future__ import annotations

from typing import Any, ClassVar

from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.settings import ServiceExport
from natsbroker.interfaces import IOrigin, ISubscriber
from natsbroker.wire.values import ClientInfo, Kind, Message

__all__ = ["MOST_HOPS", "ImportHop", "ImportPath", "Relay", "originOf", "relaySubscription"]

#: So many imports a message may pass; then it reaches nobody.
MOST_HOPS = 16


@implementer(ISubscriber)
class Relay:
    """
    A subscriber that hands messages on.

    @cvar isAdvertised: whether other brokers are told of its subscriptions.
    """

    __slots__ = ()

    isAdvertised: ClassVar[bool] = True

    def relay(self, message: Message, kind: Kind, path: ImportPath | None) -> bool:
        """
        Hand a message on.

        @param kind: the kind of its origin.
        @param path: how it came into this account; C{None} if it was published here.
        @return: whether anybody took it.
        """
        raise NotImplementedError

    def reaches(self, subject: bytes, kind: Kind, hops: int) -> bool:
        """
        Whether a message to a literal subject would reach anybody.

        @param hops: how many imports it has passed.
        """
        raise NotImplementedError

    def deliver(self, message: Message, tag: Any) -> None:
        """
        Nobody calls this: an account asks a relay what became of a message.
        """
        raise NotImplementedError

    def subscriptionEnded(self, tag: Any) -> None:
        """
        A relay's subscription does not end by itself.
        """


class ImportHop:
    """
    A way for requests or answers over the border of an account.

    @ivar export: what makes it possible; no message passes the same twice.
    @ivar share: whether details about whoever asked go along.
    """

    __slots__ = ("export", "share")

    def __init__(self, export: ServiceExport, share: bool) -> None:
        self.export = export
        self.share = share


class ImportPath:
    """
    The way that a message took through services of other accounts.

    @ivar hops: the borders, first to last.
    @ivar requestor: what was told about whoever asked, at the last of them; C{None} for answers.
    """

    __slots__ = ("hops", "requestor")

    def __init__(self, hops: tuple[ImportHop, ...], requestor: ClientInfo | None) -> None:
        self.hops = hops
        self.requestor = requestor

    def refuses(self, export: ServiceExport) -> bool:
        """
        Whether a message that came this way may not pass an export, because it did before or has
        come too far.
        """
        hops = self.hops
        return len(hops) >= MOST_HOPS or any(each.export is export for each in hops)


def originOf(message: Message) -> Any:
    """
    The client that published a message, if it was one (an L{IOrigin}).
    """
    origin = message.origin
    return origin if origin is not None and IOrigin.providedBy(origin) else None


def relaySubscription(account: Any, pattern: bytes, relay: Relay) -> hot.Subscription:
    """
    A relay's subscription in an account, which is still to be attached there.
    """
    return hot.Subscription(account, pattern, b"", int(Kind.INTERNAL), relay, None)
