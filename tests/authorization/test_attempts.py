"""
Attempts to bypass authorization, on a whole broker in memory. L{tests.authorization.table} lists
the tests of each attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.config.errors import ConfigError
from tests.conformance.frames import splitFrames
from tests.server.support import Client, Host, settingsOf

CONFIG = """
system_account: SYS
accounts {
    SYS { users: [ {user: s, password: x} ] }
    A {
        users: [
            {user: a, password: x}
            {user: picky, password: x, permissions {
                publish {deny: ["secret", "secret.>"]}
                subscribe {deny: ["foo.bar", "a.*.c", "work q"]}
            }}
            {user: listens, password: x, permissions {publish {deny: ">"}}}
            {user: bare}
        ]
        mappings { open: secret }
    }
    B { users: [ {user: b, password: x} ] }
}
"""

VIOLATION = b"-ERR 'Authorization Violation'\r\n"


def hello(user: str, **more: Any) -> bytes:
    """The connect options of a client."""
    options = {"verbose": False, "headers": True, "no_responders": True, "user": user, "pass": "x"}
    return b"CONNECT " + json.dumps({**options, **more}).encode() + b"\r\n"


@pytest.fixture
def host() -> Iterator[Host]:
    """A broker."""
    made = Host(CONFIG).start()
    yield made
    made.broker.stopService()
    made.settle()


def denied(host: Host, said: bytes) -> bool:
    """Whether a login is denied and its connection closed."""
    client = host.dial()
    client.receive()
    return client.ask(said) == VIOLATION and bool(client.closed)


def subjectsOf(output: bytes) -> list[bytes]:
    """The subjects of the messages in a client's output."""
    frames, rest = splitFrames(output)
    assert rest == b""
    return [frame.split()[1] for frame in frames if frame.startswith((b"MSG ", b"HMSG "))]


class TestLogin:
    """Attempts to log in."""

    @pytest.mark.parametrize(
        "more",
        [{"account": "B"}, {"account": "SYS"}, {"account": "A"}, {"new_account": True}],
    )
    def test_account(self, host: Host, more: dict[str, Any]) -> None:
        """No client can choose an account, not even its own (CVE-2022-24450)."""
        assert denied(host, hello("a", **more))

    @pytest.mark.parametrize(
        "said",
        [
            b'CONNECT {"user":"a"}\r\n',
            b'CONNECT {"user":"a","pass":""}\r\n',
            b'CONNECT {"user":"a","pass":null}\r\n',
            b'CONNECT {"user":"a","pass":0}\r\n',
            b'CONNECT {"user":"a","pass":["x"]}\r\n',
            b'CONNECT {"user":"a","pass":true}\r\n',
            b'CONNECT {"user":"bare","pass":"x"}\r\n',
            b'CONNECT {"user":"","pass":""}\r\n',
            b'CONNECT {"user":["a"],"pass":"x"}\r\n',
            b'CONNECT {"pass":"x"}\r\n',
            b"CONNECT {}\r\n",
        ],
    )
    def test_withoutPassword(self, host: Host, said: bytes) -> None:
        """No password, an empty one, or a value that is no password is refused."""
        client = host.dial()
        client.receive()
        client.ask(said)
        assert client.closed

    def test_whoHasNone(self, host: Host) -> None:
        """A user who has no password logs in without one, as with nats-server."""
        client = host.client(b'CONNECT {"verbose":false,"user":"bare"}\r\n')
        assert client.ask(b"PING\r\n") == b"PONG\r\n"

    @pytest.mark.parametrize(
        "first", [b"PING", b"SUB > 1", b"PUB a 0\r\n", b"UNSUB 1", b"HPUB a 0 0\r\n"]
    )
    def test_beforeConnect(self, host: Host, first: bytes) -> None:
        """No operation has an effect before the login."""
        listening = host.client(hello("a"))
        listening.ask(b"SUB > 1\r\n")
        assert denied(host, first + b"\r\n")
        assert listening.receive() == b""

    def test_anotherAccount(self, host: Host) -> None:
        """A client that logs in again as another user keeps nothing of the first user."""
        client, a = host.client(hello("a")), host.client(hello("a"))
        client.ask(b"SUB > 1\r\nSUB > q 2\r\n")
        client.ask(hello("b"))
        a.ask(b"PUB x 1\r\ny\r\n")
        assert client.receive() == b""
        client.ask(b"SUB > 3\r\n")
        host.client(hello("b")).ask(b"PUB x 1\r\ny\r\n")
        assert client.receive() == b"MSG x 3 1\r\ny\r\n"


