"""
Tests of L{natsbroker.auth.operator.resolvers}.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, execute, fail, maybeDeferred, succeed
from twisted.internet.defer import TimeoutError as Late
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.auth.operator.folders import CachedFolder, Deletion, FolderError, TokenFolder
from natsbroker.auth.operator.resolvers import TIMEOUT, FolderResolver, MemoryResolver, URLResolver
from natsbroker.interfaces import IAccountResolver
from tests.auth.agents import FakeAgent
from tests.auth.operator.chain import KeyPair
from tests.auth.operator.directories import ACCOUNT, issued
from tests.conftest import FlushLoggedErrors


class TestMemory:
    """JWTs of the configuration."""

    def test_found(self) -> None:
        """A JWT of the configuration is found, and one of another account is not."""
        resolver = MemoryResolver({"A": "jwt"})
        assert verifyObject(IAccountResolver, resolver)
        assert resolver.fetch("A") == "jwt"
        with pytest.raises(LookupError):
            resolver.fetch("B")

    def test_replace(self) -> None:
        """After a replacement only the new JWTs are found."""
        resolver = MemoryResolver({"A": "jwt", "B": "jwt"})
        resolver.replace({"A": "another"})
        assert resolver.fetch("A") == "another"
        with pytest.raises(LookupError):
            resolver.fetch("B")


class TestURL:
    """JWTs of an account server."""

    def fetch(self, agent: FakeAgent, clock: Clock, url: str = "http://x/accounts/") -> list[Any]:
        """Fetch account C{A}, and return a list for the outcome."""
        resolver = URLResolver(url, agent, clock)
        assert verifyObject(IAccountResolver, resolver)
        outcome: list[Any] = []
        fetching = resolver.fetch("A")
        fetching.addCallbacks(outcome.append, lambda why: outcome.append(why.value))
        return outcome

    @pytest.mark.parametrize("url", ["http://x/accounts/", "http://x/accounts"])
    def test_found(self, url: str) -> None:
        """The JWT is fetched from a URL that ends with the account's public key."""
        agent = FakeAgent()
        outcome = self.fetch(agent, Clock(), url)
        assert agent.requests == [("GET", "http://x/accounts/A", b"", {})]
        agent.answer(200, b"jwt")
        assert outcome == ["jwt"]

    @pytest.mark.parametrize(
        ("status", "body"), [(404, b"none"), (500, b""), (301, b"jwt"), (204, b""), (200, b"")]
    )
    def test_notFound(self, status: int, body: bytes) -> None:
        """Any answer other than 200 with a body means that there is no JWT."""
        agent = FakeAgent()
        outcome = self.fetch(agent, Clock())
        agent.answer(status, body)
        assert isinstance(outcome[0], LookupError)

    def test_silentServer(self) -> None:
        """A fetch fails at its timeout if the server does not answer."""
        agent, clock = FakeAgent(), Clock()
        outcome = self.fetch(agent, clock)
        clock.advance(TIMEOUT)
        assert isinstance(outcome[0], Late)
        assert agent.cancelled == 1

    def test_notAllAtOnce(self) -> None:
        """A flood of unknown accounts makes a limited number of HTTP requests at a time."""
        agent, clock = FakeAgent(), Clock()
        resolver = URLResolver("http://x/", agent, clock)
        asking: list[Deferred[str]] = [resolver.fetch(str(number)) for number in range(40)]
        for deferred in asking:
            deferred.addErrback(lambda why: None)
        assert len(agent.requests) == 16
        agent.answer(404, b"")
        assert len(agent.requests) == 17


class Threads:
    """Calls in threads that wait until the test lets them run."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Deferred[Any], Callable[[], Any]]] = []

    def run(self, call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Queue a call for another thread."""
        result: Deferred[Any] = Deferred()
        self.waiting.append((result, lambda: call(*arguments)))
        return result

    def next(self) -> None:
        """Let the next call run."""
        result, call = self.waiting.pop(0)
        execute(call).chainDeferred(result)


def test_fetch(tmp_path: Path) -> None:
    """A JWT in the folder is found at once, and one of another account is not."""
    folder = TokenFolder(str(tmp_path))
    folder.save(ACCOUNT.key, "jwt")
    resolver = FolderResolver(folder, execute)
    assert verifyObject(IAccountResolver, resolver)
    assert resolver.fetch(ACCOUNT.key) == "jwt"
    with pytest.raises(LookupError):
        resolver.fetch("x")


