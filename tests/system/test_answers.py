"""
Tests for L{natsbroker.system.answers}; answers are held against nats-server's elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.wire.values import Message
from tests.server.support import Host
from tests.support import Recorder

CONFIG = """
    server_name: n1, server_tags: [eu]
    accounts {
        A { users: [{user: a, password: a}] }
        $SYS { users: [{user: s, password: s}] }
    }
"""


class Asker:
    """
    A broker, a client C{a}, and requests to the system account.
    """

    def __init__(self, text: str = CONFIG) -> None:
        self.host = Host(text).start()
        self.id = self.host.broker.serverId
        said = b'CONNECT {"user":"a","pass":"a","verbose":false,"protocol":1}\r\n'
        self.client = self.host.client(said)
        self.client.ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\n")
        self.host.advance(0.1)

    def ask(self, subject: str, account: str = "$SYS", **options: Any) -> Any:
        """
        The answer to a request behind C{$SYS.REQ.}; C{None} for none.
        """
        return self.askWith(subject, json.dumps(options).encode() if options else b"", account)

    def askWith(self, subject: str, body: bytes, account: str = "$SYS") -> Any:
        """The answer to the request with any body."""
        bus, recorder = self.host.broker.bus(account), Recorder()
        bus.subscribe(b"_INBOX.one", recorder)
        bus.publish(Message(f"$SYS.REQ.{subject}".encode(), body, b"_INBOX.one", origin=object()))
        self.host.advance(0.1)
        answers = [json.loads(message.body) for message, _ in recorder.got]
        assert len(answers) <= 1
        return answers[0] if answers else None


@pytest.fixture
def asker() -> Asker:
    """A broker, for requests."""
    return Asker()


class TestServers:
    """Requests to servers."""

    @pytest.mark.parametrize(
        ("kind", "key"),
        [
            ("VARZ", "connections"),
            ("CONNZ", "connections"),
            ("SUBSZ", "num_subscriptions"),
            ("ROUTEZ", "routes"),
            ("GATEWAYZ", "outbound_gateways"),
            ("LEAFZ", "leafs"),
            ("ACCOUNTZ", "accounts"),
            ("JSZ", "disabled"),
            ("HEALTHZ", "status_code"),
            ("PROFILEZ", "error"),
        ],
    )
    def test_pages(self, asker: Asker, kind: str, key: str) -> None:
        """A page is requested from one server by its id, or from all."""
        for server in ("PING", asker.id):
            answer = asker.ask(f"SERVER.{server}.{kind}")
            assert list(answer) == ["server", "data"]
            assert answer["server"]["name"] == "n1"
            assert key in answer["data"]

    @pytest.mark.parametrize("subject", ["SERVER.PING", "SERVER.PING.STATSZ", "SERVER.{id}.STATSZ"])
    def test_status(self, asker: Asker, subject: str) -> None:
        """A request without a page gets the short status."""
        stats = asker.ask(subject.format(id=asker.id))["statsz"]
        assert (stats["connections"], stats["active_accounts"]) == (1, 1)
        assert stats["received"] == {"msgs": 1, "bytes": 2}

    def test_identity(self, asker: Asker) -> None:
        """The page IDZ has only the server's identity."""
        assert asker.ask("SERVER.PING.IDZ") == {"name": "n1", "host": "0.0.0.0", "id": asker.id}

    def test_options(self, asker: Asker) -> None:
        """A request's options are those of the page."""
        (row,) = asker.ask("SERVER.PING.CONNZ", subscriptions=True)["data"]["connections"]
        assert row["subscriptions_list"] == ["foo"]

    def test_unadmitted(self, asker: Asker) -> None:
        """A server that the request does not select stays silent."""
        assert asker.ask("SERVER.PING.VARZ", server_name="other") is None
        assert asker.ask("SERVER.PING.VARZ", tags=["eu"]) is not None

    def test_unwanted(self, asker: Asker) -> None:
        """A request whose inbox has no subscription is not processed, and raises no error."""
        before = asker.host.broker.monitoring.requests.copy()
        asker.host.client().ask(b"PUB $SYS.REQ.SERVER.PING.CONNZ _INBOX.none 0\r\n\r\n")
        assert asker.host.broker.monitoring.requests == before

    def test_refusal(self, asker: Asker) -> None:
        """A page's refusal is an error with its text."""
        answer = asker.ask("SERVER.PING.CONNZ", sort="bogus")
        error = {"code": 500, "description": "invalid sorting option: bogus"}
        assert (answer["data"], answer["error"]) == (None, error)

    @pytest.mark.parametrize("subject", ["SERVER.PING.CONNZ", "ACCOUNT.A.CONNZ", "ACCOUNT.A.STATZ"])
    def test_noJSON(self, asker: Asker, subject: str) -> None:
        """A request that is not JSON gets an error."""
        error = asker.askWith(subject, b"{")["error"]
        assert error["code"] == 400
        assert error["description"].startswith("the request is not JSON: ")

    def test_largeAnswer(self, asker: Asker) -> None:
        """A large answer has no indentation, and text with line ends stays unchanged."""
        said = json.dumps({"user": "a", "pass": "a", "name": "x\\n   y", "verbose": False})
        asker.host.client(b"CONNECT " + said.encode() + b"\r\nPING\r\n")
        rows = asker.ask("SERVER.PING.CONNZ")["data"]["connections"]
        assert rows[-1]["name"] == "x\\n   y"


