"""
Tests for L{natsbroker.ocsp.fetching}; most are with those of the peers.
"""

from __future__ import annotations

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from natsbroker.ocsp.fetching import Responders
from natsbroker.ocsp.responses import OCSPAnswer, OCSPError
from tests.ocsp.authorities import NOW, authority, certified
from tests.ocsp.responders import FakeAgent

OURS = authority()


@pytest.mark.parametrize("urls", [(), ("http://a/", "http://b")])
def test_orderOfResponders(urls: tuple[str, ...]) -> None:
    """Responders are asked one after another. If none answers, the error has all reasons."""
    clock = Clock()
    clock.advance(NOW.timestamp())
    made = certified(OURS).certificate
    agent = FakeAgent(OURS, clock.seconds)
    agent.isDown = True
    agent.known = [made]
    responders = Responders(clock, lambda: agent)  # type: ignore[arg-type, return-value]
    results: list[object] = []
    asking = ensureDeferred(responders.ask(made, OURS.certificate, urls, 1.0))
    asking.addBoth(results.append)
    (failed,) = results
    assert isinstance(failed, Failure) and failed.check(OCSPError)
    assert [request[0] for request in agent.asked] == [b"POST", b"GET"] * len(urls)
    text = failed.getErrorMessage()
    assert all(url in text for url in urls) or text == "no available ocsp servers"
    agent.isDown = False
    results.clear()
    ensureDeferred(responders.ask(made, OURS.certificate, ("http://a/",), 1.0)).addBoth(
        results.append
    )
    assert isinstance(results[0], OCSPAnswer)