class TestOverlaps:
    """Subscriptions that include denied subjects (CVE-2022-29946, GHSA-wh7g, GHSA-jx8g)."""

    SUBJECTS = (b"foo.bar", b"foo.baz", b"a.b.c", b"a.b.d", b"x.b.c", b"work")

    @pytest.mark.parametrize("queue", [b"", b"q", b"r"])
    @pytest.mark.parametrize("pattern", [b"foo.*", b"foo.>", b">", b"*.bar", b"*.b.*", b"*.*.c"])
    def test_filtered(self, host: Host, pattern: bytes, queue: bytes) -> None:
        """
        A subscription that includes denied subjects is accepted without their messages, also in a
        queue.
        """
        picky, a = host.client(hello("picky")), host.client(hello("a"))
        assert picky.ask(b"SUB %b %b 1\r\n" % (pattern, queue)) == b""
        a.ask(b"".join(b"PUB %b 1\r\nx\r\n" % subject for subject in self.SUBJECTS))
        heard = subjectsOf(picky.receive())
        expected = {
            b"foo.*": [b"foo.baz"],
            b"foo.>": [b"foo.baz"],
            b">": [b"foo.baz", b"a.b.d", b"x.b.c"] + ([b"work"] if queue != b"q" else []),
            b"*.bar": [],
            b"*.b.*": [b"a.b.d", b"x.b.c"],
            b"*.*.c": [b"x.b.c"],
        }
        assert heard == expected[pattern]

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (b"foo.bar 1", b'"foo.bar"'),
            (b"foo.bar r 1", b'"foo.bar" using queue "r"'),
            (b"a.*.c 1", b'"a.*.c"'),
            (b"a.b.c 1", b'"a.b.c"'),
            (b"work q 1", b'"work" using queue "q"'),
        ],
    )
    def test_overlapIsRefused(self, host: Host, asked: bytes, told: bytes) -> None:
        """
        A subscription to a denied subject is refused with nats-server's error, also if it is to a
        pattern or in a queue.
        """
        answer = host.client(hello("picky")).ask(b"SUB " + asked + b"\r\n")
        assert answer == b"-ERR 'Permissions Violation for Subscription to %b'\r\n" % told


class TestRoundabout:
    """Indirect ways to publish to a denied subject."""

    def test_mapping(self, host: Host) -> None:
        """A mapping does not bypass permissions, because its destination is checked too."""
        a, picky = host.client(hello("a")), host.client(hello("picky"))
        a.ask(b"SUB secret 1\r\n")
        answer = picky.ask(b"PUB open 1\r\nx\r\n")
        assert answer == b"-ERR 'Permissions Violation for Publish to \"secret\"'\r\n"
        assert a.receive() == b""
        host.client(hello("a")).ask(b"PUB open 1\r\nx\r\n")
        assert a.receive() == b"MSG secret 1 1\r\nx\r\n"

    @pytest.mark.parametrize(
        "name",
        [
            b"nats-trace-dest",
            b"Nats-Stream-Source",
            b"Nats-Expected-Stream",
            b"traceparent",
        ],
    )
    def test_headers(self, host: Host, name: bytes) -> None:
        """A message goes to its subject, whatever its headers name."""
        a, picky = host.client(hello("a")), host.client(hello("picky"))
        a.ask(b"SUB secret 1\r\nSUB secret.> 2\r\nSUB free 3\r\n")
        block = b"NATS/1.0\r\n%b: secret\r\n%b: secret.deep\r\n\r\n" % (name, name)
        size = len(block)
        assert picky.ask(b"HPUB free %d %d\r\n%bx\r\n" % (size, size + 1, block)) == b""
        assert subjectsOf(a.receive()) == [b"free"]

    def test_schedules(self, host: Host) -> None:
        """A message is refused if its client may not publish to the target of its schedule."""
        a, picky = host.client(hello("a")), host.client(hello("picky"))
        a.ask(b"SUB free 1\r\n")
        block = b"NATS/1.0\r\nNats-Schedule-Target: secret\r\n\r\n"
        size = len(block)
        answer = picky.ask(b"HPUB free %d %d\r\n%bx\r\n" % (size, size + 1, block))
        assert answer == b"-ERR 'Permissions Violation for Publish to \"secret\"'\r\n"
        assert a.receive() == b""

    def test_traces(self, host: Host) -> None:
        """
        A message is dropped if its trace would be sent to a subject that the client may not publish
        to.
        """
        a, picky = host.client(hello("a")), host.client(hello("picky"))
        a.ask(b"SUB secret 1\r\nSUB free 3\r\n")
        block = b"NATS/1.0\r\nNats-Trace-Dest: secret\r\n\r\n"
        size = len(block)
        answer = picky.ask(b"HPUB free %d %d\r\n%bx\r\n" % (size, size + 1, block))
        assert answer == b"-ERR 'Permissions Violation for Publish to \"secret\"'\r\n"
        assert a.receive() == b""

    @pytest.mark.parametrize("reply", [b"_R_.x", b"$JS.ACK.x", b"_GR_.x"])
    def test_replies(self, host: Host, reply: bytes) -> None:
        """No client can ask for an answer at a subject that is reserved for the server."""
        a = host.client(hello("a"))
        a.ask(b"SUB x 1\r\n")
        answer = a.ask(b"PUB x %b 1\r\nx\r\n" % reply)
        assert answer == (
            b"-ERR 'Permissions Violation for Publish with Reply of \"%b\"'\r\n" % reply
        )

    @pytest.mark.parametrize("subject", [b"_GR_.x.y", b"$GR.x", b"$NRG.x"])
    def test_reserved(self, host: Host, subject: bytes) -> None:
        """A publish to a subject of the cluster is refused."""
        answer = host.client(hello("a")).ask(b"PUB %b 1\r\nx\r\n" % subject)
        assert answer == b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % subject

    def test_answersOfTheServer(self, host: Host) -> None:
        """
        Messages of the broker itself, such as the status for no responders, reach their requester
        only.
        """
        other, listens = host.client(hello("a")), host.client(hello("listens"))
        other.ask(b"SUB > 1\r\n")
        listens.ask(b"SUB inbox 1\r\n")
        assert b"503" not in listens.ask(b"PUB nobody inbox 1\r\nx\r\n")
        assert other.receive() == b""


