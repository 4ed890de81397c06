"""
Mappings and imports of an account, as they are replaced.
"""

from __future__ import annotations

from random import Random

import pytest
from twisted.internet.task import Clock

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.tracing import CLIENT, TracePeer
from natsbroker.errors import BrokerError
from natsbroker.pure.backlog import TRACED
from natsbroker.subjects.interestfilter import InterestFilter
from natsbroker.subjects.mapping import MappingTable
from natsbroker.wire.values import Kind, Message
from tests.accounts.market import Market
from tests.support import Router, WatchRecorder


class TestMappings:
    """The subject mappings of an account."""

    def test_withoutMappings(self) -> None:
        """Without mappings every message keeps its subject, and lanes call no mapping function."""
        account = Market("A")["A"]
        assert account.mapped(b"a") == b"a"
        assert account.matcher.mapSubject is None
        account.mapSubjects(MappingTable([], Random(1).randrange))
        assert account.matcher.mapSubject is None

    def test_mapped(self) -> None:
        """Subjects are mapped, and lanes have the function that maps them."""
        market = Market("A")
        market.map("A", a="b")
        account = market["A"]
        assert account.mapped(b"a") == b"b"
        assert account.matcher.mapSubject is not None
        assert account.matcher.mapSubject(b"a") == b"b"

    def test_interestInMappedSubjects(self) -> None:
        """Only leafnodes learn of mapped subjects as interest."""
        market = Market("A")
        bus = market["A"].busFor(Kind.SPOKE)
        leaf, late, other = WatchRecorder(), WatchRecorder(), WatchRecorder()
        bus.watchInterest(leaf, InterestFilter(list(Kind), includesImports=True))
        bus.watchInterest(other)
        market.map("A", a="b", **{"c.*": "d"})
        assert leaf.taken() == [("+", b"a", b"", 1), ("+", b"c.*", b"", 1)]
        bus.watchInterest(late, InterestFilter(list(Kind), includesImports=True))
        assert late.taken() == [("+", b"a", b"", 1), ("+", b"c.*", b"", 1)]
        assert not bus.hasInterest(b"a")
        market["A"].mapSubjects(None)
        assert leaf.taken() == [("-", b"a", b"", 0), ("-", b"c.*", b"", 0)]
        assert other.taken() == []

    def test_replaced(self) -> None:
        """New mappings take effect at once, and lanes forget the results of the old mappings."""
        market = Market("A")
        account = market["A"]
        market.map("A", a="b")
        before = account.matcher.match(b"a")
        market.map("A", a="c")
        assert account.mapped(b"a") == b"c"
        assert account.matcher.match(b"a") is not before
        account.mapSubjects(None)
        assert account.mapped(b"a") == b"a"
        assert account.matcher.mapSubject is None

    def test_onlySessionsMap(self) -> None:
        """Only sessions of clients map subjects; the account itself does not map a publish."""
        market = Market("A")
        market.map("A", a="b")
        recorder = market.subscribe("A", b"a")
        assert market.publish("A", b"a") == 1
        assert len(recorder.got) == 1


class TestImports:
    """Errors of imports."""

    def test_routerIsFull(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An import that the router refuses is reported, and the other imports take effect."""
        market = Market("A", "B")
        market.service("B", "A", b"a")
        market.service("B", "A", b"b")
        insert = market["B"]._router.insert

        def refuse(pattern: bytes, entry: object) -> None:
            if pattern == b"a":
                raise BrokerError("no more")
            insert(pattern, entry)

        monkeypatch.setattr(market["B"]._router, "insert", refuse)
        problems = market["B"].importServices(market.services("B"))
        assert [str(problem) for problem in problems] == ["no more"]
        assert len(market["B"]) == 1

    def test_untouched(self) -> None:
        """An account without exports and imports keeps no data about them."""
        account = Market("A")["A"]
        assert account.importStreams([]) == account.importServices([]) == []
        account.refresh()
        account.close()
        assert (account._shadows, account.responses.isOpen) == (None, False)


def test_noClock() -> None:
    """An account without a clock raises an error only when it needs the time."""
    clock = Account("A", Router(), AccountDependencies(hot.FlushBatch(lambda call: None))).clock
    with pytest.raises(RuntimeError, match="without a clock"):
        clock.seconds()
    with pytest.raises(RuntimeError, match="without a clock"):
        clock.callLater(1.0, lambda: None)


def test_costOfTraces() -> None:
    """Each trace is counted with the bytes of its events."""
    batch = hot.FlushBatch(lambda call: None)
    given = AccountDependencies(batch, Random(1), Clock(), describe=lambda: {"name": "s"})
    account = Account("A", Router(), given)
    bus = account.busFor(Kind.CLIENT)
    headers = b"NATS/1.0\r\nNats-Trace-Dest: dest\r\n\r\n"
    traced = account.tracing.begin(  # type: ignore[union-attr]
        Message(b"s", headers, b"", len(headers)), TracePeer(CLIENT, 1, ""), lambda dest: True
    )
    assert traced is not None and traced.trace is not None
    before = batch.work
    bus.publishTraced(traced)
    assert TRACED + 100 < batch.work - before < TRACED + 1000
