"""
Tests for L{natsbroker.ocsp.peers}, with responders in memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.task import Clock

from natsbroker.config.ocsp import OCSPCache, OCSPPeer
from natsbroker.ocsp.cache import AnswerCache
from natsbroker.ocsp.fetching import Responders
from natsbroker.ocsp.peers import PeerChecks, fingerprint
from tests.ocsp.authorities import GOOD, NOW, REVOKED, UNKNOWN, authority, certified
from tests.ocsp.responders import FakeAgent
from tests.server.support import logLines

OURS = authority()

PEER = certified(OURS, "CN=peer").certificate

CHAIN = [PEER, OURS.certificate]

VERIFY = OCSPPeer(verify=True)


class Checks:
    """Checks of peers, with a responder in memory."""

    def __init__(self, cache: OCSPCache = OCSPCache()) -> None:  # noqa: B008 - an immutable value
        self.clock = Clock()
        self.clock.advance(NOW.timestamp())
        self.agent = FakeAgent(OURS, self.clock.seconds)
        self.agent.known = [PEER]
        self.cache = AnswerCache(cache)
        responders = Responders(self.clock, lambda: self.agent)  # type: ignore[arg-type, return-value]
        self.peers = PeerChecks(responders, self.cache, self.clock.seconds)

    def ask(self, options: OCSPPeer = VERIFY, chain: Any = CHAIN) -> list[str]:
        """The outcomes so far."""
        results: list[str] = []
        self.peers.check(chain, options).addCallback(results.append)
        return results

    def one(self, options: OCSPPeer = VERIFY, chain: Any = CHAIN) -> str:
        """The outcome."""
        (verdict,) = self.ask(options, chain)
        return verdict


def test_statuses() -> None:
    """A peer is accepted only if the responder says that its certificate is good."""
    for status, word in ((GOOD, ""), (REVOKED, "revoked"), (UNKNOWN, "unknown")):
        checks = Checks()
        checks.agent.status = status
        assert checks.one().endswith(word) and bool(checks.one()) == bool(word)


def test_options() -> None:
    """A certificate that is not known to be good is accepted if the options say so."""
    checks = Checks()
    checks.agent.status = UNKNOWN
    assert not checks.one(replace(VERIFY, unknown_is_good=True))
    checks.agent.status = REVOKED
    checks = Checks()
    checks.agent.status = REVOKED
    with logLines() as lines:
        assert not checks.one(replace(VERIFY, warn_only=True))
    assert any("revoked; warn_only" in line for line in lines)
    assert checks.one(replace(VERIFY, unknown_is_good=True))


def test_noResponder() -> None:
    """A certificate without a responder is accepted without a check."""
    checks = Checks()
    plain = certified(OURS, url="").certificate
    assert checks.one(chain=[plain, OURS.certificate]) == ""
    assert checks.one(chain=[OURS.certificate]) == ""
    assert checks.one(chain=[]) == "no verified certificate"
    assert not checks.agent.asked


def test_unreachable() -> None:
    """Without an answer a peer is refused, unless the settings say otherwise."""
    checks = Checks()
    checks.agent.isDown = True
    lenient = replace(VERIFY, allow_when_ca_unreachable=True)
    assert "no answer" in checks.one()
    with logLines() as lines:
        assert checks.one(lenient) == ""
    assert any("let in" in line for line in lines)


def test_unreachableAfterRevocation() -> None:
    """
    After a certificate was revoked, it stays refused while the responder is unreachable, whatever
    the options.
    """
    checks = Checks()
    checks.agent.status = REVOKED
    assert checks.one()
    checks.clock.advance(4000)
    checks.agent.isDown = True
    assert "no answer" in checks.one(replace(VERIFY, allow_when_ca_unreachable=True))


def test_post() -> None:
    """A responder is asked by POST, and by GET if it does not accept POST."""
    checks = Checks()
    assert checks.one() == "" and [request[0] for request in checks.agent.asked] == [b"POST"]
    checks = Checks()
    checks.agent.refusesPost = True
    assert checks.one() == "" and [request[0] for request in checks.agent.asked] == [
        b"POST",
        b"GET",
    ]


@pytest.mark.parametrize("lasting", [3600.0, None])
def test_cache(lasting: float | None) -> None:
    """An answer is used until it expires. Then the responder is asked again."""
    checks = Checks()
    checks.agent.lasting = lasting
    assert checks.one() == checks.one() == ""
    assert len(checks.agent.asked) == 1
    checks.clock.advance(3600 + 31)
    assert checks.one() == ""
    assert len(checks.agent.asked) == 2


def test_noCache() -> None:
    """Without a cache, the responder is asked about each peer."""
    checks = Checks(OCSPCache("none"))
    assert checks.one() == checks.one() == ""
    assert len(checks.agent.asked) == 2


def test_damagedCache() -> None:
    """A damaged entry of the cache is ignored, and the responder is asked."""
    checks = Checks()
    checks.cache.put(fingerprint(PEER), b"nonsense", False)
    assert checks.one() == "" and len(checks.agent.asked) == 1


def test_sharedAnswer() -> None:
    """Peers with the same certificate wait for one answer."""
    checks = Checks()
    checks.agent.waiting = []
    first, second = checks.ask(), checks.ask()
    assert not first and not second and len(checks.agent.asked) == 1
    checks.agent.release()
    assert first == second == [""]


def test_cancel() -> None:
    """A client that disconnects does not cancel the request for the other one."""
    checks = Checks()
    checks.agent.waiting = []
    gone = checks.peers.check(CHAIN, VERIFY)
    gone.addErrback(lambda _: None)
    other = checks.ask()
    gone.cancel()
    checks.agent.release()
    assert other == [""]


def test_slow() -> None:
    """A responder that does not answer in time counts as unreachable."""
    checks = Checks()
    checks.agent.waiting = []
    answer = checks.ask()
    checks.clock.pump([2.0, 2.0])
    assert "no answer" in answer[0]
