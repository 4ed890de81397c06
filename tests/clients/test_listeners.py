"""
All addresses on which clients can connect.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactor

from natsbroker.clients.listeners import Listeners
from natsbroker.clients.protocol import ClientFactory
from natsbroker.clients.tls import TLSClientFactory
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.connections.listener import addressEndpoint
from natsbroker.connections.tls import Begin, TLSTerms
from natsbroker.runtime.failures import StartError
from tests.interop.certificates import writeCertificates

CONTEXT: Any = object()

TERMS = TLSTerms(None)


class Taken:
    """An endpoint whose address is in use."""

    def listen(self, factory: Any) -> Any:
        """Fail, because the address is in use."""
        raise CannotListenError("127.0.0.1", 4222, OSError(98, "Address already in use"))


def listeners(*endpoints: Any, terms: TLSTerms | None = None) -> Listeners:
    """Listeners on a reactor in memory."""
    reactor: Any = MemoryReactor()
    made = [
        addressEndpoint(reactor, "127.0.0.1", endpoint) if isinstance(endpoint, int) else endpoint
        for endpoint in endpoints
    ]
    return Listeners(reactor, CONTEXT, made, terms)


def outcome(coroutine: Any) -> list[Any]:
    """The outcome of a coroutine."""
    sessions: list[Any] = []
    ensureDeferred(coroutine).addBoth(sessions.append)
    return sessions


class TestOpening:
    """Opening and closing of all listeners."""

    def test_all(self) -> None:
        """All listeners are opened."""
        made: Any = listeners(1, 2)
        assert not made.isOpen
        assert outcome(made.open(None)) == [None]
        assert made.isOpen
        assert [listener.address.port for listener in made] == [1, 2]

    def test_taken(self) -> None:
        """If one address is in use, the error names it, and no listener is open."""
        made = listeners(1, Taken(), 3)
        [failure] = outcome(made.open(None))
        assert failure.check(StartError)
        assert "127.0.0.1:4222" in failure.getErrorMessage()
        assert not made.isOpen

    def test_close(self) -> None:
        """All listeners are closed."""
        made = listeners(1, 2)
        outcome(made.open(None))
        assert outcome(made.close()) == [None]
        assert not made.isOpen

    def test_closed(self) -> None:
        """Listeners that are not open are shown with their configured addresses."""
        made = listeners(1, 2)
        assert made.closed() == ["client listener 1", "client listener 2"]
        outcome(made.open(None))
        assert made.closed() == []

    def test_nowhere(self) -> None:
        """Without any address no listener is opened."""
        made = listeners()
        assert outcome(made.open(None)) == [None]
        assert made.urls() == []
        with pytest.raises(ValueError, match="does not listen"):
            made.firstAddress()


class TestAddresses:
    """The addresses of listeners."""

    def test_first(self) -> None:
        """The first address is the host and port of the first listener."""
        made = listeners(1, 2)
        outcome(made.open(None))
        assert made.firstAddress() == ("0.0.0.0", 1)

    def test_urls(self) -> None:
        """All addresses are given as URLs."""
        made = listeners(1, 2)
        outcome(made.open(None))
        assert made.urls() == ["nats://127.0.0.1:1", "nats://127.0.0.1:2"]

    @pytest.mark.parametrize(("optional", "scheme"), [(False, "tls"), (True, "nats")])
    def test_tls(self, optional: bool, scheme: str) -> None:
        """The scheme of a URL is C{tls} only if TLS is required."""
        made = listeners(1, terms=TLSTerms(None, optional=optional))
        outcome(made.open(None))
        assert made.urls() == [f"{scheme}://127.0.0.1:1"]


class TestFactories:
    """The factories of connections."""

    def kinds(self, made: Listeners) -> list[type]:
        """The classes of the listeners' factories."""
        return [type(listener.factory) for listener in made]

    def test_plain(self) -> None:
        """A listener without TLS has the plain factory."""
        assert self.kinds(listeners(1)) == [ClientFactory]

    def test_tls(self) -> None:
        """A listener with TLS has the TLS factory, with its terms."""
        made = listeners(1, terms=TERMS)
        [factory] = [listener.factory for listener in made]
        assert isinstance(factory, TLSClientFactory)
        assert factory.terms is TERMS

    def test_otherTerms(self) -> None:
        """Changed terms apply to later connections of the same factory."""
        made = listeners(1, terms=TERMS)
        [before] = [listener.factory for listener in made]
        other = TLSTerms(None, Begin.FIRST)
        made.planTerms(other)()
        [after] = [listener.factory for listener in made]
        assert after is before
        assert after.terms is other  # type: ignore[attr-defined]

    def test_switch(self) -> None:
        """TLS can be switched on and off while the listener is open."""
        made = listeners(1)
        outcome(made.open(None))
        made.planTerms(TERMS)()
        assert self.kinds(made) == [TLSClientFactory]
        made.planTerms(None)()
        assert self.kinds(made) == [ClientFactory]
        [listener] = made
        port: Any = listener.port
        assert port.factory is listener.factory

    def test_stays(self) -> None:
        """Switching without a listener changes nothing."""
        made = listeners(1)
        [before] = [listener.factory for listener in made]
        made.planTerms(None)()
        assert [listener.factory for listener in made] == [before]

    def test_described(self) -> None:
        """A listener may be configured by an endpoint description."""
        made = listeners("tcp:7:interface=127.0.0.1")
        outcome(made.open(None))
        assert made.firstAddress()[1] == 7


