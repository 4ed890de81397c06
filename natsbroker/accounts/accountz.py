"""
The page C{/accountz}, with the keys of nats-server's that concern accounts of a configuration file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from natsbroker.accounts.account import Account
from natsbroker.accounts.pages import exchangesOf
from natsbroker.accounts.subsz import sublistFigures
from natsbroker.clients.selection import accountOf
from natsbroker.monitoring.answers import JSON, PAUSE, Answer, bodyOf
from natsbroker.monitoring.formats import instant
from natsbroker.monitoring.queries import BadQuery, Query, repeated, text
from natsbroker.monitoring.state import BrokerState

#: How many connections are gone through in one step.
_STEP = 256


class Accountz:
    """
    @ivar countLeafnodes: gives the number of leafnodes in the account of a name.
    @ivar hasJetStream: whether the account of a name has JetStream.
    """

    def __init__(self, state: BrokerState) -> None:
        self.countLeafnodes: Callable[[str], int] = lambda name: 0
        self.hasJetStream: Callable[[str], bool] = lambda name: False
        self._state = state

    def __call__(self, query: Query) -> Answer:
        name = text(query, "acc")
        account = next((each for each in self._state.accounts if each.name == name), None)
        if name and account is None:
            raise BadQuery(f"Account {repeated(name)} does not exist")
        return Answer(200, JSON, bodyOf(self.steps(account)))

    def __contains__(self, name: object) -> bool:
        return any(each.name == name for each in self._state.accounts)

    def detail(self, name: str) -> Generator[bytes, None, dict[str, Any]]:
        """
        @param name: of an account.
        """
        account = next(each for each in self._state.accounts if each.name == name)
        return self._detail(account)

    def steps(self, account: Account | None = None) -> Generator[bytes, None, dict[str, Any]]:
        """
        @param account: the one in detail; C{None} for the names of all.
        """
        state = self._state
        head = {"server_id": state.context.info.server_id, "now": instant(state.seconds())}
        if state.systemAccount:
            head["system_account"] = state.systemAccount
        if account is None:
            return {**head, "accounts": [each.name for each in state.accounts]}
        return {**head, "account_detail": (yield from self._detail(account))}

    def _detail(self, account: Account) -> Generator[bytes, None, dict[str, Any]]:
        state, name = self._state, account.name
        clients = yield from self._connected(name)
        detail: dict[str, Any] = {
            "account_name": name,
            "update_time": instant(state.configLoadTime),
        }
        if name == state.systemAccount:
            detail["is_system"] = True
        detail |= {
            "expired": False,
            "complete": True,
            "jetstream_enabled": self.hasJetStream(name),
            "leafnode_connections": self.countLeafnodes(name),
            "client_connections": clients,
            "subscriptions": len(account),
        }
        if name in state.settings.accounts:
            detail |= exchangesOf(state.settings.accounts[name])
        return {**detail, "name_tag": name, "sublist_stats": sublistFigures([account])}

    def _connected(self, name: str) -> Generator[bytes, None, int]:
        count = 0
        for place, session in enumerate(list(self._state.context.connections)):
            if place % _STEP == _STEP - 1:
                yield PAUSE
            count += accountOf(session.facts()) == name
        return count
