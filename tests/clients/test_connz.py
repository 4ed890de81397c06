"""
Tests for L{natsbroker.clients.connz}. Other tests compare values with nats-server's.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.clients.connz import Connz, Detail, connectionRow
from natsbroker.clients.selection import Chosen, Selection
from natsbroker.monitoring.answers import LARGEST, Listing, complete
from natsbroker.monitoring.queries import BadQuery
from tests.monitoring.staging import BEGIN, Stage

#: One for every kind of credential in CONNECT.
CANARIES = {
    name: f"canary-{name}" for name in ("pass", "auth_token", "jwt", "sig", "nkey", "proxy_sig")
}


class TestConnz:
    """The client connections."""

    def test_page(self) -> None:
        """The page has the number of its rows, and that of all connections."""
        stage = Stage()
        for _ in range(5):
            stage.client()
        page = stage.page("/connz", limit="2", offset="1")
        assert [connection["cid"] for connection in page["connections"]] == [2, 3]
        assert page["num_connections"] == 2
        assert (page["total"], page["offset"], page["limit"]) == (5, 1, 2)
        assert page["server_id"] == "ID"
        assert page["now"] == "2026-11-20T16:00:00Z"

    def test_nobody(self) -> None:
        """The list is empty if there are no connections."""
        assert Stage().page("/connz")["connections"] == []

    def test_unknownAccount(self) -> None:
        """An account that does not exist has no connections."""
        stage = Stage()
        stage.client()
        page = stage.page("/connz", acc="NOPE")
        assert (page["connections"], page["total"]) == ([], 0)

    def test_refusal(self) -> None:
        """An invalid query is refused before any connection is read."""
        assert Stage().refusal("/connz", sort="bogus") == "invalid sorting option: bogus"

    def test_noSecrets(self) -> None:
        """No option shows a credential of open or of closed connections."""
        stage = Stage()
        stage.client("shown@A", **CANARIES).ask(b"SUB foo 1\r\n")
        stage.client("shown@A", **CANARIES).transport.hangUp()
        stage.world.settle()
        for subs in ("", "1", "detail"):
            answer = stage.answer("/connz", state="all", auth="1", subs=subs)
            body = b"".join(answer.body)
            assert body.count(b"shown@A") == 2
            assert b"canary" not in body

    def test_hostileNames(self) -> None:
        """A name can neither end a text, nor begin HTML, nor move a terminal's cursor."""
        stage = Stage()
        name = '"}],\r\n\x1b]0;x\x07<script>\u2028{x.boom()}%s'
        stage.client(name=name)
        body = b"".join(stage.answer("/connz").body)
        assert json.loads(body)["connections"][0]["name"] == name
        assert not {b"<", b"\x1b", b"\r", b"\x07"} & {body[n : n + 1] for n in range(len(body))}

    def test_leavesMeanwhile(self) -> None:
        """A connection that closes while the page is made is still a row."""
        stage = Stage()
        wires = [stage.client("a@A") for _ in range(200)]
        body = stage.answer("/connz").body
        pieces = [next(body)]
        for wire in wires:
            wire.transport.hangUp()
        stage.world.settle()
        pieces += body
        page = json.loads(b"".join(pieces))
        assert page["num_connections"] == len(page["connections"]) == 200

    def test_isLong(self) -> None:
        """The page is one of the long pages, only a few of which are made at once."""
        assert Stage().answer("/connz").isLong

    def test_withoutHttp(self) -> None:
        """Services other than HTTP get the same rows as a list."""
        stage = Stage()
        stage.client()
        listing = complete(Connz(stage.world.context).steps(Selection(), Detail()))
        assert [row["cid"] for row in listing.rows] == [1]
        assert listing.head["total"] == 1


class TestDetail:
    """The level of detail of the page."""

    @pytest.mark.parametrize(
        ("query", "detail"),
        [
            ({}, Detail()),
            ({"auth": "1"}, Detail(auth=True)),
            ({"subs": "true"}, Detail(subs=True)),
            ({"subs": "detail"}, Detail(subsDetail=True)),
            ({"subs": "DETAIL", "auth": "T"}, Detail(auth=True, subsDetail=True)),
        ],
    )
    def test_fromQuery(self, query: dict[str, str], detail: Detail) -> None:
        """Subscriptions are shown by subject or in detail."""
        assert Detail.fromQuery(query) == detail

    @pytest.mark.parametrize("query", [{"subs": "some"}, {"auth": "detail"}])
    def test_refusal(self, query: dict[str, str]) -> None:
        """An unknown level of detail is refused."""
        with pytest.raises(BadQuery):
            Detail.fromQuery(query)


PLAIN = Detail()
ALL = Detail(auth=True, subsDetail=True)


def rowFor(stage: Stage, session: Any, detail: Detail = PLAIN) -> dict[str, Any]:
    """The row of an open connection."""
    now = stage.world.clock.seconds()
    row: dict[str, Any] = complete(connectionRow(Chosen(0, 1, session, None), detail, now))
    return row


def rowOfGone(stage: Stage, detail: Detail) -> dict[str, Any]:
    """The row of the connection that closed last."""
    closed = stage.world.context.connections.closed[-1]
    now = stage.world.clock.seconds()
    row: dict[str, Any] = complete(connectionRow(Chosen(0, 1, None, closed), detail, now))
    return row