class TestSecured:
    """Listeners that are described as C{ssl:...}."""

    @pytest.fixture
    def description(self, tmp_path: Path) -> str:
        """The description of such a listener."""
        writeCertificates(tmp_path)
        key, certificate = tmp_path / "server-key.pem", tmp_path / "server.pem"
        return f"ssl:7:privateKey={key}:certKey={certificate}:interface=127.0.0.1"

    def termsOf(self, made: Listeners) -> list[Any]:
        """The TLS terms of each listener."""
        return [getattr(listener.factory, "terms", None) for listener in made]

    def test_besideOthers(self, description: str) -> None:
        """
        An C{ssl:} listener does TLS first with its own terms, and other listeners follow the
        settings.
        """
        made = listeners(description, 8)
        outcome(made.open(None))
        terms, none = self.termsOf(made)
        assert none is None
        assert terms.begin is Begin.FIRST and not terms.optional
        assert made.urls() == ["tls://127.0.0.1:7", "nats://127.0.0.1:8"]

    def test_policy(self, description: str) -> None:
        """
        The terms of an C{ssl:} listener are those of the settings, except for its certificate.
        """
        policy = TLSSettings(
            timeout=7.0, pinned_certs=frozenset({"ab" * 32}), connection_rate_limit=3
        )
        made = Listeners(MemoryReactor(), CONTEXT, [description], None, Settings(tls=policy))
        [terms] = self.termsOf(made)
        assert (terms.settings.timeout, terms.settings.connection_rate_limit) == (7.0, 3)
        assert terms.settings.pinned_certs == policy.pinned_certs

    def test_reload(self, description: str) -> None:
        """
        A reload reads the files of an C{ssl:} listener again, and leaves its mode when TLS is
        switched on and off.
        """
        made = listeners(description, 8)
        [before, _] = self.termsOf(made)
        made.planTerms(TERMS, TLSSettings(timeout=9.0))()
        [after, other] = self.termsOf(made)
        assert after is not before and after.creator is not before.creator
        assert (after.settings.timeout, other) == (9.0, TERMS)
        made.planTerms(None)()
        assert self.termsOf(made)[1] is None
        assert self.termsOf(made)[0].begin is Begin.FIRST

    def test_reloadFails(self, description: str, tmp_path: Path) -> None:
        """A reload with an invalid file changes nothing."""
        made = listeners(description, 8)
        before = self.termsOf(made)
        (tmp_path / "server.pem").write_text("nothing")
        with pytest.raises(ValueError, match=r"server\.pem"):
            made.planTerms(TERMS)
        assert self.termsOf(made) == before

    def test_missing(self) -> None:
        """A missing file is named in the error."""
        with pytest.raises(ValueError, match="/missing"):
            listeners("ssl:7:privateKey=/missing")
