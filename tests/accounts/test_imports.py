"""
Tests for L{natsbroker.accounts.imports}: imported services. (Streams: C{test_shadows}.)
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from natsbroker.accounts.relays import MOST_HOPS
from natsbroker.accounts.shadows import ImportedStream
from natsbroker.config.settings.accounts import ServiceExport
from natsbroker.subjects.renaming import Renaming
from natsbroker.wire.values import ClientInfo, Kind, Message
from tests.accounts.market import Market, Person, requestor, subjects
from tests.support import Recorder, WatchRecorder

REPLY = re.compile(rb"_R_\.[0-9A-Za-z]{6}\.[0-9A-Za-z]{6}")


@pytest.fixture
def market() -> Market:
    """Some accounts."""
    return Market("A", "B", "C", "D")


class TestRequests:
    """The messages that reach a service."""

    @pytest.mark.parametrize(
        ("theirs", "ours", "asked", "received"),
        [
            (b"req", b"", b"req", b"req"),
            (b"req", b"local.req", b"local.req", b"req"),
            (b"req.*", b"w.*", b"w.x", b"req.x"),
            (b"req.*.*", b"w.$2.$1", b"w.a.b", b"req.b.a"),
            (b"req.>", b"w.>", b"w.a.b", b"req.a.b"),
            (b"req", b"w.>", b"w.a.b", b"req"),
        ],
    )
    def test_renamed(
        self, market: Market, theirs: bytes, ours: bytes, asked: bytes, received: bytes
    ) -> None:
        """A request has the subject that the service expects, and its own reply subject."""
        market.service("B", "A", theirs, ours)
        service = market.subscribe("A", b">")
        assert market.publish("B", asked, b"hi", b"inbox.1") == 1
        ((message, _),) = service.got
        assert (message.subject, message.payload) == (received, b"hi")
        assert REPLY.fullmatch(message.reply)

    def test_noReply(self, market: Market) -> None:
        """A request without a reply subject has none in the other account either."""
        market.service("B", "A", b"req")
        service = market.subscribe("A", b"req")
        assert market.publish("B", b"req", b"hi") == 1
        assert service.got[0][0].reply == b""
        assert market["A"].responses.isOpen is False

    def test_acknowledgement(self, market: Market) -> None:
        """
        The reply subject of a stream's message is kept, because another one would acknowledge
        nothing.
        """
        market.service("B", "A", b"req")
        service = market.subscribe("A", b"req")
        market.publish("B", b"req", reply=b"$JS.ACK.S.C.1.1.1.1.0")
        assert service.got[0][0].reply == b"$JS.ACK.S.C.1.1.1.1.0"

    def test_noService(self, market: Market) -> None:
        """
        A request for an imported service without subscribers reaches no receiver, and no response
        is pending.
        """
        market.service("B", "A", b"req")
        assert market.publish("B", b"req", reply=b"inbox") == 0
        assert len(market["A"].responses) == len(market["B"].responses.pending) == 0

    def test_besidesSubscribers(self, market: Market) -> None:
        """A subscriber in the importing account gets a request for the imported service too."""
        market.service("B", "A", b"req")
        service, here = market.subscribe("A", b"req"), market.subscribe("B", b"req")
        assert market.publish("B", b"req") == 2
        assert len(service.got) == len(here.got) == 1

    def test_queueGroup(self, market: Market) -> None:
        """One member of a queue group in the exporting account gets the request."""
        market.service("B", "A", b"req")
        members = [market.subscribe("A", b"req", b"q") for _ in range(3)]
        for _ in range(30):
            assert market.publish("B", b"req") == 1
        assert sum(len(member.got) for member in members) == 30

    def test_mappedByExporter(self, market: Market) -> None:
        """The exporter's mappings apply to imported requests."""
        market.service("B", "A", b"req", b"r")
        market.map("A", req="really")
        service = market.subscribe("A", b">")
        market.publish("B", b"r")
        assert subjects(service) == [b"really"]

    def test_notFromLinks(self, market: Market) -> None:
        """
        A message over a route or a gateway is not imported again, because its broker has done that.
        """
        market.service("B", "A", b"req")
        service = market.subscribe("A", b"req")
        for kind in Kind:
            isDone = kind in (Kind.ROUTE, Kind.GATEWAY)
            assert market.publish("B", b"req", kind=kind) == (0 if isDone else 1)
        assert len(service.got) == len(Kind) - 2

    def test_leafnodes(self, market: Market) -> None:
        """
        A leafnode's request reaches a queue group of the service, although the leafnode names no
        group.
        """
        market.service("B", "A", b"req")
        market.subscribe("A", b"req", b"q")
        assert market.publish("B", b"req", kind=Kind.SPOKE) == 1

    def test_severalExporters(self, market: Market) -> None:
        """A request for a subject that is imported from several accounts reaches each of them."""
        market.service("C", "A", b"req")
        market.service("C", "B", b"req")
        services = [market.subscribe(name, b"req") for name in "AB"]
        assert market.publish("C", b"req") == 2
        assert [len(service.got) for service in services] == [1, 1]


