"""
The contract suites: our own providers pass them, and wrong ones do not.
"""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, is_hypothesis_test, settings
from twisted.enterprise.adbapi import ConnectionPool
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.registry import BuiltInRouter
from natsbroker.auth.authenticator import Authenticator
from natsbroker.errors import Unauthorized
from natsbroker.interfaces import (
    IAuthorizer,
    IInterestWatcher,
    IMessageBus,
    ISubjectRouter,
    ISubscriber,
)
from natsbroker.subjects.grammar import matches
from natsbroker.testing.contracts import (
    authorizerTests,
    interestWatcherTests,
    messageBusTests,
    subjectRouterTests,
    subscriberTests,
)
from natsbroker.testing.contracts.base import QUICK
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Kind, Message
from tests.support import BatchRecorder, Recorder, Router, WatchRecorder

GOOD = ConnectRequest(options={"user": "me", "pass": "secret"})
BAD = ConnectRequest(options={"user": "me", "pass": "wrong"})


@implementer(ISubjectRouter)
class ListRouter:
    """A simple, slow and correct router of a third party."""

    def __init__(self) -> None:
        self.held: list[tuple[bytes, Any]] = []

    def insert(self, pattern: bytes, entry: object) -> None:
        self.held.append((pattern, entry))

    def remove(self, pattern: bytes, entry: object) -> bool:
        for place, (known, held) in enumerate(self.held):
            if known == pattern and held is entry:
                del self.held[place]
                return True
        return False

    def match(self, subject: bytes) -> Iterable[Any]:
        return [entry for pattern, entry in self.held if matches(pattern, subject)]

    def hasInterest(self, subject: bytes) -> bool:
        return bool(self.match(subject))

    def watchChanges(self, changed: Any) -> None:
        """Nothing to do: the rules do not change."""

    def __iter__(self) -> Iterator[Any]:
        return iter([entry for _, entry in self.held])

    def __len__(self) -> int:
        return len(self.held)


class Gatekeeper(Authenticator):
    """
    An authorizer as an application may write it.
    """

    def authenticate(self, hello: ConnectRequest) -> Any:
        if (hello.text("user"), hello.text("pass")) != ("me", "secret"):
            raise Unauthorized("wrong password")
        return "me"


class LateGatekeeper(Gatekeeper):
    """An authorizer whose method is a coroutine."""

    async def authenticate(self, hello: ConnectRequest) -> Any:
        await succeed(None)
        return Gatekeeper.authenticate(self, hello)


class DatabaseAuthenticator(Authenticator):
    """An authorizer that asks a database in threads, as an application with C{adbapi} does."""

    def __init__(self) -> None:
        super().__init__()
        self.database = ConnectionPool("sqlite3", ":memory:", check_same_thread=False)
        self.database.start()

    async def authenticate(self, request: ConnectRequest) -> Any:
        given = (str(request.text("user")), str(request.text("pass")))
        query = "SELECT name FROM (SELECT 'me' AS name, 'secret' AS password)"
        rows = await self.database.runQuery(f"{query} WHERE name = ? AND password = ?", given)
        if not rows:
            raise Unauthorized("wrong password")
        return rows[0][0]


def settingsAuthorizer() -> IAuthorizer:
    """The built-in authorizer, from settings."""
    text = "authorization { users: [{ user: me, password: secret }] }"
    return MemoryBroker(configText=text).broker.clientContext.authorizer


def bus() -> IMessageBus:
    """The built-in bus."""
    turn = hot.FlushBatch(lambda call: None)
    return Account("A", Router(), AccountDependencies(turn, Random(1))).busFor(Kind.INTERNAL)


def busWithListRouter() -> IMessageBus:
    """The built-in bus with a third party's router."""
    turn = hot.FlushBatch(lambda call: None)
    return Account("A", ListRouter(), AccountDependencies(turn, Random(1))).busFor(Kind.CLIENT)


def brokerBus() -> IMessageBus:
    """The bus of a whole broker."""
    return MemoryBroker().bus()


TestBuiltInRouter = subjectRouterTests(lambda: BuiltInRouter(1024))
TestListRouter = subjectRouterTests(ListRouter)
TestGatekeeper = authorizerTests(Gatekeeper, GOOD, BAD, lambda keeper: keeper.revoke())
TestLateGatekeeper = authorizerTests(LateGatekeeper, GOOD, BAD, lambda keeper: keeper.revoke())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            (Gatekeeper, {"user": "a"}, BAD),
            r"goodHello is dict, not ConnectRequest: write ConnectRequest\(options={'user': 'a'}\)",
        ),
        ((Gatekeeper, GOOD, None), "badHello is NoneType, not ConnectRequest"),
        ((Gatekeeper(), GOOD, BAD), r"makes an authorizer .*: write lambda: Gatekeeper\(...\)"),
    ],
)
def test_mistakes(arguments: Any, text: str) -> None:
    """A class that cannot be tested is refused with the right spelling."""
    with pytest.raises(TypeError, match=text):
        authorizerTests(*arguments)


