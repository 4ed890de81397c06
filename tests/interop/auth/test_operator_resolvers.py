"""
Resolvers that store JWTs, on nats-server and on natsbroker. Operators push, request and delete JWTs
while the servers run, and connected users are affected.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.auth.operator.chain import Account, KeyPair, Operator, credentialsFile, token
from tests.interop.auth.peers import Both, Peer
from tests.interop.servers import PATIENCE, Server

OPERATOR = Operator()
SYSTEM = Account(OPERATOR)
USER, OTHER = KeyPair("U"), KeyPair("U")

FULL = f"""
operator: {OPERATOR.jwt({"system_account": SYSTEM.key})}
resolver {{ type: full, dir: "$DIR/jwt", allow_delete: true }}
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """
    Both servers with an empty folder.
    """
    running = Both(tmp_path_factory.mktemp("full"), FULL)
    yield running
    running.stop()


class World:
    """Two users of an account on one server, and an operator that changes JWTs."""

    def __init__(self, server: Server, account: Account, text: str | None = None) -> None:
        self.server = server
        self.account = account
        self._operator = Peer(server)
        assert self._operator.login(SYSTEM.user(USER), USER) == ""
        self.update(text or account.jwt())
        self.peers = [Peer(server), Peer(server)]

    def __enter__(self) -> World:
        return self

    def __exit__(self, *unused: object) -> None:
        for peer in (self._operator, *self.peers):
            peer.close()

    def ask(self, subject: str, body: bytes | str = b"") -> Any:
        """The answer to the operator, without the description of the server."""
        answer = json.loads(self._operator.request(subject, body))
        del answer["server"]
        return answer

    def asked(self, subject: str, body: bytes | str = b"") -> bytes:
        """The answer to the operator's request."""
        return self._operator.request(subject, body)

    def update(self, text: str) -> Any:
        """Push another JWT of the account."""
        return self.ask("$SYS.REQ.CLAIMS.UPDATE", text)

    def login(self, *users: str) -> list[str]:
        """Log in both users with their JWTs."""
        texts = users or (self.account.user(USER), self.account.user(OTHER))
        pairs = zip(self.peers, texts, (USER, OTHER), strict=True)
        return [peer.login(text, user) for peer, text, user in pairs]

    def fates(self) -> list[str]:
        """For both connections, the error that ended it, or nothing."""
        return [peer.ask(b"") for peer in self.peers]