class TestRequestor:
    """The description of the requestor for a service."""

    def test_account(self, market: Market) -> None:
        """
        The service learns the requestor's account and round trip, unless the import shares more.
        """
        market.service("B", "A", b"req")
        service = market.subscribe("A", b"req")
        market.publish("B", b"req", origin=Person("B", "bob", 5))
        ((message, _),) = service.got
        assert requestor(message) == {"acc": "B", "rtt": 5}
        assert message.headerLength == len(message.headers)

    def test_shared(self, market: Market) -> None:
        """If the import is shared, the service learns everything about the client."""
        market.service("B", "A", b"req", share=True)
        service = market.subscribe("A", b"req")
        market.publish("B", b"req", origin=Person("B", "bob"))
        told = requestor(service.got[0][0])
        assert told == {"acc": "B", "name": "bob", "server": "here", "kind": "Client"}

    def test_noClient(self, market: Market) -> None:
        """A service learns only the account if the requestor is a service inside the broker."""
        market.service("B", "A", b"req", share=True)
        service = market.subscribe("A", b"req")
        market.publish("B", b"req", kind=Kind.INTERNAL, origin=Recorder())
        assert requestor(service.got[0][0]) == {"acc": "B"}

    def test_systemAccount(self, market: Market) -> None:
        """The system account is also told which server it is."""
        market["A"].isSystem = True
        market.service("B", "A", b"req")
        service = market.subscribe("A", b"req")
        market.publish("B", b"req", origin=Person("B", "bob", 5))
        assert requestor(service.got[0][0]) == {"acc": "B", "rtt": 5, "server": "here"}

    @pytest.mark.parametrize("isShared", [False, True])
    def test_location(self, market: Market, isShared: bool) -> None:
        """
        The server's name is followed by its cluster and the clusters of its leafnode connections.
        """
        market["A"].isSystem = True
        market["B"].location = lambda: ("C1", ("near", "far"))
        market.service("B", "A", b"req", share=isShared)
        service = market.subscribe("A", b"req")
        market.publish("B", b"req", origin=Person("B", rtt=5))
        told = requestor(service.got[0][0])
        assert (told["server"], told["cluster"], told["alts"]) == ("here", "C1", ["near", "far"])

    @pytest.mark.parametrize(
        "forged",
        [
            b"Nats-Request-Info: {}\r\n",
            b"Nats-Request-Info:{}\r\nNats-Request-Info: {}\r\nNats-Request-Info: {}\r\n",
            b"nats-request-info: {}\r\nNATS-REQUEST-INFO: {}\r\nnAts-rEquest-iNfo : {}\r\n",
            b"A: b\r\n" * 2000 + b"Nats-Request-Info: {}\r\n",
        ],
    )
    def test_forged(self, market: Market, forged: bytes) -> None:
        """
        A client's own description of the requestor is removed, also if repeated or in any spelling.
        """
        market.service("B", "A", b"req")
        service = market.subscribe("A", b"req")
        headers = b"NATS/1.0\r\nX: y\r\n" + forged + b"\r\n"
        market.publish("B", b"req", b"hi", headers=headers, origin=Person("B"))
        ((message, _),) = service.got
        assert message.headers.lower().count(b"request-info") == 1
        assert requestor(message) == {"acc": "B"}
        assert b"X: y\r\n" in message.headers
        assert message.payload == b"hi"

    @pytest.mark.parametrize(("target", "count"), [(b"req.b", 1), (b"other", 0)])
    def test_schedule(self, market: Market, target: bytes, count: int) -> None:
        """A schedule comes through an import only if the export has its subjects."""
        market.service("B", "A", b"req.*")
        service = market.subscribe("A", b"req.*")
        headers = b"NATS/1.0\r\nNats-Schedule-Target: %b\r\n\r\n" % target
        market.publish("B", b"req.a", b"hi", headers=headers, origin=Person("B"))
        assert len(service.got) == count

    def test_sharedObject(self, market: Market) -> None:
        """
        A receiver in the importing account gets the request without a description of the requestor.
        """
        market.service("B", "A", b"req")
        market.subscribe("A", b"req")
        here = market.subscribe("B", b"req")
        market.publish("B", b"req", b"hi", headers=b"NATS/1.0\r\nA: b\r\n\r\n")
        assert here.got[0][0].body == b"NATS/1.0\r\nA: b\r\n\r\nhi"


