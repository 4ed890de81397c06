"""
Tests of L{natsbroker.auth.operator.resolvers}.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as Late
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.auth.operator.resolvers import TIMEOUT, MemoryResolver, URLResolver
from natsbroker.interfaces import IAccountResolver
from tests.auth.agents import FakeAgent


class TestMemory:
    """JWTs of the configuration."""

    def test_found(self) -> None:
        """What was put in is found, what was not is not."""
        resolver = MemoryResolver({"A": "jwt"})
        assert verifyObject(IAccountResolver, resolver)
        assert resolver.fetch("A") == "jwt"
        with pytest.raises(LookupError):
            resolver.fetch("B")

    def test_replace(self) -> None:
        """What takes its place is found, and nothing of what was there before."""
        resolver = MemoryResolver({"A": "jwt", "B": "jwt"})
        resolver.replace({"A": "another"})
        assert resolver.fetch("A") == "another"
        with pytest.raises(LookupError):
            resolver.fetch("B")


class TestURL:
    """JWTs of an account server."""

    def fetch(self, agent: FakeAgent, clock: Clock, url: str = "http://x/accounts/") -> list[Any]:
        """
        Fetch the account C{A}; the outcome is in the list.
        """
        resolver = URLResolver(url, agent, clock)
        assert verifyObject(IAccountResolver, resolver)
        outcome: list[Any] = []
        fetching = resolver.fetch("A")
        fetching.addCallbacks(outcome.append, lambda why: outcome.append(why.value))
        return outcome

    @pytest.mark.parametrize("url", ["http://x/accounts/", "http://x/accounts"])
    def test_found(self, url: str) -> None:
        """The public key is the last part of the path."""
        agent = FakeAgent()
        outcome = self.fetch(agent, Clock(), url)
        assert agent.requests == [("GET", "http://x/accounts/A", b"", {})]
        agent.answer(200, b"jwt")
        assert outcome == ["jwt"]

    @pytest.mark.parametrize(
        ("status", "body"), [(404, b"none"), (500, b""), (301, b"jwt"), (204, b""), (200, b"")]
    )
    def test_notFound(self, status: int, body: bytes) -> None:
        """Any other answer than 200 with a body means that there is none."""
        agent = FakeAgent()
        outcome = self.fetch(agent, Clock())
        agent.answer(status, body)
        assert isinstance(outcome[0], LookupError)

    def test_late(self) -> None:
        """A server that does not answer is not waited for."""
        agent, clock = FakeAgent(), Clock()
        outcome = self.fetch(agent, clock)
        clock.advance(TIMEOUT)
        assert isinstance(outcome[0], Late)
        assert agent.cancelled == 1

    def test_notAllAtOnce(self) -> None:
        """A flood of unknown accounts makes a bounded number of requests at a time."""
        agent, clock = FakeAgent(), Clock()
        resolver = URLResolver("http://x/", agent, clock)
        asking: list[Deferred[str]] = [resolver.fetch(str(number)) for number in range(40)]
        for each in asking:
            each.addErrback(lambda why: None)
        assert len(agent.requests) == 16
        agent.answer(404, b"")
        assert len(agent.requests) == 17
