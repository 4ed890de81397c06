"""
The subjects of requests to brokers.
"""

from __future__ import annotations

import pytest

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.subjects.requests import isRequest
from natsbroker.wire.values import Kind
from tests.support import Recorder, Router

REQUESTS = [
    b"$JS.API.INFO",
    b"$JS.hub.API.STREAM.DELETE.S",
    b"$JS.ACK.S.C.1.2.3.4.5",
    b"$JS.FC.S.C.x",
    b"$JS.SNAPSHOT.ACK.S.x",
    b"$NB.API.STREAM.INFO._.S",
    b"$NB.JS.PEER.x",
    b"$NRG.V.x",
    b"$SYS.REQ.SERVER.PING",
    b"$SYS.DEBUG.SUBSCRIBERS",
    b"$SYS.ACCOUNT.A.CLAIMS.UPDATE",
    b"_STAN.close.c",
    b"_STAN.discover.c.pings",
    b"_STAN.pub.c.orders",
    b"_STAN.sub.c",
    b"_STAN.subclose.c",
    b"_STAN.unsub.c",
    b"_GR_.abcdef.012345.$JS.API.INFO",
    b"$GR.abcd.$JS.API.INFO",
]
OTHERS = [
    b"orders",
    b"",
    b"$JS",
    b"$JS.API",
    b"$JS.EVENT.ADVISORY.API",
    b"$JS.M.abc",
    b"$JSC.R.abc",
    b"$NB.EVENT.TRAFFIC.x",
    b"$SYS.ACCOUNT.A.CONNECT",
    b"$SYS._INBOX.x",
    b"_STAN.acks.x",
    b"_INBOX.$JS.API.INFO",
    b"_GR_.abcdef.012345._INBOX.x",
    b"_GR_",
    b"_",
]


@pytest.mark.parametrize("subject", REQUESTS)
def test_requests(subject: bytes) -> None:
    """Requests to brokers are recognized, also as replies between clusters."""
    assert isRequest(subject)


@pytest.mark.parametrize("subject", OTHERS)
def test_events(subject: bytes) -> None:
    """Events, inboxes and subjects of clients are not requests."""
    assert not isRequest(subject)


@pytest.mark.parametrize("subject", [request for request in (*REQUESTS, *OTHERS) if request])
def test_matches(subject: bytes) -> None:
    """A match knows whether its subject is served: as a request, or by a subscribed service."""
    batch = hot.FlushBatch(lambda call: None)
    account = Account("A", Router(), AccountDependencies(batch))
    assert account.matcher.match(subject).isServed is isRequest(subject)
    service = account.busFor(Kind.INTERNAL).serve(subject, Recorder())
    assert account.matcher.match(subject).isServed
    service.cancel()
    assert account.matcher.match(subject).isServed is isRequest(subject)