class TestService:
    """Requests of operators."""

    def test_push(self, both: Both) -> None:
        """A pushed JWT is stored, and used for new connections."""
        account = Account(OPERATOR)

        def play(server: Server) -> list[Any]:
            with World(server, Account(OPERATOR)) as world:
                text = account.jwt()
                old = f"$SYS.ACCOUNT.{account.key}.CLAIMS.UPDATE"
                new = f"$SYS.REQ.ACCOUNT.{account.key}.CLAIMS.UPDATE"
                answers = [world.update(text), world.ask(old, text), world.ask(new, text)]
                path = server.directory / "jwt" / f"{account.key}.jwt"
                assert path.read_text() == text
                lookup = f"$SYS.REQ.ACCOUNT.{account.key}.CLAIMS.LOOKUP"
                assert world.asked(lookup).decode() == text
                with Peer(server) as peer:
                    return [*answers, peer.login(account.user(USER), USER)]

        expected = {"data": {"account": account.key, "code": 200, "message": "jwt updated"}}
        assert both.compare(play) == [expected] * 3 + [""]

    def test_list(self, both: Both) -> None:
        """All stored accounts are listed, and their JWTs can be requested."""

        def play(server: Server) -> tuple[bool, bool]:
            with World(server, Account(OPERATOR)) as world:
                listed = world.ask("$SYS.REQ.CLAIMS.LIST")["data"]
                packed = world.asked("$SYS.REQ.CLAIMS.PACK").decode().split("|")
                return world.account.key in listed, packed[0] in listed

        assert both.compare(play) == (True, True)

    def test_unknown(self, both: Both) -> None:
        """An account that is not stored gets an empty answer."""
        subject = f"$SYS.REQ.ACCOUNT.{Account(OPERATOR).key}.CLAIMS.LOOKUP"

        def play(server: Server) -> bytes:
            with World(server, Account(OPERATOR)) as world:
                return world.asked(subject)

        assert both.compare(play) == b""

    @pytest.mark.parametrize("wrong", ["", "nonsense", "other", "user"])
    def test_otherJWTsAreRefused(self, both: Both, wrong: str) -> None:
        """A JWT that is not of the account in the subject is refused."""
        account, other = Account(OPERATOR), Account(OPERATOR)
        body = {"other": other.jwt(), "user": account.user(USER)}.get(wrong, wrong)

        def play(server: Server) -> tuple[int, bool]:
            with World(server, account) as world:
                subject = f"$SYS.REQ.ACCOUNT.{account.key}.CLAIMS.UPDATE"
                error = world.ask(subject, body)["error"]
                return error["code"], error["description"].startswith(_REFUSED)

        assert both.compare(play) == (500, True)

    def test_untrusted(self, both: Both) -> None:
        """A JWT of another operator changes nothing for open connections."""
        account = Account(OPERATOR)

        def play(server: Server) -> list[str]:
            with World(server, account) as world:
                world.login()
                world.update(account.jwt(signer=Operator(), limits={"conn": 0}))
                return world.fates()

        assert [play(server) for server in both.servers][1] == ["", ""]

    def test_delete(self, both: Both) -> None:
        """
        When an operator deletes an account, its users are disconnected and cannot log in again.
        """
        account = Account(OPERATOR)

        def deletion(signer: KeyPair, subject: KeyPair) -> str:
            claims = {"jti": "X", "iat": 1, "iss": signer.key, "sub": subject.key}
            return token(signer, {**claims, "nats": {"accounts": [account.key], "version": 2}})

        def play(server: Server) -> list[Any]:
            with World(server, account) as world:
                world.login()
                wrong = Operator()
                bodies = [
                    deletion(wrong, wrong),
                    deletion(OPERATOR, wrong),
                    deletion(OPERATOR, OPERATOR),
                ]
                answers = [world.ask("$SYS.REQ.CLAIMS.DELETE", body) for body in bodies]
                for answer in answers[:2]:
                    text = answer["error"]["description"]
                    answer["error"]["description"] = text.partition(" failed - ")[2]
                ends = [peer.end() for peer in world.peers]
                with Peer(server) as peer:
                    refused = peer.login(account.user(USER), USER) != ""
                return [answers, ends, refused]

        answers, ends, refused = both.compare(play)
        assert answers[2] == {"data": {"code": 200, "message": "deleted 1 accounts"}}
        assert ends == ["Account Authentication Expired"] * 2
        assert refused


_REFUSED = "jwt update resulted in error"


