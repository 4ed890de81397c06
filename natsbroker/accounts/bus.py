"""
The buses of an account, one for each kind of origin.

The holder of a bus cannot lie about where a message comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.gateways import GatewayOutput
from natsbroker.interfaces import (
    IGatewayBus,
    IGatewayLink,
    IInterestTable,
    IInterestWatcher,
    ILinkSubscriber,
    IMessageBus,
    ISubscriber,
    ISubscription,
)
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.wire.values import Kind, Message

if TYPE_CHECKING:
    from natsbroker.accounts.account import Account
    from natsbroker.accounts.delivery import Later

__all__ = ["Bus", "GatewayBus"]


@implementer(IMessageBus)
class Bus:
    """
    The bus of an account for one kind of origin.

    @ivar account: the account's name.
    @ivar kind: the kind of origin.
    """

    __slots__ = ("_account", "_delivery", "account", "kind")

    def __init__(self, account: Account, kind: Kind) -> None:
        self._account = account
        self._delivery = account.delivery
        self.account = account.name
        self.kind = kind

    @property
    def matcher(self) -> hot.Matcher:
        """
        For the fast lane: who is subscribed to a subject.
        """
        return self._account.matcher

    def mapped(self, subject: bytes) -> bytes:
        return self._account.exchange.mapped(subject)

    def refresh(self) -> None:
        self._account.refresh()

    def publish(self, message: Message, later: Later | None = None) -> int:
        return self._delivery.publish(self.kind, message, later=later)

    def publishInternal(self, subject: bytes, payload: bytes) -> int:
        return self._delivery.publishInternal(self.kind, subject, payload)

    def publishBatch(self, subject: bytes, payloads: list[bytes]) -> int:
        return self._delivery.publishBatch(self.kind, subject, payloads)

    # The former names, for one more release.
    post = publishInternal
    postMany = publishBatch

    def subscribe(
        self,
        pattern: bytes,
        subscriber: ISubscriber | ILinkSubscriber,
        tag: Any = None,
        queue: bytes = b"",
        weight: int = 1,
    ) -> ISubscription:
        return cast(
            ISubscription,
            self._account.subscribe(self.kind, pattern, subscriber, tag, queue, weight),
        )

    def cancelAll(self, subscriptions: Iterable[Any]) -> None:
        self._account.cancelAll(subscriptions)

    def hasInterest(self, subject: bytes) -> bool:
        return self._delivery.hasInterest(self.kind, subject)

    def watchInterest(
        self,
        watcher: IInterestWatcher,
        interestFilter: InterestFilter | None = None,
        isPatient: bool = False,
        whenTold: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        return self._account.watch(watcher, interestFilter, isPatient, whenTold)


@implementer(IGatewayBus)
class GatewayBus(Bus):
    """
    The bus for what passes between clusters.
    """

    __slots__ = ()

    def openGateway(self, link: IGatewayLink, table: IInterestTable) -> GatewayOutput:
        return self._account.gateways.open(link, table)

    def isWanted(self, subject: bytes) -> bool:
        return self._delivery.isWanted(subject)

    def answer(self, message: Message) -> int:
        return self._delivery.publish(Kind.CLIENT, message)
