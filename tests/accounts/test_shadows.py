"""
Tests for L{natsbroker.accounts.shadows}: imported streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from zope.interface import implementer

from natsbroker.errors import BrokerError
from natsbroker.interfaces import ILinkSubscriber
from natsbroker.subjects.grammar import matches
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.accounts.hall import Connection
from tests.accounts.market import Market, Person, subjects
from tests.subjects.strategies import LITERALS, PATTERNS
from tests.support import LinkRecorder, Names, Recorder, WatchRecorder, onEach, using


@pytest.fixture
def market(names: Names) -> Iterator[Market]:
    """Accounts A and B, of the implementation under test."""
    with using(names):
        yield Market("A", "B", "C")


@onEach
class TestDelivery:
    """Messages that arrive through an import."""

    @pytest.mark.parametrize(
        ("theirs", "ours", "pattern", "published", "received"),
        [
            (b"a.>", b"", b"a.>", b"a.x", b"a.x"),
            (b"a.>", b"", b"a.x", b"a.x", b"a.x"),
            (b"a.>", b"", b">", b"a.x", b"a.x"),
            (b"a.>", b"from.a.>", b"from.a.x", b"a.x", b"from.a.x"),
            (b"a.>", b"from.a.>", b"from.>", b"a.x.y", b"from.a.x.y"),
            (b"a.>", b"from.a.>", b"*.a.*", b"a.x", b"from.a.x"),
            (b"q.*.*", b"t.$2.$1", b"t.b.a", b"q.a.b", b"t.b.a"),
            (b"q.*.*", b"t.$2.$1", b"t.*.a", b"q.a.b", b"t.b.a"),
            (b"q.*.*", b"t.$2.$1", b"*.b.>", b"q.a.b", b"t.b.a"),
            (b"one", b"here.one", b"here.*", b"one", b"here.one"),
        ],
    )
    def test_renamed(
        self,
        market: Market,
        theirs: bytes,
        ours: bytes,
        pattern: bytes,
        published: bytes,
        received: bytes,
    ) -> None:
        """An imported message has its name in this account, with any subscription."""
        market.stream("B", "A", theirs, ours)
        recorder = market.subscribe("B", pattern)
        assert market.publish("A", published, b"hi", b"reply") == 1
        ((message, tag),) = recorder.got
        assert (message.subject, message.body, message.reply, tag) == (
            received,
            b"hi",
            b"reply",
            b"1",
        )

    @pytest.mark.parametrize("pattern", [b"a.x", b"other", b"from.b.>", b"from.a"])
    def test_notImported(self, market: Market, pattern: bytes) -> None:
        """A message that is not imported under a name does not arrive there."""
        market.stream("B", "A", b"a.>", b"from.a.>")
        recorder = market.subscribe("B", pattern)
        assert market.publish("A", b"a.x") == 0
        assert recorder.got == []

    def test_onlyOneWay(self, market: Market) -> None:
        """
        The exporter gets no messages of the importer, and no other account gets messages of either.
        """
        market.stream("B", "A", b"a.>")
        recorders = [market.subscribe(name, b">") for name in "AC"]
        assert market.publish("B", b"a.x") == 0
        assert [recorder.got for recorder in recorders] == [[], []]

    def test_bothAccounts(self, market: Market) -> None:
        """Subscribers of both accounts get the message, each under its own name."""
        market.stream("B", "A", b"a.>", b"b.>")
        mine, theirs = market.subscribe("B", b"b.x"), market.subscribe("A", b"a.x")
        assert market.publish("A", b"a.x") == 2
        assert (subjects(mine), subjects(theirs)) == ([b"b.x"], [b"a.x"])

    def test_streamSubject(self, market: Market) -> None:
        """
        The reply subject of a JetStream message keeps the name of its stream, whatever the import
        is called.
        """
        market.stream("B", "A", b"a.>", b"from.a.>")
        recorder = market.subscribe("B", b"from.a.x")
        market.publish("A", b"a.x", reply=b"$JS.ACK.S.C.1.2.3.4.5", streamSubject=b"s.a")
        ((message, _),) = recorder.got
        assert (message.subject, message.shownSubject) == (b"from.a.x", b"s.a")

    def test_notFurther(self, market: Market) -> None:
        """A message that was imported is not imported again by another account."""
        market.stream("B", "A", b"a.>", b"b.>")
        market.stream("C", "B", b"b.>")
        recorder = market.subscribe("C", b"b.>")
        assert market.publish("A", b"a.x") == 0
        assert market.publish("B", b"b.x") == 1
        assert subjects(recorder) == [b"b.x"]

    def test_noRequests(self, market: Market) -> None:
        """A request that came from another account is not exported as a stream."""
        market.service("C", "A", b"a.x", b"c.x")
        market.stream("B", "A", b"a.>")
        recorder = market.subscribe("B", b"a.>")
        assert market.publish("C", b"c.x") == 0
        assert recorder.got == []
        assert market.publish("A", b"a.x") == 1

    def test_notForServices(self, market: Market) -> None:
        """
        A client that publishes in an exporter's account does not reach the importers' services.
        """
        service = Recorder()
        bus = market["B"].busFor(Kind.INTERNAL)
        bus.serve(b"early", service)
        market.stream("B", "A", b">")
        bus.serve(b"late", service)
        client = market.subscribe("B", b">")
        for subject in (b"early", b"late"):
            assert market.publish("A", subject, origin=object()) == 1
        assert subjects(client) == [b"early", b"late"]
        assert service.got == []

    def test_severalExporters(self, market: Market) -> None:
        """A subscription gets the messages of several exporting accounts."""
        market.stream("C", "A", b"a")
        market.stream("C", "B", b"b", b"x.b")
        recorder = market.subscribe("C", b">")
        market.publish("A", b"a")
        market.publish("B", b"b")
        assert subjects(recorder) == [b"a", b"x.b"]

    def test_queues(self, market: Market) -> None:
        """A queue group has members in both accounts. One of them gets each message."""
        market.stream("B", "A", b"a", b"b")
        members = [
            market.subscribe("B", b"b", b"q"),
            market.subscribe("B", b"b", b"q"),
            market.subscribe("A", b"a", b"q"),
        ]
        for _ in range(90):
            assert market.publish("A", b"a") == 1
        counts = [len(member.got) for member in members]
        assert sum(counts) == 90
        assert min(counts) > 10

    def test_echo(self, market: Market) -> None:
        """
        A subscriber without echo does not get its own messages. Another member of its queue group
        gets them.
        """
        market.stream("A", "A", b"a", b"b")
        person = Connection(market["A"]._batch)
        person.outbox.echo = False
        market.subscribe("A", b"b", who=person)
        assert market.publish("A", b"a", origin=person) == 0
        assert market.publish("A", b"a", origin=Person("A")) == 1

    def test_denied(self, market: Market) -> None:
        """
        A message is not delivered if its subject in the importing account is denied to the
        subscriber.
        """
        market.stream("B", "A", b"a.>", b"b.>")
        person: Any = Connection(market["B"]._batch)
        market.subscribe("B", b"b.>", who=person)
        person.subscription.permissions = SubscribePermissions([b">"], [b"b.secret"])
        assert [market.publish("A", b"a." + token) for token in (b"secret", b"open")] == [0, 1]
        assert subjects(person) == [b"b.open"]

    @pytest.mark.parametrize("kind", list(Kind))
    def test_anyOrigin(self, market: Market, kind: Kind) -> None:
        """A message reaches the importing accounts from any origin."""
        market.stream("B", "A", b"a")
        recorder = market.subscribe("B", b"a")
        assert market.publish("A", b"a", kind=kind) == 1
        assert subjects(recorder) == [b"a"]


@onEach
class TestLife:
    """The life of subscriptions through imports."""

    def test_unsubscribed(self, market: Market) -> None:
        """A subscription that ends leaves no subscription in the exporting account."""
        market.stream("B", "A", b"a.>", b"b.>")
        recorder = market.subscribe("B", b"b.x")
        assert len(market["A"]) == 1
        recorder.subscription.cancel()
        assert (len(market["A"]), len(market["B"])) == (0, 0)
        assert market.publish("A", b"a.x") == 0

    def test_maximum(self, market: Market) -> None:
        """The maximum of a subscription counts the messages of all accounts."""
        market.stream("B", "A", b"a", b"b")
        recorder = market.subscribe("B", b"b")
        recorder.subscription.cancelAfter(3)
        for account, subject in (("A", b"a"), ("B", b"b"), ("A", b"a"), ("A", b"a"), ("B", b"b")):
            market.publish(account, subject)
        assert len(recorder.got) == 3
        assert recorder.ended == [b"1"]
        assert (len(market["A"]), len(market["B"])) == (0, 0)

    def test_importedLater(self, market: Market) -> None:
        """Existing subscriptions get messages of an import that is added later."""
        recorder = market.subscribe("B", b">")
        market.publish("A", b"a")
        market.stream("B", "A", b"a")
        market.publish("A", b"a")
        assert len(recorder.got) == 1

    def test_noLongerImported(self, market: Market) -> None:
        """The import of a subject that is no longer imported ends. Other imports continue."""
        market.stream("B", "A", b"a")
        market.stream("B", "C", b"c")
        recorder = market.subscribe("B", b">")
        kept = market._streams["B"][1:]
        assert market["B"].importStreams(kept) == []
        market.publish("A", b"a")
        market.publish("C", b"c")
        assert subjects(recorder) == [b"c"]
        assert market["B"].importStreams([]) == []
        assert (len(market["A"]), len(market["C"]), len(market["B"])) == (0, 0, 1)

    def test_routerIsFull(self, market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A subscription that the exporting account's router refuses is refused in the importing
        account too.
        """
        market.stream("B", "C", b"c")
        market.stream("B", "A", b"a.>")

        def refuse(pattern: bytes, entry: object) -> None:
            raise BrokerError("no more")

        monkeypatch.setattr(market["A"]._router, "insert", refuse)
        with pytest.raises(BrokerError, match="no more"):
            market.subscribe("B", b">")
        assert [len(market[name]) for name in "ABC"] == [0, 0, 0]
        market.subscribe("B", b"other")
        problems = market["B"].importStreams(market._streams["B"])
        assert problems == []

    def test_routerIsFullLater(self, market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
        """A router that refuses a subscription when an import is added later is reported."""

        def refuse(pattern: bytes, entry: object) -> None:
            raise BrokerError("no more")

        market.subscribe("B", b"a")
        market.stream("B", "A", b"a")
        monkeypatch.setattr(market["A"]._router, "insert", refuse)
        problems = market["B"].importStreams(market._streams["B"])
        assert [str(problem) for problem in problems] == ["no more"]

    @pytest.mark.parametrize("kind", [Kind.ROUTE, Kind.GATEWAY])
    def test_links(self, market: Market, kind: Kind) -> None:
        """The interest of other brokers with the same accounts is not imported here."""
        market.stream("B", "A", b"a")
        market["B"].busFor(kind).subscribe(b"a", LinkRecorder())
        assert len(market["A"]) == 0


@implementer(ILinkSubscriber)
class LeafRecorder(LinkRecorder):
    """A leafnode that records the subjects too."""

    subscription: Any = None

    def __init__(self, account: str = "B", kind: Kind = Kind.SPOKE, cluster: bytes = b"") -> None:
        super().__init__()
        self.grant = Grant(account)
        self.kind = kind
        self.cluster = cluster
        self.isNamed = bool(cluster)

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self.got.append((message.subject, queues))


@onEach
@pytest.mark.parametrize("kind", [Kind.SPOKE, Kind.HUB])
class TestLeafnodes:
    """The imports of an account that leafnodes receive."""

    def leaf(self, market: Market, kind: Kind, *patterns: bytes) -> LeafRecorder:
        """A leafnode of account B with a subscription."""
        leaf = LeafRecorder()
        for pattern in patterns:
            leaf.subscription = market["B"].busFor(kind).subscribe(pattern, leaf)
        return leaf

    @pytest.mark.parametrize("ours", [b"", b"$JS.API.>"])
    def test_noRequests(self, market: Market, kind: Kind, ours: bytes) -> None:
        """
        Leafnodes do not receive requests to the broker that were published in another account.
        """
        theirs = b"a.>" if ours else b">"
        market.stream("B", "A", theirs, ours)
        leaf = self.leaf(market, kind, b">")
        subject = b"a.STREAM.DELETE.S" if ours else b"$JS.API.STREAM.DELETE.S"
        assert market.publish("A", subject, origin=object()) == 0
        assert leaf.got == []

    @pytest.mark.parametrize(
        ("ours", "pattern", "received"),
        [
            (b"", b"a.x", b"a.x"),
            (b"", b">", b"a.x"),
            (b"from.a.>", b"from.a.x", b"from.a.x"),
            (b"from.a.>", b"from.>", b"from.a.x"),
        ],
    )
    def test_nameInAccount(
        self, market: Market, kind: Kind, ours: bytes, pattern: bytes, received: bytes
    ) -> None:
        """Leafnodes get a message under its subject in their own account."""
        market.stream("B", "A", b"a.>", ours)
        leaf = self.leaf(market, kind, pattern)
        assert market.publish("A", b"a.x") == 1
        assert leaf.got == [(received, ())]
        leaf.subscription.cancel()
        assert market.publish("A", b"a.x") == 0
        assert len(market["A"]) == 0

    @pytest.mark.parametrize("ours", [b"", b"from.a.>"])
    def test_deliveredOnce(self, market: Market, kind: Kind, ours: bytes) -> None:
        """A leafnode gets an imported message once, however many of its subscriptions match."""
        market.stream("B", "A", b"a.>", ours)
        leaf = self.leaf(market, kind, b">", b"*.>", (ours or b"a.>").replace(b">", b"x"))
        market.publish("A", b"a.x")
        assert len(leaf.got) == 1

    @pytest.mark.parametrize("ours", [b"", b"from.a.>"])
    def test_queues(self, market: Market, kind: Kind, ours: bytes) -> None:
        """Members of groups are chosen by their weights, also after these have changed."""
        market.stream("B", "A", b"a.>", ours)
        pattern = (ours or b"a.>").replace(b">", b"x")
        leafs = [LeafRecorder() for _ in range(2)]
        made = [market["B"].busFor(kind).subscribe(pattern, leaf, None, b"q") for leaf in leafs]
        made[0].reweigh(99)
        for _ in range(50):
            market.publish("A", b"a.x")
        assert len(leafs[0].got) > len(leafs[1].got)
        assert set(leafs[0].got) == {(pattern, (b"q",))}

    @pytest.mark.parametrize("ours", [b"", b"from.a.>"])
    def test_permissions(self, market: Market, kind: Kind, ours: bytes) -> None:
        """
        A message is not sent to a leafnode if its subject in the leafnode's account is denied.
        """
        market.stream("B", "A", b"a.>", ours)
        leaf = self.leaf(market, kind, b">")
        denied = (ours or b"a.>").replace(b">", b"secret")
        leaf.subscription.permissions = SubscribePermissions(None, [denied])
        market["B"].refresh()
        assert market.publish("A", b"a.secret") == 0
        assert market.publish("A", b"a.x") == 1

    @pytest.mark.parametrize("ours", [b"", b"from.a.>"])
    @pytest.mark.parametrize(("theirs", "cluster"), [(b"E", b"E"), (b"", b""), (b"E", b"F")])
    def test_fromCluster(
        self, market: Market, kind: Kind, ours: bytes, theirs: bytes, cluster: bytes
    ) -> None:
        """
        A leafnode gets the messages that another leafnode of its cluster publishes in the exporting
        account. Hubs get these messages only from other clusters.
        """
        market.stream("B", "A", b"a.>", ours)
        leaf, origin = LeafRecorder("B", kind, cluster), LeafRecorder("A", kind, theirs)
        market["B"].busFor(kind).subscribe(b">", leaf)
        reached = int(kind is Kind.SPOKE or theirs != cluster)
        assert market.publish("A", b"a.x", kind=kind, origin=origin) == len(leaf.got) == reached

    @pytest.mark.parametrize("ours", [b"", b"from.a.>"])
    def test_notBack(self, market: Market, kind: Kind, ours: bytes) -> None:
        """
        A request of a leafnode that reaches the exporting account is not sent back to this
        leafnode.
        """
        market.stream("B", "A", b"a.>", ours)
        market.service("B", "A", b"a.x", b"ask")
        leaf, other = LeafRecorder("B", kind, b"E"), LeafRecorder("B", kind, b"F")
        for peer in (leaf, other):
            market["B"].busFor(kind).subscribe(b">", peer)
        market.publish("B", b"ask", kind=kind, origin=leaf)
        assert (len(leaf.got), len(other.got)) == (0, 2)

    def test_beacon(self, market: Market, kind: Kind) -> None:
        """
        A leafnode's subscription to the subject that detects loops adds no interest in the
        exporting account.
        """
        market.stream("B", "A", b">")
        self.leaf(market, kind, b"$LDS.x")
        assert len(market["A"]) == 0


@onEach
class TestInterest:
    """The interest that other brokers learn."""

    def test_interestInBothAccounts(self, market: Market) -> None:
        """Other brokers learn of a subscription through an import in both accounts."""
        market.stream("B", "A", b"a.>", b"b.>")
        here, there = WatchRecorder(), WatchRecorder()
        market["A"].busFor(Kind.ROUTE).watchInterest(there)
        market["B"].busFor(Kind.ROUTE).watchInterest(here)
        recorder = market.subscribe("B", b"b.x", b"q")
        assert there.taken() == [("+", b"a.x", b"q", 1)]
        assert here.taken() == [("+", b"b.x", b"q", 1)]
        late = WatchRecorder()
        market["A"].busFor(Kind.GATEWAY).watchInterest(late)
        assert late.taken() == [("+", b"a.x", b"q", 1)]
        recorder.subscription.cancel()
        assert there.taken() == [("-", b"a.x", b"q", 0)]

    def test_hasInterest(self, market: Market) -> None:
        """An exporter knows whether an importer wants its messages."""
        market.stream("B", "A", b"a.>", b"b.>")
        bus = market["A"].busFor(Kind.CLIENT)
        assert not bus.hasInterest(b"a.x")
        market.subscribe("B", b"b.x")
        assert bus.hasInterest(b"a.x")
        assert not bus.hasInterest(b"a.y")


@onEach
@given(PATTERNS, LITERALS)
def test_matchesOwnSubject(names: Names, pattern: bytes, subject: bytes) -> None:
    """
    A subscription gets an imported message exactly if it matches the message's subject in this
    account.
    """
    with using(names):
        market = Market("A", "B")
        market.stream("B", "A", b">", b"x.>")
        recorder: Any = market.subscribe("B", pattern)
        market.publish("A", subject)
        expected = [b"x." + subject] if matches(pattern, b"x." + subject) else []
        assert subjects(recorder) == expected


@onEach
def test_batches(names: Names) -> None:
    """A service that receives batches gets imported messages too."""
    with using(names):
        market = Market("A", "B")
        market.stream("B", "A", b"a", b"b")
        recorder = Recorder()
        market["B"].busFor(Kind.INTERNAL).subscribe(b"b", recorder)
        assert market.publish("A", b"a") == 1
        assert subjects(recorder) == [b"b"]