TestSettingsAuthorizer = authorizerTests(settingsAuthorizer, GOOD, BAD)
TestDatabaseAuthorizer = authorizerTests(
    DatabaseAuthenticator,
    GOOD,
    BAD,
    settle=lambda: reactor.iterate(0.01),
    close=lambda authenticator: authenticator.database.close(),
)
TestBus = messageBusTests(bus)
TestBusWithListRouter = messageBusTests(busWithListRouter)
TestBrokerBus = messageBusTests(brokerBus)
TestRecorder = subscriberTests(Recorder, [None, b"1", object()])
TestBatchRecorder = subscriberTests(BatchRecorder)
TestWatchRecorder = interestWatcherTests(WatchRecorder)


FIRST_FAILURE = settings(QUICK, phases=(Phase.explicit, Phase.generate))


@functools.cache
def failuresOf(suite: Any) -> set[str]:
    """
    The failing tests of a suite, without a search for the smallest example of each failure.

    @return: the names of the tests of a suite that fail.
    """
    for method in map(suite.__dict__.get, dir(suite)):
        if is_hypothesis_test(method):
            # Hypothesis has no public way to change the settings of a test.
            method._hypothesis_internal_use_settings = FIRST_FAILURE
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(suite).run(result)
    assert result.testsRun
    return {test.id().rpartition(".")[2] for test, _ in [*result.failures, *result.errors]}


class Forgetful(ListRouter):
    """Removes every entry that is equal."""

    def remove(self, pattern: bytes, entry: object) -> bool:
        before = len(self.held)
        self.held = [pair for pair in self.held if pair != (pattern, entry)]
        return len(self.held) < before


class Greedy(ListRouter):
    """Lets C{a.>} match C{a}."""

    def match(self, subject: bytes) -> Iterable[Any]:
        return [
            entry
            for pattern, entry in self.held
            if matches(pattern, subject) or pattern == subject + b".>"
        ]


