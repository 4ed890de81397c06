"""Tests for L{natsbroker.clients.selection}."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from natsbroker.clients.context import ClosedClient, Connections
from natsbroker.clients.selection import Selection, accountOf, choose
from natsbroker.connections.facts import ConnectionFacts, SubscriptionFacts
from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.queries import DEFAULT_LIMIT, LARGEST_LIMIT, BadQuery, limitFrom

NOW = 1000.0


def factsWith(cid: int, **changes: Any) -> ConnectionFacts:
    """Facts of a connection. A fact that is not given has no value."""
    facts = ConnectionFacts(
        cid, "nats", "127.0.0.1", 1, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, "", "", "", "", ""
    )
    return facts._replace(**changes)


class Pattern:
    """A subscription with a pattern only."""

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern


class Open:
    """A connection that counts its visits."""

    looked = 0
    traffic = (0, 0, 0, 0)

    def __init__(self, facts: ConnectionFacts, patterns: tuple[bytes, ...] = ()) -> None:
        self._facts = facts
        self._listed = [(b"%d" % n, Pattern(pattern)) for n, pattern in enumerate(patterns)]

    def facts(self) -> ConnectionFacts:
        """Count a visit, and return the facts."""
        Open.looked += 1
        return self._facts

    def listed(self) -> list[tuple[bytes, Pattern]]:
        """The subscriptions."""
        return self._listed


def connectionsOf(*open: Open, closed: tuple[ClosedClient, ...] = ()) -> Connections:
    """Connections, some open and some closed."""
    connections = Connections()
    for connection in open:
        connections.add(connection.facts().cid, connection)
    connections.closed.extend(closed)
    return connections


def cids(connections: Connections, **query: str) -> list[int]:
    """
    The numbers of the connections that are chosen.
    """
    window, _ = complete(choose(connections, Selection.fromQuery(query), NOW))
    return [connection.cid for connection in window]


def total(connections: Connections, **query: str) -> int:
    """The total number of connections."""
    count: int = complete(choose(connections, Selection.fromQuery(query), NOW))[1]
    return count


def gone(cid: int, stop: float = 0.0, reason: str = "", **changes: Any) -> ClosedClient:
    """A closed connection."""
    return ClosedClient(factsWith(cid, **changes), stop, reason)


class TestSorting:
    """The orders."""

    @pytest.mark.parametrize(
        ("sort", "member"),
        [
            ("subs", "subscriptions"),
            ("pending", "pending"),
            ("msgs_to", "outMessages"),
            ("msgs_from", "inMessages"),
            ("bytes_to", "outBytes"),
            ("bytes_from", "inBytes"),
            ("last", "lastActivity"),
            ("rtt", "roundTrip"),
        ],
    )
    def test_descending(self, sort: str, member: str) -> None:
        """Most orders begin with the largest value. Equal ones are sorted by number."""
        values = [2, 9, 2, 5]
        connections = connectionsOf(
            *(Open(factsWith(cid, **{member: value})) for cid, value in enumerate(values, 1))
        )
        assert cids(connections, sort=sort) == [2, 4, 1, 3]

    @pytest.mark.parametrize("sort", ["cid", "start", ""])
    def test_byNumber(self, sort: str) -> None:
        """By default connections are sorted by number."""
        connections = connectionsOf(Open(factsWith(3)), Open(factsWith(1)), closed=(gone(2),))
        assert cids(connections, sort=sort, state="all") == [1, 2, 3]

    def test_idle(self) -> None:
        """The connection that has been idle for the longest time comes first."""
        connections = connectionsOf(
            Open(factsWith(1, lastActivity=900.0)), Open(factsWith(2, lastActivity=100.0))
        )
        assert cids(connections, sort="idle") == [2, 1]

    def test_uptime(self) -> None:
        """The shortest uptime comes first. The uptime of a closed connection ended with it."""
        connections = connectionsOf(
            Open(factsWith(1, started=990.0)),
            Open(factsWith(2, started=100.0)),
            closed=(gone(3, 205.0, started=200.0), gone(4, 250.0, started=200.0)),
        )
        assert cids(connections, sort="uptime", state="any") == [3, 1, 4, 2]

    def test_stop(self) -> None:
        """The connection that closed last comes first."""
        connections = connectionsOf(closed=(gone(1, 5.0), gone(2, 9.0), gone(3, 7.0)))
        assert cids(connections, sort="stop", state="closed") == [2, 3, 1]

    def test_reason(self) -> None:
        """Reasons are in alphabetical order."""
        closed = (gone(1, reason="Write Error"), gone(2, reason="Client Closed"))
        connections = connectionsOf(closed=closed)
        assert cids(connections, sort="reason", state="closed") == [2, 1]

    @pytest.mark.parametrize("state", ["", "open", "all", "any"])
    @pytest.mark.parametrize("sort", ["stop", "reason"])
    def test_onlyOfClosed(self, sort: str, state: str) -> None:
        """A list of open connections cannot be sorted by their end."""
        with pytest.raises(BadQuery, match=f"sort by {sort} only valid on closed connections"):
            Selection.fromQuery({"sort": sort, "state": state})

    def test_unknownOrder(self) -> None:
        """An unknown order is refused, and repeated in the error short and printable."""
        with pytest.raises(BadQuery, match=r"^invalid sorting option: a\\r\\nx+\.\.\.$"):
            Selection.fromQuery({"sort": "a\r\n" + "x" * 1000})


class TestStates:
    """The state selects open connections, closed ones, or all."""

    @pytest.mark.parametrize(
        ("state", "wanted"),
        [
            ("", [1]),
            ("open", [1]),
            ("OPEN", [1]),
            ("closed", [2]),
            ("any", [1, 2]),
            ("all", [1, 2]),
        ],
    )
    def test_states(self, state: str, wanted: list[int]) -> None:
        """The state may be written in any case; without one it is open."""
        connections = connectionsOf(Open(factsWith(1)), closed=(gone(2),))
        assert cids(connections, state=state) == wanted
        assert total(connections, state=state) == len(wanted)

    def test_unknown(self) -> None:
        """An unknown state is refused."""
        with pytest.raises(BadQuery, match=r"^Error decoding state for half$"):
            Selection.fromQuery({"state": "half"})


class TestFilters:
    """Filters of connections."""

    connections = connectionsOf(
        Open(factsWith(1, account="A", user="a"), (b"foo.*", b"x")),
        Open(factsWith(2, account="A", user="b"), (b"bar",)),
        Open(factsWith(3, account="$G")),
        Open(factsWith(4)),
        closed=(
            gone(5, account="A", user="a", details=(SubscriptionFacts(b"foo.>", b"", b"1", 0, 0),)),
            gone(6, account="B", user="a"),
        ),
    )

    def test_account(self) -> None:
        """Only the account's connections are listed and counted."""
        assert cids(self.connections, acc="A", state="all") == [1, 2, 5]
        assert total(self.connections, acc="A", state="all") == 3

    def test_globalAccount(self) -> None:
        """Before its login a connection counts for the global account."""
        assert cids(self.connections, acc="$G") == [3, 4]
        assert accountOf(factsWith(4)) == "$G"

    def test_user(self) -> None:
        """Only the user's connections are listed, but all are counted."""
        assert cids(self.connections, user="a", state="all") == [1, 5, 6]
        assert total(self.connections, user="a", state="all") == 6

    def test_mqttClient(self) -> None:
        """A filter lists only the MQTT client of an identifier, but all are counted."""
        assert cids(self.connections, mqtt_client="x", state="all") == []
        assert total(self.connections, mqtt_client="x", state="all") == 6
        clients = [
            Open(factsWith(7, name="x", type="mqtt"), (b"foo",)),
            Open(factsWith(8, name="y", type="mqtt"), (b"foo",)),
            Open(factsWith(9, name="x"), (b"foo",)),
        ]
        selection = Selection.fromQuery({"mqtt_client": "x"})
        chosen, _ = complete(choose(self.connections, selection, 9.0, clients))
        assert [entry.facts.cid for entry in chosen] == [7]

    def test_leafnodes(self) -> None:
        """Leafnodes are connections, too, with the same filters."""
        leafs = [Open(factsWith(7, account="A", kind="Leafnode"), (b"foo",))]
        for query, wanted in (({"acc": "A"}, [1, 2, 7]), ({"cid": "7"}, [7]), ({"acc": "B"}, [])):
            chosen, _ = complete(choose(self.connections, Selection.fromQuery(query), 9.0, leafs))
            assert [connection.cid for connection in chosen] == wanted

    def test_accountAndUser(self) -> None:
        """An account and a user may be selected together."""
        assert cids(self.connections, user="a", acc="A", state="all") == [1, 5]

    @pytest.mark.parametrize(("state", "cid", "wanted"), [("open", "2", [2]), ("open", "5", [])])
    def test_cid(self, state: str, cid: str, wanted: list[int]) -> None:
        """A connection is selected by its number if its state is selected too."""
        assert cids(self.connections, cid=cid, state=state) == wanted

    def test_cidBeatsOthers(self) -> None:
        """Other filters are ignored if a number is given."""
        assert cids(self.connections, cid="2", user="a", acc="A", limit="50") == [2]
        assert Selection.fromQuery({"cid": "2", "limit": "50"}).limit == 1

    def test_subject(self) -> None:
        """A subject selects the connections with a subscription that can match it."""
        assert cids(self.connections, acc="A", filter_subject="foo.1") == [1]
        assert cids(self.connections, acc="A", filter_subject="*", state="all") == [1, 2]
        assert cids(self.connections, acc="A", filter_subject="foo.*", state="all") == [1, 5]

    def test_everySubject(self) -> None:
        """
        The filter for all subjects selects every connection, also those without subscriptions.
        """
        assert cids(self.connections, filter_subject=">") == [1, 2, 3, 4]

    def test_noSubject(self) -> None:
        """A filter that is not a valid subject selects no connection."""
        assert cids(self.connections, acc="A", filter_subject="a..b") == []

    def test_subjectWithoutAccount(self) -> None:
        """
        A filter for a subject is refused without an account, because subjects belong to accounts.
        """
        with pytest.raises(
            BadQuery, match=r"^filter by subject only valid with account filtering$"
        ):
            Selection.fromQuery({"filter_subject": "foo"})