class TestLive:
    """Users who are connected while their account's JWT changes."""

    def test_unrelatedChangeGoesUnnoticed(self, both: Both) -> None:
        """Users notice nothing of a change that does not concern them."""
        account = Account(OPERATOR)

        def play(server: Server) -> list[str]:
            with World(server, account) as world:
                world.login()
                world.update(account.jwt(limits={"conn": 100}))
                return world.fates()

        assert both.compare(play) == ["", ""]

    def test_revoked(self, both: Both) -> None:
        """
        A revoked user is disconnected with C{User Authentication Revoked} and denied later, and the
        other user stays.
        """
        account = Account(OPERATOR)

        def play(server: Server) -> list[str]:
            with World(server, account) as world:
                world.login()
                world.update(account.jwt({"revocations": {USER.key: int(time.time())}}))
                end = world.peers[0].end()
                with Peer(server) as peer:
                    again = peer.login(account.user(USER), USER)
                return [end, world.peers[1].ask(b""), again]

        assert both.compare(play) == [
            "User Authentication Revoked",
            "",
            "Authorization Violation",
        ]

    def test_signingKeyGone(self, both: Both) -> None:
        """
        A user whose signing key was removed from the account is disconnected. nats-server sends no
        reason, and natsbroker sends one, so that the client does not retry for ever.
        """
        account = Account(OPERATOR)

        def play(server: Server) -> list[str]:
            with World(server, account) as world:
                signed = account.user(USER, signer=account.signing)
                world.login(signed, account.user(OTHER))
                world.update(account.jwt({"signing_keys": []}))
                return [world.peers[0].end(), world.peers[1].ask(b"")]

        assert [play(server) for server in both.servers] == [
            ["", ""],
            ["Authorization Violation", ""],
        ]

    def test_fewerConnections(self, both: Both) -> None:
        """When the limit of connections is lowered, the excess connections are closed."""
        account = Account(OPERATOR)

        def play(server: Server) -> list[str]:
            with World(server, account) as world:
                world.login()
                world.update(account.jwt(limits={"conn": 1}))
                return sorted(world.fates())

        assert both.compare(play) == ["", "maximum account active connections exceeded"]

    def test_payload(self, both: Both) -> None:
        """A lowered payload limit applies at once."""
        account = Account(OPERATOR)

        def play(server: Server) -> str:
            with World(server, account) as world:
                world.login()
                world.update(account.jwt(limits={"payload": 3}))
                return world.peers[0].ask(b"PUB a 4\r\n1234\r\n")

        assert both.compare(play) == "Maximum Payload Violation"

    def test_defaultPermissions(self, both: Both) -> None:
        """
        Changed default permissions of the account apply to its users at their next login at the
        latest.
        """
        account = Account(OPERATOR)
        ask = b"PUB denied 0\r\n\r\n"

        def play(server: Server) -> str:
            with World(server, account) as world:
                world.login()
                world.update(account.jwt({"default_permissions": {"pub": {"deny": ["denied"]}}}))
                with Peer(server) as peer:
                    peer.login(account.user(USER), USER)
                    return peer.ask(ask)

        assert both.compare(play) == 'Permissions Violation for Publish to "denied"'

    def test_imports(self, both: Both) -> None:
        """A new export of one account can be used by another that imports it."""
        giver, taker = Account(OPERATOR), Account(OPERATOR)

        def play(server: Server) -> tuple[str, bytes]:
            with World(server, giver) as one, World(server, taker) as two:
                one.login()
                two.login()
                two.peers[0].ask(b"SUB news.> 1\r\n")
                export = {"name": "news", "subject": "news.>", "type": "stream"}
                one.update(giver.jwt({"exports": [export]}))
                two.update(taker.jwt({"imports": [{**export, "account": giver.key}]}))
                two.peers[0].ask(b"")
                one.peers[0].ask(b"PUB news.today 2\r\nhi\r\n")
                return two.peers[0].message()

        assert both.compare(play) == ("news.today", b"hi")

    def test_expires(self, both: Both) -> None:
        """
        When the account's JWT expires, its users are disconnected with C{Account Authentication
        Expired}.
        """
        account = Account(OPERATOR)
        text = account.jwt(exp=int(time.time()) + 2)
        worlds = [World(server, account, text) for server in both.servers]
        for world in worlds:
            assert world.login() == ["", ""]
        ends = [[peer.end() for peer in world.peers] for world in worlds]
        assert ends == [["Account Authentication Expired"] * 2] * 2


def test_restart(tmp_path: Path) -> None:
    """A pushed JWT is still stored after a restart, also that of the system account."""
    both = Both(tmp_path, FULL)
    account = Account(OPERATOR)
    signed = SYSTEM.user(USER, signer=SYSTEM.signing)

    def before(server: Server) -> list[str]:
        with World(server, account) as world, Peer(server) as peer:
            refused = peer.login(signed, USER)
            world.update(SYSTEM.jwt())
            return [refused]

    def after(server: Server) -> list[str]:
        server.restart()
        answers = []
        for text in (account.user(USER), signed, Account(OPERATOR).user(USER)):
            with Peer(server) as peer:
                answers.append(peer.login(text, USER))
        return answers

    try:
        assert both.compare(before) == ["Authorization Violation"]
        assert both.compare(after) == ["", "", "Authorization Violation"]
    finally:
        both.stop()


def test_credentialsFile(both: Both, tmp_path: Path) -> None:
    """nats-py logs in with credentials files, pushes an account's JWT and uses the account."""
    account = Account(OPERATOR)
    system, path = tmp_path / "system.creds", tmp_path / "user.creds"
    system.write_text(credentialsFile(SYSTEM.user(USER), USER))
    path.write_text(credentialsFile(account.user(OTHER), OTHER))

    async def play(server: Server) -> list[Any]:
        operator = await nats.connect(server.url, user_credentials=str(system))
        pushed = await operator.request(
            "$SYS.REQ.CLAIMS.UPDATE", account.jwt().encode(), timeout=PATIENCE
        )
        client = await nats.connect(server.url, user_credentials=str(path))
        heard = await client.subscribe("news")
        await client.publish("news", b"hi")
        message = await heard.next_msg(PATIENCE)
        await client.close()
        await operator.close()
        return [json.loads(pushed.data)["data"], message.data]

    data, heard = both.compare(lambda server: asyncio.run(play(server)))
    assert (data["message"], heard) == ("jwt updated", b"hi")
