"""
What an account has of other accounts, and they of it.

Everything here can be replaced while messages flow; what is gone leaves nothing
behind. An account that exchanges nothing pays a look at three empty places when somebody subscribes
or unsubscribes, and nothing for a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from natsbroker import hot
from natsbroker.accounts.imports import ImportedService, ImportedStream
from natsbroker.accounts.relays import Relay, relaySubscription
from natsbroker.accounts.responses import PendingReplies, Responses
from natsbroker.accounts.shadows import Shadows
from natsbroker.subjects.mapping import MappingTable

if TYPE_CHECKING:
    from natsbroker.accounts.account import Account

__all__ = ["Exchange"]


class _MappedHere(Relay):
    """
    Stands for the subjects that are mapped here, where leafnodes are told what they may publish:
    it is among no account's subscriptions, since a mapped message is not delivered as it came.
    """

    __slots__ = ()

    isAdvertised = False


_MAPPED_HERE = _MappedHere()


class Exchange:
    """
    The mappings, imports and debts of one account.

    @ivar awaited: the answers that are waited for here.
    """

    __slots__ = ("_account", "_mapping", "_responses", "_services", "_shadows", "awaited")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._mapping: MappingTable | None = None
        self._shadows: Shadows | None = None
        self._services: list[hot.Subscription] = []
        self._responses: Responses | None = None
        self.awaited = PendingReplies()

    def mapSubjects(self, table: MappingTable | None) -> None:
        """
        Map what clients publish.

        @param table: where subjects lead; C{None} for where they say.
        """
        if table is not None and not table.mappings:
            table = None
        if table is self._mapping:
            return
        for each in self.mappedPatterns():
            self._account.unlearned(each)
        self._mapping = table
        for each in self.mappedPatterns():
            self._account.learned(each)
        matcher = self._account.matcher
        matcher.mapSubject = None if table is None else table.fixed
        matcher.changed(b">")

    def mappedPatterns(self) -> Iterator[hot.Subscription]:
        """
        What stands for each pattern that is mapped here.
        """
        for each in () if self._mapping is None else self._mapping.mappings:
            yield relaySubscription(self._account, each.source, _MAPPED_HERE)

    def mapped(self, subject: bytes) -> bytes:
        return subject if self._mapping is None else self._mapping.map(subject)

    def importStreams(self, imports: Sequence[ImportedStream]) -> list[Exception]:
        """
        Have messages of other accounts, instead of those that were imported before.

        @return: what went wrong: an exporter's router may take no more subscriptions.
        """
        if self._shadows is None:
            if not imports:
                return []
            self._shadows = Shadows(self._account)
        problems = self._shadows.replace(imports)
        if not imports:
            self._shadows = None
        return problems

    def importServices(self, imports: Sequence[ImportedService]) -> list[Exception]:
        """
        Have services of other accounts, instead of those that were imported before.

        @return: what went wrong: the router may take no more subscriptions.
        """
        services, self._services = self._services, []
        for subscription in services:
            self._account.detach(subscription)
        problems: list[Exception] = []
        for each in imports:
            made = each.subscription()
            try:
                self._account.attach(made)
            except Exception as problem:
                # The others shall be done first; the caller tells of it.
                problems.append(problem)
            else:
                self._services.append(made)
        return problems

    @property
    def responses(self) -> Responses:
        """
        The answers that the account's services owe to others.
        """
        if self._responses is None:
            self._responses = Responses(self._account)
        return self._responses

    def refresh(self) -> None:
        """
        Something about subscribers here changed that others remember.
        """
        if self._shadows is not None:
            self._shadows.refresh()

    def close(self) -> None:
        """
        Owe nothing any more.
        """
        if self._responses is not None:
            self._responses.close()

    def subscribed(self, subscription: hot.Subscription) -> None:
        """
        A subscription was made here.

        @raise natsbroker.errors.BrokerError: if another account's router takes no more.
        """
        if self._shadows is not None:
            self._shadows.added(subscription)

    def reweighed(self, subscription: hot.Subscription) -> None:
        """
        A subscription here stands for another number of members.
        """
        if self._shadows is not None:
            self._shadows.reweighed(subscription)

    def unsubscribed(self, subscription: hot.Subscription) -> None:
        """
        A subscription ended here.
        """
        if self._shadows is not None:
            self._shadows.removed(subscription)
        if self.awaited:
            self.awaited.interestLost(subscription.pattern, self._account.matcher.match)