class TestWindow:
    """The selected part of the list."""

    @pytest.mark.parametrize(
        ("limit", "given"),
        [("", DEFAULT_LIMIT), ("0", DEFAULT_LIMIT), ("-5", DEFAULT_LIMIT), ("7", 7)],
    )
    def test_limit(self, limit: str, given: int) -> None:
        """Without a valid limit the default limit applies."""
        assert limitFrom({"limit": limit}) == given

    def test_largestLimit(self) -> None:
        """A limit above the largest one is replaced by that."""
        assert limitFrom({"limit": "1000000000"}) == LARGEST_LIMIT

    values = [n * 7919 % 10_007 for n in range(9_000)]
    connections = connectionsOf(
        closed=tuple(gone(n, inBytes=value) for n, value in enumerate(values, 1))
    )

    @pytest.mark.parametrize(
        ("offset", "limit"),
        [(0, 1), (1, 5_000), (4_095, 2), (4_096, 5_000), (8_500, LARGEST_LIMIT), (10**18, 9)],
    )
    def test_parts(self, offset: int, limit: int) -> None:
        """Any part of the list equals that part of the whole sorted list."""
        query = {"offset": str(offset), "limit": str(limit), "state": "closed"}
        wanted = sorted(range(1, 9_001), key=lambda cid: (-self.values[cid - 1], cid))
        order = cids(self.connections, sort="bytes_from", **query)
        assert order == wanted[offset : offset + limit]

    def test_negativeOffset(self) -> None:
        """A negative offset is treated as zero."""
        assert Selection.fromQuery({"offset": "-3"}).offset == 0


