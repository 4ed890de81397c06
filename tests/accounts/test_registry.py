"""
The registry of accounts, and the number of connections of each account.
"""

from __future__ import annotations

import gc
import re
from random import Random
from typing import Any
from weakref import ref

import pytest
from zope.interface.verify import verifyObject

from natsbroker import errors, hot
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.registry import AccountRegistry, BuiltInRouter, accountNames
from natsbroker.config.model import AccountLimits, AccountSettings
from natsbroker.config.settings.accounts import StreamExport, StreamImport
from natsbroker.interfaces import ISubjectRouter
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.conftest import FlushLoggedErrors
from tests.server.support import settingsOf
from tests.support import Recorder

TWO = "accounts { A { users: [{user: a, password: a}], limits { max_connections: 1 } }, B {} }"


def registry(text: str = "") -> AccountRegistry:
    """A registry with the accounts of a configuration."""
    batch = hot.FlushBatch(lambda call: None)
    made = AccountRegistry(AccountDependencies(batch), lambda name: BuiltInRouter(64))
    made.configure(settingsOf(text or "port: 4222"))
    return made


class TestNames:
    """The accounts that exist."""

    def test_builtInAccounts(self) -> None:
        """The global and the system account exist although no settings name them."""
        assert list(registry().names()) == ["$G", "$SYS"]

    def test_noSystemAccount(self) -> None:
        """The system account does not exist if it is disabled."""
        accounts = registry("no_system_account: true")
        assert list(accounts.names()) == ["$G"]
        assert (accounts.systemAccount, accounts.system) == ("", None)
        assert not accounts.isSystem("")

    def test_namedAccounts(self) -> None:
        """The accounts that the settings name exist, with their limits."""
        accounts = registry(TWO)
        assert {account.name for account in accounts} == {"$G", "$SYS", "A", "B"}
        assert len(accounts) == 4
        assert accounts.limits("A").max_connections == 1

    def test_systemAccount(self) -> None:
        """Another account than $SYS may be the system account."""
        accounts = registry(TWO + "\nsystem_account: A\nno_auth_user: a")
        assert accounts.isSystem("A")
        assert accounts.system is accounts["A"]
        assert not accounts.isSystem("$SYS")

    @pytest.mark.parametrize(("text", "remembered"), [("true", 0), ("false", 1)])
    def test_remembering(self, text: str, remembered: int) -> None:
        """Routing answers are remembered, unless the settings forbid it."""
        matcher = registry(f"disable_sublist_cache: {text}")["$G"].matcher
        matcher.match(b"s")
        assert len(matcher) == remembered

    def test_unknown(self) -> None:
        """A name without an account is not found."""
        with pytest.raises(KeyError):
            registry()["A"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("A", r'no account "A" \(there is \$G, \$SYS\): .* as accounts { A {} }'),
            (b"$G", "the name of an account is a str, not bytes"),
            (Random(), "the name of an account is a str, not Random"),
        ],
    )
    def test_mistakes(self, name: Any, text: str) -> None:
        """The error lists the existing accounts and explains the name."""
        with pytest.raises(KeyError) as caught:
            registry()[name]
        assert re.search(text, str(caught.value))

    def test_accountNames(self) -> None:
        """The names of accounts are available before the accounts are created."""
        assert list(accountNames(settingsOf(TWO))) == ["$G", "$SYS", "A", "B"]


class TestAdmission:
    """Counting connections."""

    def test_countsIn(self) -> None:
        """A connection that is accepted is counted, in its account only."""
        accounts = registry(TWO)
        bus = accounts.admit(Grant("B"))
        assert bus.account == "B"
        assert accounts.connections("B") == 1
        assert accounts.connections("A") == 0

    def test_countsOut(self) -> None:
        """A client that is dismissed no longer counts."""
        accounts = registry(TWO)
        accounts.admit(Grant("B"))
        accounts.dismiss(Grant("B"))
        assert accounts.connections("B") == 0

    def test_limit(self) -> None:
        """
        An account accepts as many connections as its limit, and another one after one has ended.
        """
        accounts = registry(TWO)
        accounts.admit(Grant("A"))
        with pytest.raises(errors.ConnectionLimit) as refused:
            accounts.admit(Grant("A"))
        assert refused.value.error == errors.MAX_ACCOUNT_CONNECTIONS
        accounts.dismiss(Grant("A"))
        accounts.admit(Grant("A"))

    def test_unknown(self) -> None:
        """No connection is admitted to an account that does not exist."""
        with pytest.raises(KeyError):
            registry().admit(Grant("A"))

    def test_isolation(self) -> None:
        """A message published in one account stays there."""
        accounts = registry(TWO)
        here, there = Recorder(), Recorder()
        accounts.admit(Grant("A")).subscribe(b"foo", here)
        bus = accounts.admit(Grant("B"))
        bus.subscribe(b"foo", there)
        bus.publish(Message(b"foo", b"hi"))
        assert (here.bodies, there.bodies) == ([], [b"hi"])


