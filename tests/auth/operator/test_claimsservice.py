"""
Tests of L{natsbroker.auth.operator.claimsservice}.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import execute

from natsbroker.auth.operator.claimsservice import ClaimsService
from natsbroker.auth.operator.folders import CachedFolder, Deletion, TokenFolder
from natsbroker.auth.operator.resolvers import FolderResolver
from tests.auth.buses import Clients, busOf
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, token
from tests.auth.operator.directories import ACCOUNT, OPERATOR, World, issued
from tests.support import Recorder

OTHER = Account(OPERATOR)
SYSTEM = Account(OPERATOR)

UPDATES = [
    f"$SYS.REQ.ACCOUNT.{ACCOUNT.key}.CLAIMS.UPDATE",
    f"$SYS.ACCOUNT.{ACCOUNT.key}.CLAIMS.UPDATE",
]


class Broker(World):
    """
    A directory and its service on the system account's bus.
    """

    def __init__(
        self,
        path: Path | None = None,
        deletion: Deletion = Deletion.RENAMED,
        folder: TokenFolder | None = None,
        server: bytes = b"",
    ) -> None:
        super().__init__()
        self.bus = bus = busOf(SYSTEM.key)
        if path is not None:
            folder = TokenFolder(str(path), deletion=deletion)
        self.folder: FolderResolver | None = None
        if folder is not None:
            self.folder = FolderResolver(folder, execute)
            self.directory._resolver = self.folder
        self.isSpeaking = True
        self.service = ClaimsService(
            bus,
            self.directory,
            lambda: {"id": "N"},
            self.folder,
            self.clock.seconds,
            isSpeaking=lambda: self.isSpeaking,
            server=server,
        )
        self.clients = Clients(bus)

    def done(self, subject: str, payload: str) -> str:
        """Send a request, and expect that it succeeds."""
        answer = self.clients.json(subject, payload)
        assert answer["server"] == {"id": "N"}
        assert answer["data"]["code"] == 200, answer
        text: str = answer["data"]["message"]
        return text

    def refused(self, subject: str, payload: bytes | str) -> str:
        """Send a request, and expect that it is refused."""
        answer = self.clients.json(subject, payload)
        assert answer["error"]["code"] == 500 and "data" not in answer
        text: str = answer["error"]["description"]
        return text


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """A broker that keeps JWTs in a folder."""
    return Broker(tmp_path / "jwt")


class TestUpdating:
    """New and changed JWTs."""

    @pytest.mark.parametrize("subject", [*UPDATES, "$SYS.REQ.CLAIMS.UPDATE"])
    def test_stored(self, broker: Broker, subject: str) -> None:
        """A pushed JWT is stored and used, and other servers can look it up."""
        text = issued()
        assert broker.clients.json(subject, text + "\n") == {
            "server": {"id": "N"},
            "data": {"account": ACCOUNT.key, "code": 200, "message": "jwt updated"},
        }
        assert broker.find().token.text == text
        assert broker.clients.ask(f"$SYS.REQ.ACCOUNT.{ACCOUNT.key}.CLAIMS.LOOKUP") == [
            text.encode()
        ]

    def test_notSpeaking(self, broker: Broker) -> None:
        """
        A broker that another worker speaks for stores a pushed JWT, and answers look-ups only.
        """
        broker.isSpeaking = False
        assert broker.clients.ask(UPDATES[0], issued()) == []
        assert broker.clients.ask("$SYS.REQ.CLAIMS.LIST") == []
        lookup = f"$SYS.REQ.ACCOUNT.{ACCOUNT.key}.CLAIMS.LOOKUP"
        assert broker.clients.ask(lookup) == [issued().encode()]

    def test_live(self, broker: Broker) -> None:
        """A changed JWT of an account in use takes effect at once."""
        broker.done(UPDATES[0], issued())
        broker.find()
        broker.done(UPDATES[0], issued(2))
        assert broker.observer.told == [("changed", ACCOUNT.key)] * 2
        assert broker.find().token.issuedAt == 2

    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"x",
            b"\xff",
            OPERATOR.jwt().encode(),
            ACCOUNT.user(KeyPair("U")).encode(),
            issued(signer=Operator()).encode(),
            issued(signer=ACCOUNT).encode(),
            issued(exp=999).encode(),
            issued(nats={"exports": [None]}).encode(),
        ],
    )
    @pytest.mark.parametrize("subject", [UPDATES[0], "$SYS.REQ.CLAIMS.UPDATE"])
    def test_invalidJWTIsNotStored(self, broker: Broker, subject: str, payload: bytes) -> None:
        """
        A JWT is not stored if it is not of an account, is not trusted, or is not valid at this
        time.
        """
        broker.refused(subject, payload)
        assert broker.folder is not None and len(broker.folder.folder) == 0

    @pytest.mark.parametrize("name", [OTHER.key, "x", "*", "/", "/etc/passwd", "é", "\\"])
    def test_anotherName(self, broker: Broker, name: str, tmp_path: Path) -> None:
        """
        The subject of an update must name the JWT's account, and nothing else becomes a file name.
        """
        broker.refused(f"$SYS.REQ.ACCOUNT.{name}.CLAIMS.UPDATE", issued())
        assert [path.name for path in tmp_path.rglob("*")] == ["jwt"]

    @pytest.mark.parametrize("subject", ["/..", "..", "../../etc/passwd", ""])
    def test_keysThatArePaths(self, broker: Broker, subject: str, tmp_path: Path) -> None:
        """A signed JWT of an account whose key is a path is refused (CVE-2022-28357)."""
        forged = token(OPERATOR, claimsOf("account", OPERATOR, subject, {}))
        broker.refused("$SYS.REQ.CLAIMS.UPDATE", forged)
        assert [path.name for path in tmp_path.rglob("*")] == ["jwt"]

    def test_fullFolder(self, tmp_path: Path) -> None:
        """A full folder stores no more JWTs and reports an error."""
        broker = Broker(tmp_path)
        assert broker.folder is not None
        broker.folder.folder._limit = 1
        broker.done("$SYS.REQ.CLAIMS.UPDATE", issued())
        assert "full" in broker.refused("$SYS.REQ.CLAIMS.UPDATE", OTHER.jwt())


class TestWithoutFolder:
    """Resolvers that store nothing."""

    @pytest.mark.parametrize("subject", UPDATES)
    def test_inUse(self, subject: str) -> None:
        """
        A pushed JWT of an account in use takes effect at once. JWTs of other accounts are skipped.
        """
        broker = Broker(None)
        assert broker.done(subject, issued()) == "jwt update skipped"
        broker.resolver.tokens[ACCOUNT.key] = issued()
        broker.find()
        assert broker.done(subject, issued(2)) == "jwt updated"
        assert broker.find().token.issuedAt == 2

    def test_untrustedJWTIsNotUsed(self) -> None:
        """An untrusted JWT does not replace the JWT of an account in use."""
        broker = Broker(None)
        broker.resolver.tokens[ACCOUNT.key] = issued()
        before = broker.find()
        broker.refused(UPDATES[0], issued(2, signer=Operator()))
        assert broker.find() is before

    @pytest.mark.parametrize("verb", ["LIST", "PACK", "UPDATE", "DELETE"])
    def test_nothingElse(self, verb: str) -> None:
        """Listing and deleting are not supported."""
        assert Broker(None).clients.ask(f"$SYS.REQ.CLAIMS.{verb}") == []


class TestLooking:
    """Look-ups and lists of stored JWTs."""

    def test_lookUpInServer(self, broker: Broker) -> None:
        """Of brokers that are one server one answers a lookup; all answer those of each other."""
        broker.service._server = b"N"
        lookup = f"$SYS.REQ.ACCOUNT.{ACCOUNT.key}.CLAIMS.LOOKUP"
        broker.isSpeaking = False
        assert broker.clients.ask(lookup) == []
        assert broker.clients.ask(lookup, "N") == [b""]
        broker.isSpeaking = True
        assert broker.clients.ask(lookup) == [b""]

    def test_lookUp(self, broker: Broker) -> None:
        """
        A look-up of an account that is not stored gets an empty answer, so that the requester need
        not wait.
        """
        for name in (ACCOUNT.key, "x", "*", "é"):
            assert broker.clients.ask(f"$SYS.REQ.ACCOUNT.{name}.CLAIMS.LOOKUP") == [b""]

    def test_list(self, broker: Broker) -> None:
        """A list has all accounts whose JWTs have not expired."""
        broker.done("$SYS.REQ.CLAIMS.UPDATE", issued(exp=1010))
        broker.done("$SYS.REQ.CLAIMS.UPDATE", OTHER.jwt())
        listed = broker.clients.json("$SYS.REQ.CLAIMS.LIST")
        assert sorted(listed["data"]) == sorted([ACCOUNT.key, OTHER.key])
        broker.clock.advance(11)
        assert broker.clients.json("$SYS.REQ.CLAIMS.LIST")["data"] == [OTHER.key]

    def test_pack(self, broker: Broker) -> None:
        """A server with other JWTs receives all JWTs, and an empty message at the end."""
        assert broker.folder is not None
        texts = {ACCOUNT.key: issued(), OTHER.key: OTHER.jwt()}
        for text in texts.values():
            broker.done("$SYS.REQ.CLAIMS.UPDATE", text)
        *packed, end = broker.clients.ask("$SYS.REQ.CLAIMS.PACK", bytes(32))
        assert sorted(packed) == sorted(f"{key}|{text}".encode() for key, text in texts.items())
        assert end == b""
        same = broker.clients.ask("$SYS.REQ.CLAIMS.PACK", broker.folder.folder.digest)
        assert same == [b""]

    def test_packOfWorkers(self, tmp_path: Path) -> None:
        """A worker leaves the request to another server, too: its neighbour has no other JWTs."""
        broker, other = Broker(tmp_path / "jwt", server=b"N"), Recorder()
        broker.bus.subscribe(b"$SYS.REQ.CLAIMS.PACK", other, None, b"responder")
        for _ in range(8):
            assert broker.clients.ask("$SYS.REQ.CLAIMS.PACK", bytes(32)) == [b""]
        assert len(other.got) == 8


def deletion(accounts: Any, signer: KeyPair = OPERATOR, subject: str = OPERATOR.key) -> str:
    """
    A request to delete accounts, as nsc makes it.
    """
    body = {"jti": "x", "iat": 1, "iss": signer.key, "sub": subject}
    return token(signer, {**body, "nats": {"accounts": accounts, "version": 2}})


class TestDeleting:
    """Requests to delete JWTs."""

    SUBJECT = "$SYS.REQ.CLAIMS.DELETE"

    def test_deleted(self, broker: Broker) -> None:
        """Accounts are deleted, and their users are disconnected."""
        broker.done("$SYS.REQ.CLAIMS.UPDATE", issued())
        broker.find()
        assert broker.done(self.SUBJECT, deletion([ACCOUNT.key])) == "deleted 1 accounts"
        assert broker.observer.told[-1] == ("ended", ACCOUNT.key)
        assert broker.clients.json("$SYS.REQ.CLAIMS.LIST")["data"] == []
        assert broker.done(self.SUBJECT, deletion([ACCOUNT.key])) == "deleted 1 accounts"

    def test_signingKey(self, broker: Broker) -> None:
        """A signing key of the operator may sign a request to delete."""
        signer = OPERATOR.signing
        assert broker.done(self.SUBJECT, deletion([], signer, signer.key)) == "deleted 0 accounts"

    @pytest.mark.parametrize(
        "payload",
        [
            "",
            "x",
            deletion([ACCOUNT.key], Operator()),
            deletion([ACCOUNT.key], ACCOUNT, ACCOUNT.key),
            deletion([ACCOUNT.key], OPERATOR.signing),
            deletion([ACCOUNT.key], subject=OPERATOR.signing.key),
            deletion(["x"]),
            deletion([".."]),
            deletion([1]),
            deletion("x"),
            deletion([ACCOUNT.key, KeyPair("U").key]),
            deletion([SYSTEM.key]),
            deletion([ACCOUNT.key, SYSTEM.key]),
        ],
    )
    def test_invalidDeletionsAreRefused(self, broker: Broker, payload: str) -> None:
        """Only the operator can delete accounts, and the system account cannot be deleted."""
        broker.done("$SYS.REQ.CLAIMS.UPDATE", issued())
        broker.refused(self.SUBJECT, payload)
        assert broker.clients.json("$SYS.REQ.CLAIMS.LIST")["data"] == [ACCOUNT.key]

    def test_notAllowed(self, tmp_path: Path) -> None:
        """A request to delete is refused if the settings do not allow it."""
        broker = Broker(tmp_path, Deletion.REFUSED)
        broker.done("$SYS.REQ.CLAIMS.UPDATE", issued())
        broker.refused(self.SUBJECT, deletion([ACCOUNT.key]))
        assert broker.find().token.subject == ACCOUNT.key


def test_close(broker: Broker) -> None:
    """A closed service answers no requests."""
    broker.service.close()
    assert broker.clients.ask("$SYS.REQ.CLAIMS.LIST") == []


class TestCache:
    """A folder that caches the JWTs that were looked up."""

    @pytest.fixture
    def cache(self, tmp_path: Path) -> Broker:
        """A broker with a cache."""
        folder = CachedFolder(str(tmp_path / "jwt"), 0, 0.0, lambda: 1000.0)
        return Broker(folder=folder)

    @pytest.mark.parametrize("subject", [*UPDATES, "$SYS.REQ.CLAIMS.UPDATE"])
    def test_update(self, cache: Broker, subject: str) -> None:
        """A cache stores and uses a pushed JWT of an account in use, and skips others."""
        assert cache.folder is not None
        assert cache.done(subject, issued()) == "jwt update cache skipped"
        assert len(cache.folder.folder) == 0
        cache.folder.folder.save(ACCOUNT.key, issued())
        cache.find()
        assert cache.done(subject, issued(2)) == "jwt updated cache"
        assert cache.find().token.issuedAt == 2
        assert cache.folder.folder[ACCOUNT.key] == issued(2)
        assert cache.refused(subject, "x").startswith("jwt update cache resulted in error")

    def test_notForOthers(self, cache: Broker) -> None:
        """A cache does not answer requests of other brokers."""
        assert cache.clients.ask(f"$SYS.REQ.ACCOUNT.{ACCOUNT.key}.CLAIMS.LOOKUP") == []
        assert cache.clients.ask("$SYS.REQ.CLAIMS.PACK") == []
        assert cache.clients.json("$SYS.REQ.CLAIMS.LIST")["data"] == []