class TestConnectionRow:
    """The row of one connection."""

    def test_times(self) -> None:
        """Uptime and idle time extend to the present."""
        stage = Stage()
        wire = stage.client()
        stage.world.clock.advance(61)
        wire.ask(b"PING\r\n")
        stage.world.clock.advance(2)
        row = rowFor(stage, wire.session)
        assert row["start"] == "2026-11-20T16:00:00Z"
        assert row["last_activity"] == "2026-11-20T16:01:01Z"
        assert (row["uptime"], row["idle"]) == ("1m3s", "2s")
        assert "stop" not in row

    def test_timesOfGone(self) -> None:
        """Uptime and idle time of a closed connection extend to its end."""
        stage = Stage()
        wire = stage.client()
        stage.world.clock.advance(5)
        wire.transport.hangUp()
        stage.world.settle()
        stage.world.clock.advance(100)
        row = rowOfGone(stage, Detail())
        assert (row["uptime"], row["idle"]) == ("5s", "5s")
        assert (row["stop"], row["reason"]) == ("2026-11-20T16:00:05Z", "Client Closed")

    def test_emptyTexts(self) -> None:
        """An option that a client did not send is not shown."""
        row = rowFor(Stage(), Stage().client().session)
        assert not {"name", "lang", "version"} & row.keys()

    def test_identity(self) -> None:
        """The user is shown on request; the global account is not shown."""
        stage = Stage()
        assert "account" not in rowFor(stage, stage.client("a@A").session)
        row = rowFor(stage, stage.client("a@A").session, Detail(auth=True))
        assert (row["authorized_user"], row["account"], row["name_tag"]) == ("a@A", "A", "A")
        row = rowFor(stage, stage.client("b").session, Detail(auth=True))
        assert (row["authorized_user"], row["name_tag"]) == ("b", "$G")
        assert "account" not in row

    @pytest.mark.parametrize(
        ("login", "shown"),
        [
            (b'"user":"evil","pass":"canary"', "evil"),
            (b'"user":"evil","auth_token":"canary"', "evil"),
            (b'"user":"evil","nkey":"UKEY","sig":"canary"', "UKEY"),
            (b'"nkey":"SUcanary"', None),
            (b'"auth_token":"canary"', "[REDACTED]"),
            (b'"jwt":"canary"', None),
            (b'"pass":"canary"', None),
        ],
    )
    def test_refusedUser(self, login: bytes, shown: str | None) -> None:
        """A refused client has the user name that it gave, and no secret, as with nats-server."""
        stage = Stage(required=True)
        stage.world.authorizer.answer = lambda hello: None
        wire = stage.world.dial()
        wire.ask(b"CONNECT {%b}\r\n" % login)
        stage.world.advance(2)
        assert wire.closed
        row = rowOfGone(stage, ALL)
        assert row["reason"] == "Authentication Failure"
        assert "canary" not in str(row)
        assert (row.get("authorized_user"), row.get("account")) == (shown, None)
        assert "authorized_user" not in rowOfGone(stage, Detail())

    def test_subscriptions(self) -> None:
        """Subscriptions are shown by subject or in detail. A connection without any has no list."""
        stage = Stage()
        wire = stage.client("a@A")
        assert "subscriptions_list" not in rowFor(stage, wire.session, Detail(subs=True))
        wire.ask(b"SUB foo 1\r\nSUB bar q 2\r\nUNSUB 2 5\r\nPUB bar 0\r\n\r\n")
        row = rowFor(stage, wire.session, Detail(subs=True))
        assert row["subscriptions_list"] == ["foo", "bar"]
        row = rowFor(stage, wire.session, Detail(subsDetail=True))
        assert row["subscriptions_list_detail"] == [
            {"subject": "foo", "sid": "1", "msgs": 0, "cid": 1},
            {"subject": "bar", "qgroup": "q", "sid": "2", "msgs": 1, "max": 5, "cid": 1},
        ]

    def test_subscriptionsOfGone(self) -> None:
        """Each subscription of a closed connection is shown with its account."""
        stage = Stage()
        wire = stage.client("a@A")
        wire.ask(b"SUB foo 1\r\n")
        wire.transport.hangUp()
        stage.world.settle()
        (row,) = rowOfGone(stage, ALL)["subscriptions_list_detail"]
        assert list(row.items())[:3] == [("account", "A"), ("account_tag", "A"), ("subject", "foo")]

    def test_notAllRemembered(self) -> None:
        """
        The row of a closed connection says how many subscriptions it had if not all are shown.
        """
        stage = Stage()
        wire = stage.client()
        for sid in range(40):
            wire.send(b"SUB foo %d\r\n" % sid)
        wire.transport.hangUp()
        stage.world.settle()
        row = rowOfGone(stage, Detail(subs=True))
        assert row["subscriptions"] == 40
        assert len(row["subscriptions_list"]) < 40
        assert row["truncated"] is True

    @pytest.mark.parametrize("detail", [Detail(subs=True), Detail(subsDetail=True)])
    @pytest.mark.parametrize("letter", [b"a", b"<", b"\xff", b"\\"])
    def test_isBounded(self, detail: Detail, letter: bytes) -> None:
        """
        A row fits into an answer, however many subscriptions it has and however long their subjects
        are.
        """
        stage = Stage()
        wire = stage.client()
        for sid in range(300):
            wire.send(b"SUB " + letter * 2_000 + b" %d\r\n" % sid)
        row = rowFor(stage, wire.session, detail)
        assert row["subscriptions"] == 300
        assert row["truncated"] is True
        body = b"".join(Listing({"limit": 1}, "rows", [row]).body())
        assert 500_000 < len(body) <= LARGEST
        assert row["cid"] == 1 and b'"cid": 1' in body

    def test_pauses(self) -> None:
        """Many subscriptions are listed in several steps."""
        stage = Stage()
        wire = stage.client()
        for sid in range(1_000):
            wire.send(b"SUB foo %d\r\n" % sid)
        chosen = Chosen(0, 1, wire.session, None)
        assert list(connectionRow(chosen, Detail(), BEGIN)) == []
        assert len(list(connectionRow(chosen, Detail(subs=True), BEGIN))) == 3