class TestAccounts:
    """Requests about one account."""

    def test_connections(self, asker: Asker) -> None:
        """CONNZ of an account lists the account's connections."""
        assert asker.ask("ACCOUNT.A.CONNZ")["data"]["num_connections"] == 1
        assert asker.ask("ACCOUNT.$G.CONNZ", acc="A")["data"]["num_connections"] == 0

    def test_subscriptions(self, asker: Asker) -> None:
        """SUBSZ of an account lists the account's subscriptions."""
        rows = asker.ask("ACCOUNT.A.SUBSZ")["data"]["subscriptions_list"]
        assert "foo" in [row["subject"] for row in rows]

    def test_information(self, asker: Asker) -> None:
        """INFO of an account shows its details."""
        assert asker.ask("ACCOUNT.A.INFO")["data"]["client_connections"] == 1
        error = {"code": 500, "description": "Account NO does not exist"}
        assert asker.ask("ACCOUNT.NO.INFO")["error"] == error

    @pytest.mark.parametrize(
        ("name", "text"), [("A", "not jetstream enabled"), ("NO", "not found")]
    )
    def test_noJetStream(self, asker: Asker, name: str, text: str) -> None:
        """JSZ of an account without JetStream, or of an unknown account, gets an error."""
        answer = asker.ask(f"ACCOUNT.{name}.JSZ")
        assert answer["error"] == {"code": 500, "description": f'account "{name}" {text}'}

    def test_figures(self, asker: Asker) -> None:
        """STATZ of an account has its figures; STATZ of all has those of every used account."""
        (row,) = asker.ask("ACCOUNT.A.STATZ")["data"]["account_statz"]
        assert (row["acc"], row["conns"], row["received"]["msgs"]) == ("A", 1, 1)
        every = asker.ask("ACCOUNT.PING.STATZ")["data"]["account_statz"]
        assert [report["acc"] for report in every] == ["A"]
        every = asker.ask("ACCOUNT.PING.STATZ", include_unused=True)["data"]["account_statz"]
        assert {"A", "$G", "$SYS"} <= {report["acc"] for report in every}
        asked: dict[str, Any] = {"accounts": ["$G"], "include_unused": True}
        (row,) = asker.ask("ACCOUNT.PING.STATZ", **asked)["data"]["account_statz"]
        assert (row["acc"], row["conns"]) == ("$G", 0)

    def test_unused(self, asker: Asker) -> None:
        """A request about an account without connections gets no answer."""
        assert asker.ask("ACCOUNT.$G.STATZ") is None
        assert asker.ask("ACCOUNT.NO.CONNS") is None

    def test_counts(self, asker: Asker) -> None:
        """CONNS of an account answers with the event about its connections."""
        answer = asker.ask("ACCOUNT.A.CONNS")
        assert answer["type"] == "io.nats.server.advisory.v1.account_connections"
        assert (answer["acc"], answer["conns"], answer["server"]["id"]) == ("A", 1, asker.id)

    def test_ownAccount(self, asker: Asker) -> None:
        """Users of an account get answers about their own account only."""
        assert asker.ask("SERVER.PING.CONNZ", "A")["data"]["total"] == 1
        assert asker.ask("ACCOUNT.PING.CONNZ", "$G", acc="A")["data"]["total"] == 0
        (row,) = asker.ask("ACCOUNT.PING.STATZ", "A", accounts=["$SYS"])["data"]["account_statz"]
        assert row["acc"] == "A"
        assert asker.ask("SERVER.PING.VARZ", "A") is None
        assert asker.ask("ACCOUNT.A.CONNZ", "A") is None


