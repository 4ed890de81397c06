"""
Folders of JWTs that the members of a cluster share: natsbroker beside natsbroker, and beside
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

    @ivar first: has JWTs.
    @ivar second: has none but the system account's.
    @ivar stored: an account that the first had when it began.
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
        """The one that is asked."""
        return self.servers[0]

    @property
    def second(self) -> Server:
        """The one that asks."""
        return self.servers[1]

    def _routePort(self) -> int:
        match = self.first.waitForLog(r"Listening for route connections on \S+:(\d+)")
        return int(match[1])

    def _join(self) -> None:
        """
        Wait until a message in the system account of one server is received in that of the other.
        """
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
        """
        Have a JWT stored.
        """
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
        """Stop both."""
        for server in reversed(self.servers):
            server.stop()


def until(path: Path, text: str) -> None:
    """
    Wait for a file to hold a text.
    """
    deadline = time.monotonic() + PATIENCE
    while not path.exists() or path.read_text() != text:
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def fileOf(server: Server, account: Account) -> Path:
    """
    Where a server keeps an account's JWT.
    """
    return server.directory / "jwt" / f"{account.key}.jwt"


@pytest.fixture(params=PAIRS, ids=lambda pair: "-".join(flavour.name for flavour in pair))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """
    Two members whose folders are full resolvers'.
    """
    made = Pair(request.param, tmp_path)
    yield made
    made.stop()


def test_shared(pair: Pair) -> None:
    """
    A user of an account that the other member knows is admitted, and the JWT is stored. A user of
    an unknown account is denied.
    """
    assert pair.login(pair.second, pair.stored) == ""
    assert fileOf(pair.second, pair.stored).read_text() == pair.stored.jwt()
    nowhere = Account(OPERATOR)
    assert pair.login(pair.second, nowhere) == "Authorization Violation"
    assert pair.login(pair.first, nowhere) == "Authorization Violation"


def test_keepsUp(pair: Pair) -> None:
    """Each member gets the JWTs of the other without a request for them, and the newer of two."""
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
    """A member with a cache asks a member with all JWTs, and keeps the answers."""
    pair = Pair(flavours, tmp_path, "cache")
    try:
        assert pair.login(pair.second, pair.stored) == ""
        assert fileOf(pair.second, pair.stored).read_text() == pair.stored.jwt()
        assert pair.login(pair.second, Account(OPERATOR)) == "Authorization Violation"
    finally:
        pair.stop()
