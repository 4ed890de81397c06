"""
All places where clients can connect.
"""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactor

from natsbroker.hosting.listeners import Listeners
from natsbroker.hosting.start import StartError
from natsbroker.net.client import ClientFactory
from natsbroker.net.listen import addressEndpoint
from natsbroker.net.tls import Begin, TLSClientFactory, TLSTerms

CONTEXT: Any = object()

TERMS = TLSTerms(None)


class Taken:
    """An endpoint whose place is taken."""

    def listen(self, factory: Any) -> Any:
        """Fail."""
        raise CannotListenError("127.0.0.1", 4222, OSError(98, "Address already in use"))


def listeners(*endpoints: Any, terms: TLSTerms | None = None) -> Listeners:
    """Listeners on a reactor in memory."""
    reactor: Any = MemoryReactor()
    made = [
        addressEndpoint(reactor, "127.0.0.1", each) if isinstance(each, int) else each
        for each in endpoints
    ]
    return Listeners(reactor, CONTEXT, made, terms)


def outcome(coroutine: Any) -> list[Any]:
    """What comes of a coroutine."""
    found: list[Any] = []
    ensureDeferred(coroutine).addBoth(found.append)
    return found


class TestOpening:
    """All or nothing."""

    def test_all(self) -> None:
        """All listen."""
        made: Any = listeners(1, 2)
        assert not made.isOpen
        assert outcome(made.open(None)) == [None]
        assert made.isOpen
        assert [listener.address.port for listener in made] == [1, 2]

    def test_taken(self) -> None:
        """If one place is taken, it is named, and none listens."""
        made = listeners(1, Taken(), 3)
        [failure] = outcome(made.open(None))
        assert failure.check(StartError)
        assert "127.0.0.1:4222" in failure.getErrorMessage()
        assert not made.isOpen

    def test_close(self) -> None:
        """All are closed."""
        made = listeners(1, 2)
        outcome(made.open(None))
        assert outcome(made.close()) == [None]
        assert not made.isOpen

    def test_closed(self) -> None:
        """Those that do not listen are told by their places."""
        made = listeners(1, 2)
        assert made.closed() == ["client listener 1", "client listener 2"]
        outcome(made.open(None))
        assert made.closed() == []

    def test_nowhere(self) -> None:
        """Without any place there is nothing to open, and no address."""
        made = listeners()
        assert outcome(made.open(None)) == [None]
        assert made.urls() == []
        with pytest.raises(ValueError, match="does not listen"):
            made.firstAddress()


class TestAddresses:
    """Where they listen."""

    def test_first(self) -> None:
        """Host and port of the first one."""
        made = listeners(1, 2)
        outcome(made.open(None))
        assert made.firstAddress() == ("0.0.0.0", 1)

    def test_urls(self) -> None:
        """All of them as URLs."""
        made = listeners(1, 2)
        outcome(made.open(None))
        assert made.urls() == ["nats://127.0.0.1:1", "nats://127.0.0.1:2"]

    @pytest.mark.parametrize(("optional", "scheme"), [(False, "tls"), (True, "nats")])
    def test_tls(self, optional: bool, scheme: str) -> None:
        """The scheme says whether TLS is required."""
        made = listeners(1, terms=TLSTerms(None, optional=optional))
        outcome(made.open(None))
        assert made.urls() == [f"{scheme}://127.0.0.1:1"]


class TestFactories:
    """What makes the connections."""

    def kinds(self, made: Listeners) -> list[type]:
        """The classes of the factories."""
        return [type(listener.factory) for listener in made]

    def test_plain(self) -> None:
        """Without TLS the plain factory."""
        assert self.kinds(listeners(1)) == [ClientFactory]

    def test_tls(self) -> None:
        """With it the other one, with the terms."""
        made = listeners(1, terms=TERMS)
        [factory] = [listener.factory for listener in made]
        assert isinstance(factory, TLSClientFactory)
        assert factory.terms is TERMS

    def test_otherTerms(self) -> None:
        """Other terms hold for the connections to come; the factory stays."""
        made = listeners(1, terms=TERMS)
        [before] = [listener.factory for listener in made]
        other = TLSTerms(None, Begin.FIRST)
        made.useTerms(other)
        [after] = [listener.factory for listener in made]
        assert after is before
        assert after.terms is other  # type: ignore[attr-defined]

    def test_switch(self) -> None:
        """TLS can be switched on and off while it listens."""
        made = listeners(1)
        outcome(made.open(None))
        made.useTerms(TERMS)
        assert self.kinds(made) == [TLSClientFactory]
        made.useTerms(None)
        assert self.kinds(made) == [ClientFactory]
        [listener] = made
        port: Any = listener.port
        assert port.factory is listener.factory

    def test_stays(self) -> None:
        """Where there is none before and after, nothing changes."""
        made = listeners(1)
        [before] = [listener.factory for listener in made]
        made.useTerms(None)
        assert [listener.factory for listener in made] == [before]

    def test_described(self) -> None:
        """Places may be described in text."""
        made = listeners("tcp:7:interface=127.0.0.1")
        outcome(made.open(None))
        assert made.firstAddress()[1] == 7
