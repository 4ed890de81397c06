"""
No client learns which users exist. Logins of existing and of unknown users take the same work and
get the same answer. No login waits for the password of another.

What is counted here can be measured too, on a quiet machine: C{python -m
tests.authorization.timing}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bcrypt
import pytest
from twisted.internet.defer import Deferred

from natsbroker.auth import nkeys, passwords
from natsbroker.auth.defaultauthorizer import Logins, SettingsAuthorizer, UserEntry
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.errors import Unauthorized
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.operator.chain import KeyPair, raw
from tests.auth.threads import Threads
from tests.server.support import Client, Host

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()

NAMES = [f"user{number}" for number in range(40)]


class Work:
    """
    The work of an authorizer for a login.

    @ivar done: the kind of each comparison: with plain text or with a hash.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, secrets: list[str]) -> None:
        self.done: list[str] = []
        self._threads = Threads()
        self._count(monkeypatch, passwords, "sameText", "plain")
        self._count(monkeypatch, passwords, "checkHash", "hash")
        self._count(monkeypatch, nkeys, "isSignature", "signature")
        users = {
            name: UserEntry(secret, Grant(user=name))
            for name, secret in zip(NAMES[:20], secrets * 20, strict=False)
        }
        self.keys = [KeyPair("U") for _ in range(2)]
        self.authorizer = SettingsAuthorizer(
            PasswordChecks(self._threads),
            Logins(users, keys={self.keys[0].key: UserEntry("", Grant(user="key"))}),
        )

    def _count(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, kind: str) -> None:
        original: Callable[..., Any] = getattr(module, name)

        def counting(*arguments: Any) -> Any:
            self.done.append(kind)
            return original(*arguments)

        monkeypatch.setattr(module, name, counting)

    def of(self, hello: ConnectRequest) -> tuple[list[str], bool]:
        """
        @return: the work for one login, and whether it was accepted.
        """
        self.done.clear()
        outcome: list[Any] = []
        try:
            answer = self.authorizer.grantFor(hello)
        except Unauthorized:
            return list(self.done), False
        if isinstance(answer, Deferred):
            answer.addBoth(outcome.append)
            self._threads.run()
            return list(self.done), isinstance(outcome[0], Grant)
        return list(self.done), True


def password(name: str, given: str = "wrong") -> ConnectRequest:
    """A connect request."""
    return ConnectRequest(options={"user": name, "pass": given})


