"""Tests for L{natsbroker.clients.connz}; values are held against nats-server's elsewhere."""

from __future__ import annotations

import json

from natsbroker.clients.connz import Connz
from natsbroker.clients.selection import Selection
from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.rows import Detail
from tests.monitoring.staging import Stage

#: One for every kind of credential in CONNECT.
CANARIES = {
    name: f"canary-{name}" for name in ("pass", "auth_token", "jwt", "sig", "nkey", "proxy_sig")
}


class TestConnz:
    """The client connections."""

    def test_page(self) -> None:
        """The rows are counted, and all connections, too."""
        stage = Stage()
        for _ in range(5):
            stage.client()
        page = stage.page("/connz", limit="2", offset="1")
        assert [each["cid"] for each in page["connections"]] == [2, 3]
        assert page["num_connections"] == 2
        assert (page["total"], page["offset"], page["limit"]) == (5, 1, 2)
        assert page["server_id"] == "ID"
        assert page["now"] == "2026-11-20T16:00:00Z"

    def test_nobody(self) -> None:
        """Without connections the list is empty."""
        assert Stage().page("/connz")["connections"] == []

    def test_unknownAccount(self) -> None:
        """An account that is not there has no connections."""
        stage = Stage()
        stage.client()
        page = stage.page("/connz", acc="NOPE")
        assert (page["connections"], page["total"]) == ([], 0)

    def test_refusal(self) -> None:
        """What makes no sense is refused before anything is looked at."""
        assert Stage().refusal("/connz", sort="bogus") == "invalid sorting option: bogus"

    def test_noSecrets(self) -> None:
        """Whatever is asked for, no credential is shown, of those who are here or gone."""
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
        """A connection that goes while the page is made is still a row."""
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
        """The page is one of those of which only a few are made at once."""
        assert Stage().answer("/connz").isLong

    def test_withoutHttp(self) -> None:
        """The same is there as a list for others."""
        stage = Stage()
        stage.client()
        listing = complete(Connz(stage.world.context).steps(Selection(), Detail()))
        assert [row["cid"] for row in listing.rows] == [1]
        assert listing.head["total"] == 1