class Stale(ListRouter):
    """Never forgets a match."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[bytes, Iterable[Any]] = {}

    def match(self, subject: bytes) -> Iterable[Any]:
        return self.known.setdefault(subject, super().match(subject))


class Silent(ListRouter):
    """Ignores case, and does not announce the other spellings."""

    def match(self, subject: bytes) -> Iterable[Any]:
        return [entry for pattern, entry in self.held if caseless(pattern, subject)]


def caseless(pattern: bytes, subject: bytes) -> bool:
    """Whether a pattern matches a subject in any spelling."""
    return matches(pattern.lower(), subject.lower())


class Lying(ListRouter):
    """Reports interest for every subject."""

    def hasInterest(self, subject: bytes) -> bool:
        return True


class Careless(Gatekeeper):
    """Accepts every client that has a name."""

    def authenticate(self, hello: ConnectRequest) -> Any:
        return hello.text("user") or None


class Fragile(Gatekeeper):
    """Fails for bytes that are no text."""

    def authenticate(self, hello: ConnectRequest) -> Any:
        hello.options["user"].encode("ascii")
        return super().authenticate(hello)


@implementer(IAuthorizer)
class Fixed:
    """Always gives the same answer, and never ends a registration."""

    required = True
    deadline = True
    nonce = False

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.watchers: list[Any] = []

    def grantFor(self, hello: ConnectRequest) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def watchRevocations(self, revoked: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(revoked)
        return lambda: None

    def revoke(self) -> None:
        """Notify the watchers."""
        for watcher in self.watchers:
            watcher()


class ForgetfulKeeper(Gatekeeper):
    """Accepts every client once one was accepted, and names users by their number."""

    seen = 0

    def authenticate(self, hello: ConnectRequest) -> Any:
        if not self.seen:
            super().authenticate(hello)
        self.seen += 1
        return f"user{self.seen}"


class BusAround:
    """A bus that passes every call on to the built-in one."""

    def __init__(self) -> None:
        self._bus: Any = bus()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    @property
    def __provides__(self) -> Any:
        return self._bus.__provides__


def broken(**methods: Any) -> Callable[[], Any]:
    """A factory of buses with some methods replaced; each gets the real bus first."""

    def make() -> Any:
        made = BusAround()
        for name, method in methods.items():
            real = made._bus
            made.__dict__[name] = lambda *args, method=method, real=real, **named: method(
                real, *args, **named
            )
        return made

    return make


@implementer(ISubscriber)
class Clumsy:
    """Raises for invalid headers, and changes the messages that it gets."""

    def deliver(self, message: Message, tag: Any) -> None:
        message.reply = b""

    def subscriptionEnded(self, tag: Any) -> None:
        """Nothing to do: the tests do not look at it."""


@implementer(IInterestWatcher)
class Ascii(WatchRecorder):
    """Requires ASCII patterns."""

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        pattern.decode("ascii")


class Incomplete:
    """Provides nothing."""


WRONG: list[tuple[str, type[SynchronousTestCase], set[str]]] = [
    ("router that forgets", subjectRouterTests(Forgetful), {"test_remove"}),
    ("greedy router", subjectRouterTests(Greedy), {"test_matches"}),
    ("stale router", subjectRouterTests(Stale), {"test_changesShowAtOnce"}),
    (
        "silent router",
        subjectRouterTests(Silent, caseless, [b"a.b", b"A.b", b"A.*"]),
        {"test_announcesChanges"},
    ),
    ("lying router", subjectRouterTests(Lying), {"test_matches", "test_anything"}),
    ("no router", subjectRouterTests(Incomplete), {"test_provides"}),
    ("careless authorizer", authorizerTests(Careless, GOOD, BAD), {"test_bad", "test_strange"}),
    ("fragile authorizer", authorizerTests(Fragile, GOOD, BAD), {"test_nobody", "test_strange"}),
    (
        "authorizer that denies all",
        authorizerTests(lambda: Fixed(Unauthorized("no")), GOOD, BAD),
        {"test_good", "test_repeatedLogin"},
    ),
    (
        "authorizer that answers nonsense",
        authorizerTests(lambda: Fixed("yes"), GOOD, BAD),
        {"test_good", "test_bad", "test_repeatedLogin", "test_nobody", "test_strange"},
    ),
    (
        "authorizer that never answers",
        authorizerTests(lambda: Fixed(Deferred()), GOOD, BAD),
        {"test_good", "test_bad"},
    ),
    (
        "authorizer that raises",
        authorizerTests(lambda: Fixed(KeyError("user")), GOOD, BAD),
        {"test_good", "test_bad"},
    ),
    (
        "authorizer that tells for ever",
        authorizerTests(lambda: Fixed(Grant()), GOOD, BAD, lambda keeper: keeper.revoke()),
        {"test_revocations", "test_bad"},
    ),
    (
        "authorizer with a memory",
        authorizerTests(ForgetfulKeeper, GOOD, BAD),
        {"test_repeatedLogin"},
    ),
    (
        "bus that loses",
        messageBusTests(broken(publish=lambda real, message: 0)),
        {"test_delivers", "test_order", "test_groups"},
    ),
    (
        "bus that counts wrong",
        messageBusTests(broken(publish=lambda real, message: real.publish(message) and 1)),
        {"test_groups"},
    ),
    (
        "bus that delivers twice",
        messageBusTests(
            broken(publish=lambda real, message: real.publish(message) and real.publish(message))
        ),
        {"test_delivers", "test_cancelAfter", "test_groups"},
    ),
    (
        "bus that drops tags",
        messageBusTests(
            broken(
                subscribe=lambda real, pattern, who, tag=None, queue=b"", weight=1: real.subscribe(
                    pattern, who, None, queue
                )
            )
        ),
        {"test_delivers", "test_cancelAfter"},
    ),
    (
        "bus that watches nothing",
        messageBusTests(broken(watchInterest=lambda real, watcher: lambda: None)),
        {"test_watching"},
    ),
    (
        "bus that is always interested",
        messageBusTests(broken(hasInterest=lambda real, subject: True)),
        {"test_delivers", "test_cancel"},
    ),
    (
        "bus that takes anything",
        messageBusTests(broken(subscribe=lambda real, *arguments, **named: Recorder())),
        {"test_invalid", "test_delivers", "test_publishingFromWithin", "test_wholeMessage"},
    ),
    ("no bus", messageBusTests(Incomplete), {"test_provides"}),
    ("no authorizer", authorizerTests(Incomplete, GOOD, BAD), {"test_provides"}),
    ("clumsy subscriber", subscriberTests(Clumsy), {"test_takesAnything"}),
    ("no subscriber", subscriberTests(Incomplete), {"test_provides"}),
    ("watcher of ASCII", interestWatcherTests(Ascii), {"test_takesAnything"}),
    ("no watcher", interestWatcherTests(Incomplete), {"test_provides"}),
]


NAMES = [row[0] for row in WRONG]


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "expected"), [row[1:] for row in WRONG], ids=NAMES)
def test_wrongProvidersFail(suite: Any, expected: set[str]) -> None:
    """A provider that breaks its contract fails the tests of the broken rules."""
    assert expected <= failuresOf(suite)


@pytest.mark.slow
def test_everyTestCanFail() -> None:
    """Each test of each suite fails for some wrong provider."""
    missed: dict[str, set[str]] = {}
    suite: Any
    for _, suite, _ in WRONG:
        names = {name for name in dir(suite) if name.startswith("test_")}
        missed.setdefault(suite.__name__, names)
        missed[suite.__name__] = missed[suite.__name__] - failuresOf(suite)
    assert {name: tests for name, tests in missed.items() if tests} == {}