class TestActions:
    """Requests that change something."""

    def test_kick(self, asker: Asker) -> None:
        """KICK closes a connection with its reason."""
        cid = asker.client.session.cid
        assert list(asker.ask(f"SERVER.{asker.id}.KICK", cid=cid)) == ["server"]
        (row,) = asker.ask("SERVER.PING.CONNZ", state=1)["data"]["connections"]
        assert row["reason"] == "Kicked"
        error = {"code": 500, "description": "no such client or leafnode id"}
        assert asker.ask(f"SERVER.{asker.id}.KICK", cid=cid)["error"] == error

    def test_leave(self, asker: Asker) -> None:
        """LDM tells a client to connect elsewhere."""
        cid = asker.client.session.cid
        asker.client.receive()
        assert list(asker.ask(f"SERVER.{asker.id}.LDM", cid=cid)) == ["server"]
        assert b'"ldm":true' in asker.client.receive()
        error = {"code": 500, "description": "no such client id"}
        assert asker.ask(f"SERVER.{asker.id}.LDM", cid=999)["error"] == error

    @pytest.mark.parametrize("body", [b"", b'{"cid":"x"}'])
    @pytest.mark.parametrize("kind", ["KICK", "LDM"])
    def test_malformed(self, asker: Asker, kind: str, body: bytes) -> None:
        """A request that names no connection gets no answer, as from nats-server."""
        assert asker.askWith(f"SERVER.{asker.id}.{kind}", body) is None

    def test_reload(self, asker: Asker) -> None:
        """RELOAD reads the configuration again, and answers with an error in it."""
        subject = f"SERVER.{asker.id}.RELOAD"
        assert "using -c or --config" in asker.ask(subject)["error"]["description"]
        calls: list[str] = []

        def reload() -> list[str]:
            calls.append("reload")
            return ["a: b"] if len(calls) > 1 else []

        asker.host.broker.useReload(reload)
        assert list(asker.ask(subject)) == ["server"]
        assert asker.ask(subject)["error"] == {"code": 500, "description": "a: b"}

    @pytest.mark.parametrize("kind", ["KICK", "LDM", "RELOAD"])
    def test_noRequestForAll(self, asker: Asker, kind: str) -> None:
        """An action cannot be requested from all servers."""
        assert asker.ask(f"SERVER.PING.{kind}", cid=1) is None


def test_noSystemAccount() -> None:
    """Without a system account, requests are not answered."""
    host = Host("no_system_account: true").start()
    recorder = Recorder()
    bus = host.broker.bus("$G")
    bus.subscribe(b"_INBOX.one", recorder)
    bus.publish(Message(b"$SYS.REQ.SERVER.PING.CONNZ", b"", b"_INBOX.one", origin=object()))
    host.advance(0.1)
    assert recorder.got == []