class TestChains:
    """Services that send requests to services of other accounts."""

    def chain(self, market: Market, *shares: bool) -> Any:
        """
        @return: the service in A that B imports, which C imports from B and D from C.
        """
        names = "ABCD"
        for place, share in enumerate(shares):
            market.service(
                names[place + 1], names[place], b"s%d" % place, b"s%d" % (place + 1), share
            )
        return market.subscribe("A", b"s0")

    def test_reaches(self, market: Market) -> None:
        """A request goes through several accounts and has a reply subject of the last."""
        service = self.chain(market, False, False, False)
        assert market.publish("D", b"s3", b"hi", b"inbox", origin=Person("D")) == 1
        ((message, _),) = service.got
        assert (message.subject, message.payload) == (b"s0", b"hi")
        assert [len(market[name].responses) for name in "ABC"] == [1, 1, 1]

    def test_answer(self, market: Market) -> None:
        """The answer of a service comes back through all imports."""
        service = self.chain(market, False, False, False)
        inbox = market.subscribe("D", b"inbox")
        market.publish("D", b"s3", b"hi", b"inbox")
        market.publish("A", service.got[0][0].reply, b"yes")
        ((answer, _),) = inbox.got
        assert (answer.subject, answer.body, answer.reply) == (b"inbox", b"yes", b"")
        assert [len(market[name].responses) for name in "ABC"] == [0, 0, 0]

    def test_chainWithoutService(self, market: Market) -> None:
        """
        If no service is at the end of a chain, the request reaches no receiver and no response is
        pending.
        """
        self.chain(market, False, False).subscription.cancel()
        assert market.publish("C", b"s2", reply=b"inbox") == 0
        assert [len(market[name].responses) for name in "AB"] == [0, 0]

    @pytest.mark.parametrize(
        ("shares", "told"),
        [
            ((False, False), {"acc": "C", "svc": "B", "rtt": 5}),
            ((True, False), {"acc": "C", "svc": "B", "rtt": 5, "server": "here"}),
            (
                (False, True),
                {
                    "acc": "C",
                    "svc": "B",
                    "rtt": 5,
                    "name": "carol",
                    "server": "here",
                    "kind": "Client",
                },
            ),
        ],
    )
    def test_serviceLearnsRequestor(
        self, market: Market, shares: tuple[bool, ...], told: dict[str, Any]
    ) -> None:
        """The service learns the first requestor and the last account."""
        service = self.chain(market, *shares)
        market.publish("C", b"s2", origin=Person("C", "carol", 5))
        assert requestor(service.got[0][0]) == told

    def test_circle(self, market: Market) -> None:
        """A request that passes the same export twice is delivered once more and then dropped."""
        market.service("A", "B", b"b", b"a")
        market.service("B", "A", b"a", b"b")
        here = market.subscribe("A", b"a")
        assert market.publish("A", b"a") == 2  # its own subscriber, and once around
        assert len(here.got) == 2

    def test_circleThroughMapping(self, market: Market) -> None:
        """A cycle of imports through mappings ends without a receiver."""
        market.service("A", "B", b"b", b"out.a")
        market.service("B", "A", b"a", b"out.b")
        market.map("A", a="out.a")
        market.map("B", b="out.b")
        assert market.publish("A", b"out.a") == 0
        assert not market["A"].busFor(Kind.CLIENT).hasInterest(b"out.a")

    def test_tooFar(self) -> None:
        """A request passes at most sixteen imports."""
        names = [f"N{number}" for number in range(MOST_HOPS + 2)]
        market = Market(*names)
        for one, other in zip(names[1:], names, strict=False):
            market.service(one, other, b"s")
        recorder = market.subscribe(names[0], b"s")
        assert market.publish(names[-2], b"s") == 1
        assert market.publish(names[-1], b"s") == 0
        assert len(recorder.got) == 1