class TestAccounts:
    """Access to other accounts."""

    @pytest.mark.parametrize(
        "subject",
        [b"$SYS.ACCOUNT.A.CONNECT", b"_INBOX.abc.1", b"$JS.API.INFO", b"_STAN.pub.c.x", b"a.b"],
    )
    def test_listening(self, host: Host, subject: bytes) -> None:
        """
        No message of another account reaches a client, neither of the system account nor with any
        prefix.
        """
        listening = [host.client(hello(user)) for user in ("a", "b")]
        for client in listening:
            client.ask(
                b"SUB > 1\r\nSUB $SYS.> 2\r\nSUB _INBOX.> 3\r\nSUB $JS.> 4\r\nSUB _STAN.> 5\r\n"
            )
        host.client(hello("s")).ask(b"PUB %b 1\r\nx\r\n" % subject)
        assert [client.receive() for client in listening] == [b"", b""]

    @pytest.mark.parametrize(
        "subject", [b"$SYS.REQ.SERVER.PING", b"$SYS.REQ.CLAIMS.UPDATE", b"$JS.API.INFO", b"x"]
    )
    def test_speaking(self, host: Host, subject: bytes) -> None:
        """A publish of an ordinary user to a system subject reaches no receiver."""
        system, b = host.client(hello("s")), host.client(hello("b"))
        for client in (system, b):
            client.ask(b"SUB > 1\r\n")
            client.receive()
        host.client(hello("a")).ask(b"PUB %b inbox 1\r\nx\r\n" % subject)
        heard = [message for client in (system, b) for message in subjectsOf(client.receive())]
        assert [message for message in heard if not message.startswith(b"$SYS.ACCOUNT")] == []


class TestAmbiguity:
    """Settings that leave something open."""

    def test_onlySystem(self) -> None:
        """If only the system account has users, guests are not in that account (CVE-2023-47090)."""
        host = Host("accounts { SYS { users: [{user: s, password: x}] } }\nsystem_account: SYS")
        guest = host.client()
        assert guest.ask(b"SUB > 1\r\nPING\r\n") == b"PONG\r\n"
        host.client(hello("s")).ask(b"PUB $SYS.x 1\r\ny\r\n")
        assert guest.receive() == b""
        wrong = host.dial()
        wrong.receive()
        assert b"Authorization Violation" in wrong.ask(hello("s", **{"pass": "y"}))

    @pytest.mark.parametrize(
        "entry",
        [
            'accounts { A { exports: [ {stream: "a b"} ] } }',
            'accounts { A { exports: [ {service: "a\\r\\nPUB x"} ] } }',
            'accounts { A { mappings { a: "c d" } } }',
            'authorization { users: [{user: u, permissions: {publish: "a\\r\\nb"}}] }',
            'authorization { users: [{user: u, permissions: {subscribe: "a  b c"}}] }',
        ],
    )
    def test_subjects(self, entry: str) -> None:
        """A subject with a space or a line end is refused in the configuration."""
        with pytest.raises((ConfigError, ValueError)):
            Host(settingsOf(entry))


WORDS = st.text(alphabet="ab.*>\r\n \t\0$_", min_size=1, max_size=8).map(str.encode)


class TestInjection:
    """Input that contains operations for other clients."""

    @settings(max_examples=60)
    @given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4))
    def test_othersGetWholeMessages(self, operations: list[tuple[bytes, bytes, bytes]]) -> None:
        """
        With any input of one client in subjects, queues, sids and replies, other clients receive
        whole messages only. The subject of each message is one word.
        """
        host = Host(CONFIG).start()
        victim = host.client(hello("a"))
        victim.ask(b"SUB > 1\r\n")
        for subject, reply, queue in operations:
            client = host.client(hello("a"))
            client.ask(b"SUB %b %b 1\r\n" % (subject, queue))
            client.ask(b"PUB %b %b 4\r\nbody\r\n" % (subject, reply))
        check(victim)


def check(victim: Client) -> None:
    """Check everything that a client has received."""
    frames, rest = splitFrames(victim.receive())
    assert rest == b""
    for frame in frames:
        line, _, body = frame.partition(b"\r\n")
        words = line.split(b" ")
        assert words[0] == b"MSG" and words[2] == b"1" and len(words) in (4, 5)
        assert not any(set(word) & set(b"\r\n\t ") for word in words)
        assert len(body) == int(words[-1]) + 2
