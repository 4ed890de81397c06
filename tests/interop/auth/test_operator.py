"""
Operator mode with nats-py and with raw peers: the same operator, accounts and users on nats-server
and on natsbroker, with the same configuration file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.auth.operator.chain import Account, KeyPair, credentialsFile, oldToken
from tests.interop.auth.operatorconfig import (
    ACCOUNTS,
    EXPIRED,
    NOW,
    OLD,
    ONE,
    OPERATOR,
    PLAIN,
    REVOKED,
    SCOPED,
    STRICT,
    SYSTEM,
    TWO,
    UNTRUSTED,
    USER,
    memoryConfig,
)
from tests.interop.auth.peers import Both, Peer
from tests.interop.servers import PATIENCE, Server

DAY = 86_400


@dataclass(frozen=True)
class Attempt:
    """
    An attempt to log in.

    @ivar jwt: the user JWT.
    @ivar signer: the signer of the nonce; C{None} for no signature.
    @ivar options: further options of CONNECT.
    @ivar asks: the lines that are sent if the login is accepted.
    """

    name: str
    jwt: str
    signer: KeyPair | None = USER
    options: Mapping[str, Any] = field(default_factory=dict)
    asks: tuple[bytes, ...] = ()


def scoped(nats: Mapping[str, Any] | None = None, **claims: Any) -> str:
    """The JWT of a user of a scoped signing key."""
    return ONE.scopedUser(USER, SCOPED, {"tags": ["team:red"], **(nats or {})}, **claims)


def hours(start: int, end: int) -> dict[str, str]:
    """A time of day, some hours from now."""
    texts = [time.strftime("%H:%M:%S", time.gmtime(NOW + offset * 3600)) for offset in (start, end)]
    return {"start": texts[0], "end": texts[1]}


def times(start: int, end: int) -> str:
    """The JWT of a user that is accepted between two hours."""
    return ONE.user(USER, {"times": [hours(start, end)], "times_location": "UTC"})


PUBLISH = (
    b"PUB someone.x 1\r\nx\r\n",
    b"PUB other.x 1\r\nx\r\n",
    b"PUB red.x 1\r\nx\r\n",
    b"SUB %b.a 1\r\n" % USER.key.encode(),
    b"SUB first.a 2\r\n",
    b"SUB second.a 3\r\n",
)
LIMITS = {"subs": 1, "payload": 5}

ATTEMPTS = [
    Attempt("valid", ONE.user(USER)),
    Attempt("default permissions", ONE.user(USER), asks=(b"PUB denied 0\r\n\r\n",)),
    Attempt("system account", SYSTEM.user(USER)),
    Attempt("signing key", ONE.user(USER, signer=ONE.signing)),
    Attempt("unknown signing key", ONE.user(USER, signer=TWO.signing)),
    Attempt("another account's key", TWO.user(USER, {"issuer_account": ONE.key})),
    Attempt("nobody's account", Account(OPERATOR).user(USER)),
    Attempt("an operator's user", ONE.user(USER, signer=OPERATOR)),
    Attempt("untrusted account", UNTRUSTED.user(USER)),
    Attempt("expired account", EXPIRED.user(USER)),
    Attempt("nothing", "", None),
    Attempt("nonsense", "x.y.z", None),
    Attempt("an account's JWT", ACCOUNTS[ONE]),
    Attempt("password", "", None, {"user": "a", "pass": "b"}),
    Attempt("token", "", None, {"auth_token": "a"}),
    Attempt("nkey alone", "", USER, {"nkey": USER.key}),
    Attempt("not signed", ONE.user(USER), None),
    Attempt("signed by another", ONE.user(USER), KeyPair("U")),
    Attempt("signature is none", ONE.user(USER), None, {"sig": "***"}),
    Attempt("tampered", ONE.user(USER)[:-4] + "AAAA"),
    Attempt("bearer", ONE.user(USER, {"bearer_token": True}), None),
    Attempt("bearer unwanted", STRICT.user(USER, {"bearer_token": True}), None),
    Attempt("bearer unwanted but signed", STRICT.user(USER, {"bearer_token": True})),
    Attempt("expired", ONE.user(USER, exp=NOW - 10)),
    Attempt("expires later", ONE.user(USER, exp=NOW + DAY)),
    Attempt("not yet", ONE.user(USER, nbf=NOW + DAY)),
    Attempt("revoked", ONE.user(REVOKED, iat=NOW - 100), REVOKED),
    Attempt("issued after the revocation", ONE.user(REVOKED, iat=NOW - 10), REVOKED),
    Attempt("everybody revoked", TWO.user(USER, iat=NOW - 100)),
    Attempt("everybody revoked before", TWO.user(USER, iat=NOW - 10)),
    Attempt("right network", ONE.user(USER, {"src": ["10.0.0.0/8", "127.0.0.0/8"]})),
    Attempt("wrong network", ONE.user(USER, {"src": ["10.0.0.0/8"]})),
    Attempt("right time", times(-2, 2)),
    Attempt("wrong time", times(2, 4)),
    Attempt("over midnight", times(-1, -3)),
    Attempt("connection type", ONE.user(USER, {"allowed_connection_types": ["STANDARD"]})),
    Attempt("wrong type", ONE.user(USER, {"allowed_connection_types": ["WEBSOCKET"]})),
    Attempt("unknown type", ONE.user(USER, {"allowed_connection_types": ["SMOKE"]})),
    Attempt(
        "known and unknown types",
        ONE.user(USER, {"allowed_connection_types": ["SMOKE", "STANDARD"]}),
    ),
    Attempt("no limits said", ONE.user(USER, {"subs": None, "data": None, "payload": None})),
    Attempt(
        "permissions",
        ONE.user(USER, {"pub": {"allow": ["a"]}, "sub": {"deny": ["b"]}}),
        asks=(b"PUB a 0\r\n\r\n", b"PUB b 0\r\n\r\n", b"SUB b 1\r\n", b"SUB c 2\r\n"),
    ),
    Attempt("no payload", ONE.user(USER, {"payload": 0}), asks=(b"PUB a 1\r\n1\r\n",)),
    Attempt("negative payload", ONE.user(USER, {"payload": -2}), asks=(b"PUB a 1\r\n1\r\n",)),
    Attempt("version 1", oldToken("user", ONE, USER.key, {"pub": {"deny": ["b"]}}), asks=PUBLISH),
    Attempt("version 1, payload", oldToken("user", ONE, USER.key, {"payload": 1}), asks=PUBLISH),
    Attempt("version 1, network", oldToken("user", ONE, USER.key, {"src": "10.0.0.0/8"})),
    Attempt(
        "version 1, signing key",
        oldToken("user", ONE.signing, USER.key, {}, issuer_account=ONE.key),
    ),
    Attempt(
        "version 1, account elsewhere",
        oldToken("user", ONE.signing, USER.key, {"issuer_account": ONE.key}),
    ),
    Attempt("version 1, account too", oldToken("user", OLD, USER.key, {})),
    Attempt("limits", ONE.user(USER, LIMITS), asks=(b"SUB a 1\r\n", b"SUB b 2\r\n")),
    Attempt("payload", ONE.user(USER, LIMITS), asks=(b"PUB a 6\r\n123456\r\n",)),
    Attempt("account's payload", ONE.user(USER), asks=(b"PUB a 1001\r\n" + b"x" * 1001 + b"\r\n",)),
    Attempt("scoped", scoped(), asks=PUBLISH),
    Attempt("scoped with own permissions", scoped({"pub": {"allow": ["a"]}})),
    Attempt("scoped with own limits", scoped({"subs": 5})),
    Attempt("scoped without the tag", ONE.scopedUser(USER, SCOPED), asks=PUBLISH[:3]),
    Attempt("scoped with a wild name", scoped(name="a.>"), asks=PUBLISH[:3]),
    Attempt("issuer account unsaid", ONE.user(USER, {"issuer_account": None}, signer=PLAIN)),
]

#: Attempts that nats-server answers otherwise, with the reason.
OTHERWISE = {
    "no limits said": "no limit is zero there too: who may have no subscription at all is let in, "
    "and refused the first one; here it is not let in",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """
    Both servers with JWTs in their configuration.
    """
    running = Both(tmp_path_factory.mktemp("memory"), memoryConfig())
    yield running
    running.stop()


def tried(attempt: Attempt) -> Callable[[Server], list[str]]:
    """The result of an attempt."""

    def play(server: Server) -> list[str]:
        with Peer(server) as peer:
            answers = [peer.login(attempt.jwt, attempt.signer, attempt.options)]
            if not answers[0]:
                answers += [peer.ask(ask) for ask in attempt.asks]
            return answers

    return play


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_attempt(both: Both, attempt: Attempt) -> None:
    """Users are accepted with the same permissions as by nats-server, or get the same error."""
    play = tried(attempt)
    if attempt.name in OTHERWISE:
        real, ours = (play(server)[0] for server in both.servers)
        # nats-server refuses the first subscription, sometimes before the login's answer is read.
        assert real in ("", "maximum subscriptions exceeded")
        assert ours == "Authorization Violation"
    else:
        both.compare(play)


def test_credentialsFile(both: Both, tmp_path: Path) -> None:
    """nats-py logs in with a credentials file, and exchanges messages."""
    path = tmp_path / "user.creds"
    path.write_text(credentialsFile(ONE.user(USER), USER))

    async def help(message: Msg) -> None:
        await message.respond(b"here")

    async def play(server: Server) -> bytes:
        client = await connect(server, path)
        await client.subscribe("help", cb=help)
        answer = await client.request("help", b"?", timeout=PATIENCE)
        await client.close()
        return answer.data

    assert both.compare(lambda server: asyncio.run(play(server))) == b"here"


def test_wrongCredentialsFile(both: Both, tmp_path: Path) -> None:
    """nats-py gets the error if the key is not that of the JWT."""
    path = tmp_path / "user.creds"
    path.write_text(credentialsFile(ONE.user(USER), KeyPair("U")))

    async def play(server: Server) -> str:
        with pytest.raises(nats.errors.Error) as refused:
            await connect(server, path)
        return str(refused.value)

    both.compare(lambda server: asyncio.run(play(server)))


def test_info(both: Both) -> None:
    """INFO has a nonce, and after the login the account."""

    def play(server: Server) -> tuple[bool, int, bool]:
        with Peer(server) as peer:
            info = peer.info
            assert peer.login(ONE.user(USER), USER) == ""
            return info["auth_required"], len(info["nonce"]), info["xkey"].startswith("X")

    assert both.compare(play) == (True, 15, True)


def test_userExpires(both: Both) -> None:
    """A user whose JWT expires is disconnected with C{User Authentication Expired}."""
    peers = [Peer(server) for server in both.servers]
    text = ONE.user(USER, exp=int(time.time()) + 2)
    assert [peer.login(text, USER) for peer in peers] == ["", ""]
    assert [peer.end() for peer in peers] == ["User Authentication Expired"] * 2


def test_tooManyConnections(both: Both) -> None:
    """An account accepts as many connections as its JWT allows."""

    def play(server: Server) -> list[str]:
        with Peer(server) as one, Peer(server) as two:
            return [
                one.login(TWO.user(USER, iat=NOW), USER),
                two.login(TWO.user(USER, iat=NOW), USER),
            ]

    assert both.compare(play) == ["", "maximum account active connections exceeded"]


async def connect(server: Server, credentials: Path) -> Client:
    """
    Connect with nats-py, once.
    """

    async def ignore(error: Exception) -> None:
        """Ignore an event that the tests detect in another way."""

    return await nats.connect(
        server.url,
        user_credentials=str(credentials),
        allow_reconnect=False,
        connect_timeout=PATIENCE,
        error_cb=ignore,
    )