class TestSteps:
    """Lists of many connections, which are made in several steps."""

    def test_fewAtATime(self) -> None:
        """Each step visits a limited number of connections."""
        connections = connectionsOf(*(Open(factsWith(cid)) for cid in range(1, 2001)))
        Open.looked = 0
        most = before = 0
        for _ in choose(connections, Selection(limit=10), NOW):
            most, before = max(most, Open.looked - before), Open.looked
        assert Open.looked == 2000
        assert most <= 64

    def test_manySubscriptions(self) -> None:
        """A connection with many subscriptions is visited in several steps."""
        patterns = tuple(b"foo.%d" % n for n in range(5_000))
        connections = connectionsOf(Open(factsWith(1, account="A"), patterns))
        selection = Selection(acc="A", filter_subject="foo.4999")
        assert sum(1 for _ in choose(connections, selection, NOW)) >= 9
        assert cids(connections, acc="A", filter_subject="foo.4999") == [1]

    def test_changesMeanwhile(self) -> None:
        """Connections may open and close between the steps."""
        connections = connectionsOf(*(Open(factsWith(cid)) for cid in range(1, 201)))
        steps: Iterator[Any] = choose(connections, Selection(), NOW)
        next(steps)
        connections.remove(150, gone(150), (0, 0, 0, 0))
        connections.add(999, Open(factsWith(999)))
        with pytest.raises(StopIteration) as stopped:
            while True:
                next(steps)
        window, count = stopped.value.value
        assert [connection.cid for connection in window] == list(range(1, 201))
        assert count == 200
