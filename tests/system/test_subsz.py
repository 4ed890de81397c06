"""Tests for L{natsbroker.system.subsz}; values are held against nats-server's elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.queries import LARGEST_LIMIT
from natsbroker.system.subsz import SubscriptionQuery, Subsz, sublistFigures
from natsbroker.wire.values import Kind
from tests.monitoring.staging import Stage
from tests.support import LinkRecorder, Recorder


def subjects(stage: Stage, **query: str) -> list[str]:
    """The subjects of the listed subscriptions."""
    page = stage.page("/subsz", subs="1", **query)
    return sorted(row["subject"] for row in page.get("subscriptions_list", []))


class TestSubsz:
    """The subscriptions."""

    def populated(self) -> Stage:
        """
        Clients in two accounts.
        """
        stage = Stage()
        stage.client("a@A").ask(b"SUB foo.* 1\r\nSUB foo.> q 2\r\nSUB bar 3\r\n")
        stage.client("b@B").ask(b"SUB foo.1 1\r\n")
        return stage

    def test_sublistFigures(self) -> None:
        """Without a list, the page has only figures."""
        page = self.populated().page("/subsz")
        assert page["num_subscriptions"] == 4
        assert (page["total"], page["offset"], page["limit"]) == (0, 0, 1024)
        assert "subscriptions_list" not in page

    def test_account(self) -> None:
        """If an account is named, figures and list are about that account."""
        page = self.populated().page("/subsz", acc="B", subs="1")
        assert (page["num_subscriptions"], page["total"]) == (1, 1)
        assert page["subscriptions_list"][0]["account"] == "B"
        assert self.populated().page("/subsz", acc="NOPE")["num_subscriptions"] == 0

    def test_list(self) -> None:
        """All subscriptions are listed."""
        assert subjects(self.populated()) == ["bar", "foo.*", "foo.1", "foo.>"]

    def test_test(self) -> None:
        """
        A subject selects the subscriptions that a message to it would reach, queue groups included.
        """
        assert subjects(self.populated(), test="foo.1") == ["foo.*", "foo.1", "foo.>"]
        assert subjects(self.populated(), test="nobody") == []

    @pytest.mark.parametrize("test", ["foo.*", ">", "a..b", " "])
    def test_noLiteral(self, test: str) -> None:
        """A pattern as the tested subject is refused, as it cannot be published to."""
        text = Stage().refusal("/subsz", test=test)
        assert text == f"invalid test subject, must be valid publish subject: {test}"

    @pytest.mark.parametrize("offset", range(6))
    def test_parts(self, offset: int) -> None:
        """The parts of a paged list make up the whole, over all accounts."""
        stage = self.populated()
        whole = stage.page("/subsz", subs="1")["subscriptions_list"]
        page = stage.page("/subsz", subs="1", offset=str(offset), limit="2")
        assert page.get("subscriptions_list", []) == whole[offset : offset + 2]
        assert page["total"] == 4

    def test_limit(self) -> None:
        """A page never has more rows than its limit."""
        assert Stage().page("/subsz", subs="1", limit=str(10**15))["limit"] == LARGEST_LIMIT

    def test_linksAreLeftOut(self) -> None:
        """Subscriptions of other brokers are left out; those of inner services are listed."""
        stage = Stage()
        account = stage.world.accounts["A"]
        account.subscribe(Kind.INTERNAL, b"svc", Recorder(), None, b"", 1)
        account.subscribe(Kind.ROUTE, b"there", LinkRecorder(), None, b"", 1)
        account.subscribe(Kind.ROUTE, b"svc", LinkRecorder(), None, b"q", 1)
        assert subjects(stage) == ["svc"]
        assert subjects(stage, test="svc") == ["svc"]
        assert subjects(stage, test="there") == []

    def test_onlyListsAreLong(self) -> None:
        """Only a request for the list is processed in steps."""
        stage = Stage()
        assert not stage.answer("/subsz").isLong
        assert stage.answer("/subsz", subs="1").isLong


class Changing:
    """
    An account whose subscriptions change while they are listed.

    @ivar disturbances: how often they will.
    """

    def __init__(self, account: Any, disturbances: int) -> None:
        self.name = account.name
        self.matcher = account.matcher
        self.removals = account.removals
        self.disturbances = disturbances
        self._account = account

    def __len__(self) -> int:
        return len(self._account)

    def subscriptions(self) -> Iterator[Any]:
        """Raise as a changed dictionary does."""
        for place, subscription in enumerate(self._account.subscriptions()):
            if place == 2_000 and self.disturbances:
                self.disturbances -= 1
                raise RuntimeError("dictionary changed size during iteration")
            yield subscription


class TestSteps:
    """Many subscriptions."""

    def many(self) -> Stage:
        """
        A client with many subscriptions.
        """
        stage = Stage()
        wire = stage.client("a@A")
        wire.send(b"".join(b"SUB foo.%d %d\r\n" % (n, n) for n in range(5_000)))
        stage.world.settle()
        return stage

    def test_pauses(self) -> None:
        """The subscriptions are read and shown in parts."""
        stage = self.many()
        wanted = SubscriptionQuery(subs=True, limit=5_000)
        steps = Subsz(stage.world.context, [stage.world.accounts["A"]]).steps(wanted)
        assert sum(1 for _ in steps) >= 40

    @pytest.mark.parametrize("disturbances", [1, 2, 3])
    def test_disturbed(self, disturbances: int) -> None:
        """
        If subscriptions change while they are listed, the list begins again, and in the end none is
        missing or listed twice.
        """
        account: Any = Changing(self.many().world.accounts["A"], disturbances)
        subsz = Subsz(Stage().world.context, [account])
        listing = complete(subsz.steps(SubscriptionQuery(subs=True, limit=10_000)))
        assert account.disturbances == 0
        assert len({row["subject"] for row in listing.rows}) == len(listing.rows) == 5_000

    def test_realChanges(self) -> None:
        """Clients may subscribe and leave while the page is made."""
        stage = self.many()
        body = stage.answer("/subsz", subs="1").body
        pieces = [next(body)]
        other = stage.client("b@A")
        for n, piece in enumerate(body):
            pieces.append(piece)
            other.send(b"SUB more.%d %d\r\n" % (n, n))
        page = json.loads(b"".join(pieces))
        assert len(page["subscriptions_list"]) == 1024
        assert page["total"] >= 5_000


def test_sublistFigures() -> None:
    """Matches by the router and remembered ones are counted."""
    stage = Stage()
    wire = stage.client("a@A")
    wire.ask(b"SUB foo 1\r\nSUB bar 2\r\n")
    matcher = stage.world.accounts["A"].matcher
    for _ in range(4):
        matcher.match(b"foo")
    assert complete(sublistFigures([stage.world.accounts["A"]])) == {
        "num_subscriptions": 2,
        "num_cache": 1,
        "num_inserts": 2,
        "num_removes": 0,
        "num_matches": 4,
        "cache_hit_rate": 0.75,
        "max_fanout": 1,
        "avg_fanout": 1,
    }


def test_fanOut() -> None:
    """The fan-out covers all remembered subjects; removals are counted."""
    stage = Stage()
    stage.client("a@A").ask(b"SUB foo 1\r\nSUB foo q 2\r\nSUB > 3\r\nSUB bar 4\r\nUNSUB 4\r\n")
    account = stage.world.accounts["A"]
    for subject in (b"foo", b"bar"):
        account.matcher.match(subject)
    figures = complete(sublistFigures([account]))
    assert (figures["num_inserts"], figures["num_removes"]) == (4, 1)
    assert (figures["max_fanout"], figures["avg_fanout"]) == (3, 2)


def test_sublistFiguresAreSummed() -> None:
    """The figures of several accounts are added up; the hit rate is that of all."""
    stage = Stage()
    for name, count in (("A", 1), ("B", 3)):
        stage.client(f"x@{name}").ask(b"SUB foo 1\r\n")
        for _ in range(count):
            stage.world.accounts[name].matcher.match(b"foo")
    figures = complete(sublistFigures([stage.world.accounts["A"], stage.world.accounts["B"]]))
    assert figures["num_subscriptions"] == 2
    assert figures["num_matches"] == 4
    assert figures["cache_hit_rate"] == 0.5


def test_rateWithoutLookups() -> None:
    """Without a look-up, the hit rate is zero."""
    assert complete(sublistFigures([]))["cache_hit_rate"] == 0


def test_serviceHasNoConnection() -> None:
    """The subscription of a service inside the broker has no sid and the connection number 0."""
    stage = Stage()
    account = stage.world.accounts["A"]
    account.subscribe(Kind.INTERNAL, b"svc", Recorder(), ("tag", 1), b"", 1)
    (row,) = stage.page("/subsz", subs="1", acc="A")["subscriptions_list"]
    assert (row["sid"], row["cid"], row["subject"]) == ("", 0, "svc")


def test_clients() -> None:
    """The subscriptions of services inside the broker are left out, and not counted."""
    stage = Stage()
    account = stage.world.accounts["A"]
    account.subscribe(Kind.INTERNAL, b"svc", Recorder(), ("tag", 1), b"", 1)
    stage.client("a@A").ask(b"SUB own 1\r\n")
    assert subjects(stage, acc="A", clients="1") == ["own"]
    page = stage.page("/subsz", subs="1", acc="A", clients="1", offset="1")
    assert (page["total"], page.get("subscriptions_list")) == (1, None)