def test_oneAfterTheOther(tmp_path: Path) -> None:
    """Changes are written to the disk in order, one at a time, outside the reactor's thread."""
    threads = Threads()
    folder = TokenFolder(str(tmp_path), deletion=Deletion.REMOVED)
    resolver = FolderResolver(folder, threads.run)
    done: list[Any] = []
    resolver.save(ACCOUNT.key, "one").addCallback(done.append)
    resolver.save(ACCOUNT.key, "two").addCallback(done.append)
    resolver.delete(ACCOUNT.key).addCallback(done.append)
    for expected in ("one", "two"):
        assert len(threads.waiting) == 1
        threads.next()
        assert resolver.fetch(ACCOUNT.key) == expected
    threads.next()
    assert done == [True, True, True]
    assert len(folder) == 0


def test_failure(tmp_path: Path) -> None:
    """A change that fails is reported, and does not stop the next."""
    resolver = FolderResolver(TokenFolder(str(tmp_path)), execute)
    failed: list[Any] = []
    resolver.delete(ACCOUNT.key).addErrback(failed.append)
    assert failed[0].check(FolderError)
    assert resolver.save(ACCOUNT.key, "jwt").result is True


def test_onlyNewer(tmp_path: Path) -> None:
    """A JWT is stored only if the stored one is older or invalid."""
    resolver = FolderResolver(TokenFolder(str(tmp_path)), execute)
    for text, expected in (
        ("nonsense", True),
        (issued(5), True),
        (issued(4), False),
        ("nonsense", False),
        (issued(6), True),
    ):
        assert resolver.saveIfNewer(ACCOUNT.key, text).result is expected


def test_preload(tmp_path: Path) -> None:
    """A preloaded JWT is written to the disk at once, unless the disk has a newer one."""
    threads = Threads()
    folder = TokenFolder(str(tmp_path))
    resolver = FolderResolver(folder, threads.run)
    for text, expected in ((issued(5), issued(5)), (issued(4), issued(5)), (issued(6), issued(6))):
        resolver.preload(ACCOUNT.key, text)
        assert (tmp_path / f"{ACCOUNT.key}.jwt").read_text() == expected
    assert not threads.waiting


def test_changedFiles(tmp_path: Path) -> None:
    """Changed files are read outside the reactor's thread, after the calls that are queued."""
    threads = Threads()
    resolver = FolderResolver(TokenFolder(str(tmp_path)), threads.run)
    resolver.save(ACCOUNT.key, issued(1))
    changed: list[set[str]] = []
    resolver.read().addCallback(changed.append)
    threads.next()
    (tmp_path / f"{ACCOUNT.key}.jwt").write_text(issued(2))
    threads.next()
    assert changed == [{ACCOUNT.key}]
    assert resolver.fetch(ACCOUNT.key) == issued(2)


class TestElsewhere:
    """JWTs that a resolver gets from other servers."""

    def resolver(self, path: Path, limit: int = 0) -> FolderResolver:
        """A resolver that can get the account's JWT from other servers."""
        resolver = FolderResolver(TokenFolder(str(path), limit), execute)
        resolver.elsewhere = lambda account: (
            succeed(issued()) if account == ACCOUNT.key else fail(LookupError())
        )
        return resolver

    def lookUp(self, resolver: FolderResolver, account: str = ACCOUNT.key) -> list[Any]:
        """A list for the result of fetching an account."""
        outcome: list[Any] = []
        maybeDeferred(resolver.fetch, account).addBoth(outcome.append)
        return outcome

    def test_fetchedJWTIsKept(self, tmp_path: Path) -> None:
        """A JWT from another server is stored, and found in the folder the next time."""
        resolver = self.resolver(tmp_path)
        assert self.lookUp(resolver) == [issued()]
        assert (tmp_path / f"{ACCOUNT.key}.jwt").read_text() == issued()
        resolver.elsewhere = None
        assert self.lookUp(resolver) == [issued()]

    def test_notFound(self, tmp_path: Path) -> None:
        """A JWT that no server has is not found."""
        (why,) = self.lookUp(self.resolver(tmp_path), "other")
        assert why.check(LookupError)

    def test_noRoom(self, tmp_path: Path, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A JWT is used without being stored if the cache is full."""
        resolver = self.resolver(tmp_path, 1)
        resolver.folder.save(KeyPair("A").key, "jwt")
        assert self.lookUp(resolver) == [issued()]
        assert len(flushLoggedErrors(FolderError)) == 1

    def test_expire(self, tmp_path: Path) -> None:
        """A cache removes expired JWTs on request. Another folder is left unchanged."""
        resolver = self.resolver(tmp_path)
        resolver.folder.save(ACCOUNT.key, ACCOUNT.jwt(exp=1))
        resolver.expire()
        assert ACCOUNT.key in resolver.folder
        cache = FolderResolver(CachedFolder(str(tmp_path), 0, 0.0, lambda: 2.0), execute)
        cache.expire()
        assert ACCOUNT.key not in cache.folder