class TestSameWork:
    """The work of a login does not depend on whether the user exists."""

    @pytest.mark.parametrize("given", ["wrong", "", "x" * 100, "w\0"])
    def test_plain(self, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
        """
        A login with a password in plain text makes one comparison, for a known and an unknown name.
        """
        work = Work(monkeypatch, ["secret"])
        assert {tuple(work.of(password(name, given))[0]) for name in NAMES} == {("plain",)}
        assert work.of(password(NAMES[0], "secret")) == (["plain"], True)

    @pytest.mark.parametrize("given", ["wrong", "", "x" * 100, "w\0"])
    def test_hashed(self, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
        """A login by hash computes one hash."""
        work = Work(monkeypatch, [HASH])
        assert {tuple(work.of(password(name, given))[0]) for name in NAMES} == {("hash",)}
        assert work.of(password(NAMES[0], "secret")) == (["hash"], True)

    def test_mixed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        If some users have hashes and others plain text, an unknown name is compared like one fixed
        user. Timing does not show whether the name exists.
        """
        work = Work(monkeypatch, ["secret", HASH])
        kinds = [tuple(work.of(password(name))[0]) for name in NAMES]
        assert kinds == [tuple(work.of(password(name))[0]) for name in NAMES]
        assert set(kinds[:20]) == set(kinds[20:]) == {("plain",), ("hash",)}

    def test_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A login by key verifies one signature, for a known key and for an unknown one."""
        work = Work(monkeypatch, ["secret"])
        for mine, isIn in zip(work.keys, (True, False), strict=True):
            signed = {"nkey": mine.key, "sig": raw(mine.sign(b"nonce"))}
            assert work.of(ConnectRequest(options=signed, nonce="nonce")) == (["signature"], isIn)
            assert work.of(ConnectRequest(options=signed, nonce="other")) == (["signature"], False)


class Gate:
    """A pool of threads that run when the test tells them to."""

    def __init__(self, host: Host) -> None:
        self._waiting: list[Callable[[], None]] = []
        host.reactor.getThreadPool = lambda: self
        host.reactor.callFromThread = lambda call, *arguments: host.reactor.callLater(
            0, call, *arguments
        )

    def callInThreadWithCallback(
        self, done: Callable[[bool, Any], None], call: Callable[..., Any], *arguments: Any
    ) -> None:
        self._waiting.append(lambda: done(True, call(*arguments)))

    @property
    def held(self) -> int:
        """The number of waiting calls."""
        return len(self._waiting)

    def open(self) -> None:
        """Let all waiting calls run."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()


USERS = f"""
authorization {{ timeout: 30, users: [
    {{user: plain, password: p}}
    {{user: hashed, password: "{HASH}"}}
    {{user: another, password: "{HASH}"}}
] }}
"""


@pytest.fixture
def host() -> Host:
    """A broker."""
    return Host(USERS).start()


@pytest.fixture
def gate(host: Host) -> Gate:
    """The broker's pool of threads."""
    return Gate(host)


def login(host: Host, user: str, given: str) -> Client:
    """A client that has sent its CONNECT."""
    client = host.dial()
    client.receive()
    text = f'{{"verbose":false,"user":"{user}","pass":"{given}"}}'
    client.transport.send(b"CONNECT " + text.encode() + b"\r\nPING\r\n")
    return client


class TestSameAnswer:
    """The answer to a login does not show whether the user exists."""

    HASHED = USERS.replace("{user: plain, password: p}", "")

    @pytest.mark.parametrize("user", ["hashed", "nobody", "HASHED", "hashed ", "\\u0000"])
    def test_wire(self, user: str) -> None:
        """A wrong password and an unknown name get the same answer, after the same work."""
        host = Host(self.HASHED).start()
        gate = Gate(host)
        client = login(host, user, "wrong")
        assert (client.receive(), gate.held) == (b"", 1)
        gate.open()
        assert client.receive() == b"-ERR 'Authorization Violation'\r\n"
        assert client.closed


class TestOthersDoNotWait:
    """The comparison of a hash takes long, and runs in another thread."""

    def test_served(self, host: Host, gate: Gate) -> None:
        """While a password is compared, other clients are served and can log in."""
        early = login(host, "plain", "p")
        assert early.receive() == b"PONG\r\n"
        waiting = [login(host, user, "secret") for user in ("hashed", "another")]
        assert [client.receive() for client in waiting] == [b"", b""]
        assert gate.held == 2
        assert early.ask(b"SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n") == b"MSG a 1 2\r\nhi\r\nPONG\r\n"
        assert login(host, "plain", "p").receive() == b"PONG\r\n"
        gate.open()
        assert [client.receive() for client in waiting] == [b"PONG\r\n", b"PONG\r\n"]

    def test_flood(self, host: Host, gate: Gate) -> None:
        """
        A flood of logins with hashes uses two threads and delays further logins with hashes, but no
        other client.
        """
        early = login(host, "plain", "p")
        early.receive()
        flood = [login(host, "hashed", "wrong") for _ in range(200)]
        assert gate.held == PasswordChecks.AT_A_TIME
        assert early.ask(b"PING\r\n") == b"PONG\r\n"
        assert login(host, "plain", "p").receive() == b"PONG\r\n"
        host.advance(PasswordChecks.DENIAL_DELAY + 0.1)
        denied = [client for client in flood if client.closed]
        assert len(denied) == 200 - PasswordChecks.AT_A_TIME - PasswordChecks.WAITING
        for _ in range(200):
            gate.open()
            host.settle()
        assert all(client.closed for client in flood)
        assert early.ask(b"PING\r\n") == b"PONG\r\n"

    def test_reads(self, host: Host, gate: Gate) -> None:
        """Input during a login is handled once the login has succeeded, in order."""
        early, late = login(host, "plain", "p"), login(host, "hashed", "secret")
        early.receive()
        early.ask(b"SUB x 1\r\n")
        late.transport.send(b"PUB x 1\r\n1\r\nPUB x 1\r\n2\r\n")
        assert (late.receive(), early.receive()) == (b"", b"")
        gate.open()
        assert late.receive() == b"PONG\r\n"
        assert early.receive() == b"MSG x 1 1\r\n1\r\nMSG x 1 1\r\n2\r\n"
