"""
Folders of JWTs that the members of a cluster exchange: natsbroker with natsbroker, and with
nats-server in both roles.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.auth.operator.chain import Account, KeyPair, Operator
from tests.interop.auth.peers import Peer
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server

OPERATOR = Operator()
SYSTEM = Account(OPERATOR)
USER = KeyPair("U")

CONFIG = f"""
server_name: $NAME
operator: {OPERATOR.jwt({"system_account": SYSTEM.key})}
resolver {{ type: $TYPE, dir: "$DIR/jwt", $MORE }}
resolver_preload {{ {SYSTEM.key}: {SYSTEM.jwt()} }}
cluster {{ name: C, listen: "127.0.0.1:-1", routes: [ $ROUTES ] }}
"""

PAIRS = [(OURS_FAST, OURS_FAST), (OURS_FAST, REAL), (REAL, OURS_FAST)]


class Pair:
    """
    Two members of a cluster.

    @ivar first: the member with JWTs.
    @ivar second: the member that has only the system account's JWT.
    @ivar stored: an account whose JWT the first member has at the start.
    """

    def __init__(self, flavours: tuple[Flavour, ...], directory: Path, kind: str = "full") -> None:
        self.stored = Account(OPERATOR)
        self.servers: list[Server] = []
        for place, flavour in enumerate(flavours):
            home = directory / f"m{place}"
            (home / "jwt").mkdir(parents=True)
            if not place:
                (home / "jwt" / f"{self.stored.key}.jwt").write_text(self.stored.jwt())
            isCache = bool(place) and kind == "cache"
            values = {
                "$NAME": f"m{place}",
                "$TYPE": "cache" if isCache else "full",
                "$MORE": "ttl: '1h'" if isCache else "interval: '500ms', timeout: '1900ms'",
                "$ROUTES": f'"nats-route://127.0.0.1:{self._routePort()}"' if place else "",
            }
            text = CONFIG
            for key, value in values.items():
                text = text.replace(key, value)
            self.servers.append(Server(flavour, home, text).start())
        self._join()

    @property
    def first(self) -> Server:
        """The member that is asked for JWTs."""
        return self.servers[0]

    @property
    def second(self) -> Server:
        """The member that asks for JWTs."""
        return self.servers[1]

    def _routePort(self) -> int:
        match = self.first.waitForLog(r"Listening for route connections on \S+:(\d+)")
        return int(match[1])

    def _join(self) -> None:
        """Wait until a message in the system account of one server is received at the other."""
        with Peer(self.first) as one, Peer(self.second) as other:
            for peer in (one, other):
                assert peer.login(SYSTEM.user(USER), USER) == ""
            one.send(b"SUB joined 1\r\n")
            deadline = time.monotonic() + PATIENCE
            one.settle(0.1)
            while True:
                other.ask(b"PUB joined 2\r\nhi\r\n")
                try:
                    assert one.message() == ("joined", b"hi")
                    break
                except TimeoutError:
                    assert time.monotonic() < deadline
            one.settle(PATIENCE)

    def push(self, server: Server, text: str) -> None:
        """Push a JWT to a server."""
        with Peer(server) as operator:
            assert operator.login(SYSTEM.user(USER), USER) == ""
            answer = operator.request("$SYS.REQ.CLAIMS.UPDATE", text)
            assert b'"code":200' in answer, answer

    def login(self, server: Server, account: Account) -> str:
        """
        The answer to a user of an account.
        """
        with Peer(server) as peer:
            return peer.login(account.user(USER), USER)

    def stop(self) -> None:
        """Stop both servers."""
        for server in reversed(self.servers):
            server.stop()


def until(path: Path, text: str) -> None:
    """Wait until a file has this content."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists() or path.read_text() != text:
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def fileOf(server: Server, account: Account) -> Path:
    """The path of an account's JWT at a server."""
    return server.directory / "jwt" / f"{account.key}.jwt"


@pytest.fixture(params=PAIRS, ids=lambda pair: "-".join(flavour.name for flavour in pair))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two members with full resolvers."""
    made = Pair(request.param, tmp_path)
    yield made
    made.stop()


def test_shared(pair: Pair) -> None:
    """
    A user of an account that only the other member knows is accepted, and the JWT is stored. A user
    of an unknown account is denied.
    """
    assert pair.login(pair.second, pair.stored) == ""
    assert fileOf(pair.second, pair.stored).read_text() == pair.stored.jwt()
    nowhere = Account(OPERATOR)
    assert pair.login(pair.second, nowhere) == "Authorization Violation"
    assert pair.login(pair.first, nowhere) == "Authorization Violation"


def test_keepsUp(pair: Pair) -> None:
    """
    Each member gets the JWTs of the other without a request for them, and keeps the newer of two.
    """
    until(fileOf(pair.second, pair.stored), pair.stored.jwt())
    ours, theirs = Account(OPERATOR), Account(OPERATOR)
    older: dict[str, Any] = {"jti": "X", "iat": 1}
    newer: dict[str, Any] = {"jti": "Y", "iat": 2}
    pair.second.stop()
    pair.push(pair.first, ours.jwt(**newer))
    pair.push(pair.first, theirs.jwt(**older))
    fileOf(pair.second, ours).write_text(ours.jwt(**older))
    fileOf(pair.second, theirs).write_text(theirs.jwt(**newer))
    pair.second.start()
    until(fileOf(pair.second, ours), ours.jwt(**newer))
    until(fileOf(pair.first, theirs), theirs.jwt(**newer))


@pytest.mark.parametrize(
    "flavours", PAIRS, ids=lambda pair: "-".join(flavour.name for flavour in pair)
)
def test_cache(flavours: tuple[Flavour, ...], tmp_path: Path) -> None:
    """A member with a cache requests JWTs from a member that has all, and stores the answers."""
    pair = Pair(flavours, tmp_path, "cache")
    try:
        assert pair.login(pair.second, pair.stored) == ""
        assert fileOf(pair.second, pair.stored).read_text() == pair.stored.jwt()
        assert pair.login(pair.second, Account(OPERATOR)) == "Authorization Violation"
    finally:
        pair.stop()
