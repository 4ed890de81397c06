"""
The subscriptions that an account's subscribers have in the accounts whose streams it imports.

Promises: whoever is subscribed to something imported is subscribed to it over there, in the same
queue group, for as long as the subscription stands and the import does; messages count for the
subscription here, and come to it as its owner may have them.
Must never know: who the subscribers are, or what may be imported.

Shadows have no shadows, so a stream is imported from whoever publishes it; and what came to the
exporter as a request does not leave it as a stream. (Both observed of nats-server. Unlike there, a
subscription that ends after some messages counts the imported ones too.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from natsbroker import hot
from natsbroker.core.imports import StreamImport
from natsbroker.core.relays import Passage, Relay
from natsbroker.subjects.subscription import FIRST_LINK_KIND
from natsbroker.wire.values import Kind, Message

if TYPE_CHECKING:
    from natsbroker.core.account import Account

__all__ = ["Shadows"]


class _ShadowRelay(Relay):
    """
    What a subscription is to another account.
    """

    __slots__ = ("_importer", "_original", "_renaming")

    def __init__(
        self, importer: Account, imported: StreamImport, original: hot.Subscription
    ) -> None:
        self._importer = importer
        self._renaming = imported.renaming
        self._original = original

    def relay(self, message: Message, kind: Kind, passage: Passage | None) -> bool:
        """
        Give the subscription a message of the other account.
        """
        if passage is not None:
            return False
        renaming = self._renaming
        if not renaming.keeps:
            message = message.readdressed(renaming.toOurs(message.subject), message.reply)
        return self._importer.deliverTo(self._original, message, kind, None)

    def reaches(self, subject: bytes, kind: Kind, hops: int) -> bool:
        """
        See L{Relay.reaches}.
        """
        return not hops


class Shadows:
    """
    The shadows of one account's subscriptions.
    """

    def __init__(self, importer: Account) -> None:
        self._importer = importer
        self._imports: tuple[StreamImport, ...] = ()
        self._shadows: dict[hot.Subscription, list[tuple[Account, hot.Subscription]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._shadows.values()))

    def replace(self, imports: Sequence[StreamImport]) -> list[Exception]:
        """
        Import other streams from now on.

        @return: what went wrong: an exporter's router may take no more.
        """
        for subscription in list(self._shadows):
            self.removed(subscription)
        self._imports = tuple(imports)
        problems: list[Exception] = []
        if self._imports:
            for subscription in list(self._importer.subscriptions()):
                try:
                    self.added(subscription)
                except Exception as problem:
                    # The others shall be done first; the caller tells of it.
                    problems.append(problem)
        return problems

    def refresh(self) -> None:
        """
        Subscribers here changed in something that the exporters' matchers remember.
        """
        for exporter in {each.exporter for each in self._imports}:
            exporter.matcher.changed(b">")

    def added(self, subscription: hot.Subscription) -> None:
        """
        A subscription was made here: make its shadows.

        @raise natsbroker.errors.BrokerError: if a router takes no more; then there are none.
        """
        isLink = subscription.kind >= FIRST_LINK_KIND
        if isLink or isinstance(subscription.subscriber, Relay):
            return
        made: list[tuple[Account, hot.Subscription]] = []
        for each in self._imports:
            pattern = each.patternFor(subscription.pattern)
            if pattern is None:
                continue
            renaming = each.renaming
            relay = _ShadowRelay(self._importer, each, subscription)
            rename = None if renaming.keeps else renaming.toOurs
            shadow = hot.Shadow(each.exporter, pattern, relay, subscription, rename)
            try:
                each.exporter.attach(shadow)
            except Exception:
                _end(made)
                raise
            made.append((each.exporter, shadow))
        if made:
            self._shadows[subscription] = made

    def removed(self, subscription: hot.Subscription) -> None:
        """
        A subscription ended here: so do its shadows.
        """
        _end(self._shadows.pop(subscription, ()))


def _end(shadows: Sequence[tuple[Account, hot.Subscription]]) -> None:
    for exporter, shadow in shadows:
        exporter.detach(shadow)
