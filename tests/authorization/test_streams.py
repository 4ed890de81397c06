"""
Attempts to bypass authorization through JetStream, on a whole broker in memory.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.authorization.test_attempts import hello, subjectsOf
from tests.conformance.frames import splitFrames
from tests.server.support import Client, Host

CONFIG = """
jetstream { backend: memory }
system_account: SYS
accounts {
    SYS { users: [ {user: s, password: x} ] }
    A {
        jetstream: enabled
        users: [
            {user: a, password: x}
            {user: picky, password: x, permissions {
                publish {deny: ["secret", "$JS.API.STREAM.>"]}
                subscribe {deny: "denied.*"}
            }}
        ]
        mappings { open: "$JS.API.STREAM.PURGE.S" }
    }
    B { jetstream: enabled, users: [ {user: b, password: x} ] }
}
"""


class Streams:
    """
    A broker whose account C{A} has a stream C{S} of one message and a consumer C{c}.

    @ivar owner: a client with all permissions in this account.
    @ivar pushed: the messages that came beside the answer to the last request.
    """

    def __init__(self) -> None:
        self.host = Host(CONFIG).start()
        self.host.settle()
        self.owner = self.client("a")
        config = {"name": "S", "subjects": ["secret", "free"], "allow_direct": True}
        assert "error" not in self.asked(self.owner, "STREAM.CREATE.S", config)
        self.consumer("c")
        self.owner.ask(b"PUB secret 1\r\nx\r\n")

    def client(self, user: str) -> Client:
        """A client that is subscribed to its answers."""
        client = self.host.client(hello(user))
        client.ask(b"SUB answers 1\r\n")
        return client

    def asked(self, client: Client, subject: str, body: Any = None, headers: str = "") -> Any:
        """The answer to a request of the API. It is C{None} without an answer."""
        block = f"NATS/1.0\r\n{headers}\r\n\r\n" if headers else ""
        text = block + ("" if body is None else json.dumps(body))
        size = f"{len(block)} {len(text)}" if block else f"{len(text)}"
        verb = "HPUB" if block else "PUB"
        got = client.ask(f"{verb} $JS.API.{subject} answers {size}\r\n{text}\r\n".encode())
        self.host.advance(0.1)
        frames, _ = splitFrames(got + client.receive())
        answers = [frame for frame in frames if frame.startswith(b"MSG answers ")]
        self.pushed = b"".join(frame for frame in frames if frame not in answers)
        return json.loads(answers[0].split(b"\r\n")[1]) if answers else None

    def consumer(self, name: str, **config: Any) -> Any:
        """Make a consumer of the stream."""
        config = {"durable_name": name, "ack_policy": "explicit", **config}
        body = {"stream_name": "S", "config": config}
        return self.asked(self.owner, f"CONSUMER.DURABLE.CREATE.S.{name}", body)

    @property
    def messages(self) -> int:
        """The number of messages in the stream."""
        return int(self.asked(self.owner, "STREAM.INFO.S")["state"]["messages"])


@pytest.fixture
def streams() -> Streams:
    """A broker with a stream."""
    return Streams()


class TestPermissions:
    """Attempts to get around the permissions of a user of the account."""

    def test_publish(self, streams: Streams) -> None:
        """
        No message is stored on a denied subject, and no denied part of the API can be used, also
        through a mapping.
        """
        picky = streams.client("picky")
        for asked, reached in (
            (b"secret", b"secret"),
            (b"$JS.API.STREAM.PURGE.S", b"$JS.API.STREAM.PURGE.S"),
            (b"open", b"$JS.API.STREAM.PURGE.S"),
        ):
            answer = picky.ask(b"PUB %b answers 0\r\n\r\n" % asked)
            assert answer == b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % reached
        assert streams.messages == 1

    def test_delivery(self, streams: Streams) -> None:
        """Stored messages are not received on a denied subject, whether pushed, pulled or read."""
        picky, owner = streams.host.client(hello("picky")), streams.owner
        picky.ask(b"SUB *.* 2\r\n")
        owner.ask(b"SUB denied.push 2\r\nSUB denied.pull 3\r\nSUB denied.direct 4\r\n")
        assert "error" not in streams.consumer("p", deliver_subject="denied.push")
        assert picky.ask(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c denied.pull 0\r\n\r\n") == b""
        assert picky.ask(b'PUB $JS.API.DIRECT.GET.S denied.direct 9\r\n{"seq":1}\r\n') == b""
        streams.host.advance(0.2)
        assert picky.receive() == b""
        # Pushed and pulled messages keep their own subject.
        assert sorted(subjectsOf(owner.receive() + streams.pushed)) == [
            b"denied.direct",
            b"secret",
            b"secret",
        ]

    @pytest.mark.parametrize(
        "subject", ["$JS.API.STREAM.PURGE.S", "$JS.API.STREAM.DELETE.S", "$SYS.REQ.SERVER.PING"]
    )
    def test_deliveredToTheServer(self, streams: Streams, subject: str) -> None:
        """
        A stored message that is delivered to a subject of the server is not a request (GHSA-4g68).
        """
        system = streams.client("s")
        system.ask(b"SUB $SYS.REQ.> 2\r\n")
        streams.owner.ask(b"PUB free 0\r\n\r\n")
        assert "error" not in streams.consumer("p", deliver_subject=subject, ack_policy="none")
        streams.host.advance(0.2)
        assert streams.messages == 2
        assert system.receive() == b""


class TestAccounts:
    """Streams of another account (CVE-2025-30215)."""

    REQUESTS: tuple[tuple[str, Any], ...] = (
        ("STREAM.INFO.S", None),
        ("STREAM.PURGE.S", None),
        ("STREAM.DELETE.S", None),
        ("STREAM.SNAPSHOT.S", {"deliver_subject": "answers"}),
        ("STREAM.MSG.GET.S", {"seq": 1}),
        ("STREAM.MSG.DELETE.S", {"seq": 1}),
        ("CONSUMER.NAMES.S", None),
        ("CONSUMER.INFO.S.c", None),
        ("CONSUMER.DELETE.S.c", None),
    )

    @pytest.mark.parametrize(("subject", "body"), REQUESTS, ids=[row[0] for row in REQUESTS])
    def test_requests(self, streams: Streams, subject: str, body: Any) -> None:
        """
        The streams of another account do not exist for a user, also where a forged header names
        their owner.
        """
        b = streams.client("b")
        forged = 'Nats-Request-Info: {"acc":"A","user":"a"}'
        for headers in ("", forged):
            assert streams.asked(b, subject, body, headers)["error"]["err_code"] == 10059
        assert streams.messages == 1

    @pytest.mark.parametrize(
        "subject",
        [
            "ACCOUNT.PURGE.A",
            "ACCOUNT.STREAM.MOVE.A.S",
            "ACCOUNT.STREAM.CANCEL_MOVE.A.S",
            "META.LEADER.STEPDOWN",
            "SERVER.REMOVE",
        ],
    )
    def test_administration(self, streams: Streams, subject: str) -> None:
        """Requests that only the system account may make are not answered."""
        for user in ("a", "b"):
            assert streams.asked(streams.client(user), subject, {"server": "x"}) is None
        assert streams.messages == 1

    def test_names(self, streams: Streams) -> None:
        """
        A list contains only streams of the user's account, also if a header names another account.
        """
        b = streams.client("b")
        forged = 'Nats-Request-Info: {"acc":"A","user":"a"}'
        assert streams.asked(b, "STREAM.NAMES", None, forged)["streams"] is None
        assert streams.asked(streams.owner, "STREAM.NAMES")["streams"] == ["S"]