class TestChange:
    """New settings of accounts."""

    def test_comes(self) -> None:
        """An account that the new settings name exists."""
        accounts = registry()
        accounts.configure(settingsOf(TWO))
        assert accounts["A"].name == "A"

    def test_accountStays(self) -> None:
        """An account that the new settings still name is the same object."""
        accounts = registry(TWO)
        before = accounts["A"]
        accounts.configure(settingsOf(TWO))
        assert accounts["A"] is before

    def test_goesAtOnce(self) -> None:
        """
        An account that the new settings do not name is removed at once if it has no connections.
        """
        accounts = registry(TWO)
        accounts.configure(settingsOf("port: 4222"))
        assert list(accounts.names()) == ["$G", "$SYS"]

    def test_goesWithItsLastConnection(self) -> None:
        """
        An account that the new settings do not name accepts no connections, and is removed with its
        last one.
        """
        accounts = registry(TWO)
        accounts.admit(Grant("B"))
        accounts.configure(settingsOf("port: 4222"))
        with pytest.raises(KeyError):
            accounts.admit(Grant("B"))
        assert "B" in accounts.names()
        accounts.dismiss(Grant("B"))
        assert "B" not in accounts.names()

    def test_goneForGood(self) -> None:
        """
        A removed account is freed from memory, although a service still holds its subscription.
        """
        accounts = registry(TWO)
        account = ref(accounts["A"])
        held = Recorder()
        held.subscription = accounts["A"].busFor(Kind.LOCAL).subscribe(b"a", held, held)
        accounts.configure(settingsOf("port: 4222"))
        gc.collect()
        assert account() is None


def test_router() -> None:
    """The default router provides its interface."""
    verifyObject(ISubjectRouter, BuiltInRouter(64))


class TestFailures:
    """Subscribers that raise exceptions."""

    def test_logged(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """An exception is logged, and the publisher does not notice."""
        account = registry()["$G"]
        bus = account.busFor(Kind.INTERNAL)
        bus.subscribe(b"foo", Recorder(lambda message: 1 // 0))
        assert bus.publish(Message(b"foo", b"")) == 1
        assert len(flushLoggedErrors(ZeroDivisionError)) == 1


class TestIncluded:
    """Accounts that the settings do not name."""

    def test_included(self) -> None:
        """An included account exists with its limits, independently of the settings."""
        accounts = registry()
        accounts.include("A", AccountLimits(max_connections=1))
        accounts.configure(settingsOf("port: 4222"))
        accounts.admit(Grant("A"))
        with pytest.raises(errors.ConnectionLimit):
            accounts.admit(Grant("A"))
        accounts.include("A", AccountLimits())
        accounts.admit(Grant("A"))

    def test_excluded(self) -> None:
        """An excluded account accepts no connections, and is removed with its last one."""
        accounts = registry()
        accounts.include("A", AccountLimits())
        accounts.admit(Grant("A"))
        accounts.exclude("A")
        with pytest.raises(KeyError):
            accounts.admit(Grant("A"))
        accounts.dismiss(Grant("A"))
        assert "A" not in accounts.names()
        accounts.exclude("A")

    def test_comesBack(self) -> None:
        """An excluded account that is included again before it is removed exists again."""
        accounts = registry()
        accounts.include("A", AccountLimits())
        accounts.admit(Grant("A"))
        accounts.exclude("A")
        accounts.include("A", AccountLimits())
        accounts.dismiss(Grant("A"))
        assert accounts.admit(Grant("A")).account == "A"

    def test_systemStays(self) -> None:
        """The system account cannot be excluded."""
        accounts = registry()
        accounts.include("$SYS", AccountLimits())
        accounts.exclude("$SYS")
        assert accounts.admit(Grant("$SYS")).account == "$SYS"

    def test_exchange(self) -> None:
        """
        The accounts of an operator have the imports and exports of their JWTs until these change.
        """
        accounts = registry()
        for name in ("A", "B"):
            accounts.include(name, AccountLimits())
        heard = Recorder()
        accounts["B"].busFor(Kind.CLIENT).subscribe(b"news", heard)
        publish = accounts["A"].busFor(Kind.CLIENT).publish
        accounts.applySettings(
            {
                "A": AccountSettings("A", exports=(StreamExport("news"),)),
                "B": AccountSettings("B", imports=(StreamImport("A", "news", "news"),)),
            }
        )
        publish(Message(b"news", b"1"))
        accounts.applySettings({})
        publish(Message(b"news", b"2"))
        assert heard.bodies == [b"1"]

    def test_watched(self) -> None:
        """A watcher learns of existing accounts and of new ones."""
        accounts, told = registry(), list[str]()
        accounts.watch(lambda account: told.append(account.name))
        accounts.include("A", AccountLimits())
        accounts.configure(settingsOf("accounts { B {} }"))
        assert told == ["$G", "$SYS", "A", "B"]