class TestInterest:
    """Interest in imported services."""

    def test_importsAreNotInterest(self, market: Market) -> None:
        """
        Other brokers do not learn of service imports as interest, because they apply imports
        themselves.
        """
        market.service("B", "A", b"req")
        watcher = WatchRecorder()
        market["B"].busFor(Kind.ROUTE).watchInterest(watcher)
        market.service("B", "C", b"other")
        assert watcher.taken() == []
        market["B"].importServices([])
        assert watcher.taken() == []

    def test_answersAreWanted(self, market: Market) -> None:
        """
        A request for an imported service makes the exporter's account interested in the response.
        """
        market.service("B", "A", b"req")
        market.subscribe("A", b"req")
        watcher = WatchRecorder()
        market["A"].busFor(Kind.ROUTE).watchInterest(watcher)
        watcher.taken()
        market.publish("B", b"req", reply=b"inbox")
        ((sign, pattern, queue, _),) = watcher.taken()
        assert (sign, queue) == ("+", b"")
        assert re.fullmatch(rb"_R_\.[0-9A-Za-z]{6}\.>", pattern)

    def test_hasInterest(self, market: Market) -> None:
        """An importer is interested in a request if the exporter has a service for it."""
        market.service("B", "A", b"req.*", b"r.*")
        market.service("C", "B", b"r.x", b"c.x")
        bus = market["C"].busFor(Kind.CLIENT)
        assert not bus.hasInterest(b"c.x")
        service = market.subscribe("A", b"req.x")
        assert bus.hasInterest(b"c.x")
        assert not bus.hasInterest(b"r.x")
        assert not market["C"].busFor(Kind.ROUTE).hasInterest(b"c.x")
        market.map("A", **{"req.x": "elsewhere"})
        assert not bus.hasInterest(b"c.x")
        service.subscription.cancel()

    def test_noLongerImported(self, market: Market) -> None:
        """A subject whose import was removed reaches no receiver."""
        market.service("B", "A", b"req")
        market.subscribe("A", b"req")
        assert market["B"].importServices([]) == []
        assert market.publish("B", b"req") == 0
        assert len(market["B"]) == 0


def test_patternFor() -> None:
    """
    An imported stream translates a pattern of the importing account to the exporter's pattern.
    """
    stream = ImportedStream(Market("A")["A"], Renaming(b"a.*.>", b"x.$1.>"))
    assert stream.patternFor(b"x.b.c") == b"a.b.c"
    assert stream.patternFor(b">") == b"a.*.>"
    assert stream.patternFor(b"y.>") is None
    assert repr(stream).startswith("<StreamImport of 'A': <Renaming b'a.*.>'")


def test_describedBySystemAndShare() -> None:
    """A request without a client is described by its account."""
    market = Market("A", "B")
    export = market.service("B", "A", b"req")
    assert isinstance(export, ServiceExport)
    (made,) = market._services["B"]
    assert repr(made).startswith("<ServiceImport of 'A'")
    assert made._described(None, None) == ClientInfo(acc="B")
    assert not made.reaches(b"req", Kind.CLIENT, MOST_HOPS)
    assert Message(b"a").readdressed(b"b", b"c").subject == b"b"


class TestJetStream:
    """The system account's service for JetStream on other servers."""

    def reached(self, market: Market, subject: bytes, system: str = "A") -> tuple[int, list[bytes]]:
        """
        The number of a request's receivers, and the subjects that the exporter gets for the
        request.
        """
        market[system].isSystem = True
        market.service("B", "A", b"$JS.API.>")
        service = market.subscribe("A", b"$JS.API.>")
        count = market.publish("B", subject, reply=b"inbox", origin=Person("B"))
        assert bool(count) is market["B"].delivery.hasInterest(Kind.CLIENT, subject)
        return count, subjects(service)

    def test_imported(self, market: Market) -> None:
        """Requests about streams and consumers are sent to this service."""
        subject = b"$JS.API.STREAM.INFO.S"
        assert self.reached(market, subject) == (1, [subject])

    @pytest.mark.parametrize("subject", [b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"$JS.API.DIRECT.GET.S"])
    def test_pullsAreNotImported(self, market: Market, subject: bytes) -> None:
        """Pulls and direct gets are answered in the account itself, and nowhere else."""
        assert self.reached(market, subject) == (0, [])
        assert self.reached(Market("A", "B", "C"), subject, "C") == (1, [subject])
