"""
Operator mode, from the configuration to the permissions of clients.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from zope.interface import implementer

from natsbroker.interfaces import IAccountResolver
from natsbroker.runtime.reload import ReloadError
from natsbroker.server.configuration.build import buildText
from natsbroker.streaming import protocol
from natsbroker.testing.memory import MemoryConnection
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, raw, token
from tests.auth.operator.support import OperatorBroker, configOf
from tests.support import Recorder

DENIED = b"-ERR 'Authorization Violation'\r\n"
EXPIRED = b"-ERR 'User Authentication Expired'\r\n"
ACCOUNT_EXPIRED = b"-ERR 'Account Authentication Expired'\r\n"
REVOKED = b"-ERR 'User Authentication Revoked'\r\n"
TOO_MANY = b"-ERR 'maximum account active connections exceeded'\r\n"
PONG = b"PONG\r\n"

OPERATOR = Operator()
ONE, TWO, SYSTEM = Account(OPERATOR), Account(OPERATOR), Account(OPERATOR)
USER = KeyPair("U")


def pub(subject: str, body: bytes, reply: str = "") -> bytes:
    """A PUB operation."""
    return b"PUB %b %d\r\n%b\r\n" % (f"{subject} {reply}".strip().encode(), len(body), body)


class Memory:
    """
    A broker whose JWTs are in its configuration.
    """

    def __init__(self, **texts: Any) -> None:
        self.texts: dict[Account, str] = {ONE: ONE.jwt(), TWO: TWO.jwt(), SYSTEM: SYSTEM.jwt()}
        self.more = ""

    def config(self) -> str:
        """The configuration of the broker."""
        text = configOf(OPERATOR, *self.texts.items(), system_account=SYSTEM.key)
        return text + self.more

    def start(self) -> OperatorBroker:
        """Start the broker."""
        return OperatorBroker(configText=self.config())

    def reload(self, broker: OperatorBroker) -> None:
        """Reload the configuration."""
        settings = buildText(self.config(), {}).settings
        broker.broker.reload(replace(settings, host="127.0.0.1"))


@pytest.fixture
def memory() -> Memory:
    """A configuration with JWTs."""
    return Memory()


@pytest.fixture
def broker(memory: Memory) -> Iterator[OperatorBroker]:
    """A broker whose JWTs are in its configuration."""
    with memory.start() as running:
        yield running


def update(broker: OperatorBroker, account: Account, text: str) -> dict[str, Any]:
    """Update an account's JWT, as an operator does with nsc push."""
    operator, _ = broker.login(SYSTEM.user(USER), USER)
    operator.request(b"SUB _INBOX.x 1\r\n")
    subject = f"$SYS.REQ.ACCOUNT.{account.key}.CLAIMS.UPDATE"
    answer = operator.request(pub(subject, text.encode(), "_INBOX.x"))
    operator.close()
    document: dict[str, Any] = json.loads(answer.split(b"\r\n")[1])
    return document


class TestLogin:
    """Logins."""

    def test_info(self, broker: OperatorBroker) -> None:
        """
        INFO requires a login and has a nonce. After the login INFO has the key of the account.
        """
        connection, answer = broker.login(ONE.user(USER), USER, {"protocol": 1})
        assert connection.info["auth_required"] is True
        assert len(connection.info["nonce"]) == 15
        assert connection.info["xkey"].startswith("X")
        pong, info = answer.split(b"\r\n")[:2]
        assert pong == b"PONG"
        assert json.loads(info[5:])["remote_account"] == ONE.key

    def test_systemAccount(self, broker: OperatorBroker) -> None:
        """The account that the operator names is the system account."""
        _, answer = broker.login(SYSTEM.user(USER), USER, {"protocol": 1})
        assert json.loads(answer.split(b"\r\n")[1][5:])["acc_is_sys"] is True

    @pytest.mark.parametrize(
        "options",
        [
            {"user": "a", "pass": "b"},
            {"auth_token": "x"},
            {},
            {"jwt": ""},
            {"jwt": "x.y.z"},
            {"nkey": USER.key},
        ],
    )
    def test_otherCredentials(self, broker: OperatorBroker, options: dict[str, str]) -> None:
        """Names, passwords, tokens and keys without a valid JWT are denied."""
        connection = broker.connect()
        connection.receive()
        hello = json.dumps(options).encode()
        assert connection.request(b"CONNECT %b\r\nPING\r\n" % hello) == DENIED

    def test_operationBeforeConnect(self, broker: OperatorBroker) -> None:
        """An operation before CONNECT ends the connection."""
        for line in (b"PING\r\n", b"SUB foo 1\r\n", pub("foo", b"x")):
            connection = broker.connect()
            connection.receive()
            assert connection.request(line) == DENIED

    def test_replay(self, broker: OperatorBroker) -> None:
        """A signature for one connection is refused on another."""
        first, answer = broker.login(ONE.user(USER), USER)
        assert answer == PONG
        signed = {"jwt": ONE.user(USER), "sig": "", "verbose": False}
        second = broker.connect()
        second.receive()

        signed["sig"] = raw(USER.sign(first.info["nonce"].encode()))
        assert second.request(b"CONNECT %b\r\n" % json.dumps(signed).encode()) == DENIED

    def test_isolated(self, broker: OperatorBroker) -> None:
        """Users of different accounts do not receive each other's messages."""
        one, _ = broker.login(ONE.user(USER), USER)
        two, _ = broker.login(TWO.user(USER), USER)
        two.request(b"SUB > 1\r\n")
        one.request(pub("foo", b"x"))
        assert two.receive() == b""

    def test_permissions(self, broker: OperatorBroker) -> None:
        """A user has the permissions of its own JWT."""
        nats = {"pub": {"allow": ["a"]}, "sub": {"deny": ["b"]}, "subs": 1}
        user, _ = broker.login(ONE.user(USER, nats), USER)
        assert b"Permissions Violation for Publish" in user.request(pub("b", b"x"))
        assert b"Permissions Violation for Subscription" in user.request(b"SUB b 1\r\n")
        assert user.request(b"SUB c 1\r\n" + pub("a", b"x")) == b""
        assert user.request(b"SUB d 2\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"

    def test_defaultPermissions(self, memory: Memory) -> None:
        """A user without permissions has the default ones of its account."""
        memory.texts[ONE] = ONE.jwt({"default_permissions": {"pub": {"deny": ["a"]}}})
        with memory.start() as broker:
            user, _ = broker.login(ONE.user(USER), USER)
            assert b"Permissions Violation" in user.request(pub("a", b"x"))

    def test_payload(self, memory: Memory) -> None:
        """The payload limit of the account applies, and INFO shows it."""
        memory.texts[ONE] = ONE.jwt(limits={"payload": 5})
        with memory.start() as broker:
            user, answer = broker.login(ONE.user(USER), USER, {"protocol": 1})
            assert b'"max_payload":5,' in answer
            assert user.request(pub("a", b"123456")) == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_connections(self, memory: Memory) -> None:
        """An account accepts as many connections as its JWT allows."""
        memory.texts[ONE] = ONE.jwt(limits={"conn": 2})
        with memory.start() as broker:
            assert [broker.login(ONE.user(USER), USER)[1] for _ in range(3)] == [
                PONG,
                PONG,
                TOO_MANY,
            ]

    def test_expires(self, broker: OperatorBroker) -> None:
        """
        A user whose JWT expires is disconnected with C{User Authentication Expired}, and no other
        user is.
        """
        user, _ = broker.login(ONE.user(USER, exp=10), USER)
        other, _ = broker.login(ONE.user(USER), USER)
        broker.advance(9)
        assert user.closed == ""
        broker.advance(2)
        assert user.receive().endswith(EXPIRED)
        assert (user.closed, other.closed) == ("lost", "")

    def test_sentinel(self, memory: Memory) -> None:
        """A client without a JWT uses the configured default JWT."""
        memory.more = f"default_sentinel: {ONE.user(USER, {'bearer_token': True})}\n"
        with memory.start() as broker:
            connection = broker.connect({"user": "somebody", "verbose": False})
            assert connection.request(b"PING\r\n") == PONG

    def test_pinned(self, memory: Memory) -> None:
        """With pinned accounts, only users of these and of the system account are accepted."""
        memory.more = f"resolver_pinned_accounts: [{ONE.key}]\n"
        with memory.start() as broker:
            answers = [broker.login(account.user(USER), USER)[1] for account in (ONE, SYSTEM, TWO)]
            assert answers == [PONG, PONG, DENIED]


class TestUpdates:
    """JWTs that change while the broker runs."""

    def test_revoked(self, broker: OperatorBroker) -> None:
        """
        A revoked user is disconnected with C{User Authentication Revoked}, and other users are not.
        """
        user, _ = broker.login(ONE.user(USER), USER)
        other, _ = broker.login(ONE.user(USER, iat=1_700_000_001), USER)
        answer = update(broker, ONE, ONE.jwt({"revocations": {USER.key: 1_700_000_000}}))
        assert answer["data"]["message"] == "jwt updated"
        assert answer["server"]["id"] == broker.broker.serverId
        assert (user.receive(), user.closed) == (REVOKED, "lost")
        assert other.closed == ""
        assert broker.login(ONE.user(USER), USER)[1] == DENIED

    def test_everybodyRevoked(self, broker: OperatorBroker) -> None:
        """A revocation of all users disconnects the users of this account, and no others."""
        user, _ = broker.login(ONE.user(USER), USER)
        elsewhere, _ = broker.login(TWO.user(USER), USER)
        update(broker, ONE, ONE.jwt({"revocations": {"*": 1_700_000_000}}))
        assert user.receive() == REVOKED
        assert elsewhere.closed == ""

    def test_signingKeyGone(self, broker: OperatorBroker) -> None:
        """A user is disconnected when the key that signed its JWT is removed."""
        user, _ = broker.login(ONE.user(USER, signer=ONE.signing), USER)
        update(broker, ONE, ONE.jwt({"signing_keys": []}))
        assert user.receive() == DENIED

    def test_templateChanged(self, memory: Memory) -> None:
        """
        A changed template changes the permissions of its users, and ends subscriptions that are
        denied now.
        """
        signer = KeyPair("A")

        def scoped(subject: str) -> str:
            template = {"sub": {"allow": [subject]}}
            scope = {"kind": "user_scope", "key": signer.key, "template": template}
            return ONE.jwt({"signing_keys": [scope]})

        memory.texts[ONE] = scoped("a")
        with memory.start() as broker:
            user, _ = broker.login(ONE.scopedUser(USER, signer), USER)
            assert user.request(b"SUB a 1\r\n") == b""
            update(broker, ONE, scoped("b"))
            ended = b'Permissions Violation for Subscription to "a" (sid "1")'
            assert user.receive() == b"-ERR '" + ended + b"'\r\n"
            assert user.request(b"SUB b 2\r\n") == b""

    def test_bearersForbidden(self, broker: OperatorBroker) -> None:
        """Users with bearer tokens are disconnected when the account forbids such tokens."""
        user, answer = broker.login(ONE.user(USER, {"bearer_token": True}))
        assert answer == PONG
        update(broker, ONE, ONE.jwt(limits={"disallow_bearer": True}))
        assert user.receive() == DENIED

    def test_fewerConnections(self, broker: OperatorBroker) -> None:
        """When an account's connection limit is lowered, the youngest connections are closed."""
        users = []
        for _ in range(3):
            users.append(broker.login(ONE.user(USER), USER)[0])
            broker.advance(0.1)
        update(broker, ONE, ONE.jwt(limits={"conn": 1}))
        assert [user.receive() for user in users] == [b"", TOO_MANY, TOO_MANY]

    def test_limits(self, broker: OperatorBroker) -> None:
        """Changed limits apply at once."""
        user, _ = broker.login(ONE.user(USER), USER)
        update(broker, ONE, ONE.jwt(limits={"payload": 1}))
        assert user.request(pub("a", b"12")) == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_accountExpires(self, memory: Memory) -> None:
        """
        When an account expires, its users are disconnected with C{Account Authentication Expired}.
        """
        memory.texts[ONE] = ONE.jwt(exp=10)
        with memory.start() as broker:
            user, _ = broker.login(ONE.user(USER), USER)
            other, _ = broker.login(TWO.user(USER), USER)
            broker.advance(11)
            assert user.receive().endswith(ACCOUNT_EXPIRED)
            assert (user.closed, other.closed) == ("lost", "")
            assert broker.login(ONE.user(USER), USER)[1] == DENIED
            assert ONE.key not in broker.broker.accounts.names()

    def test_untrusted(self, broker: OperatorBroker) -> None:
        """A JWT of another operator changes nothing."""
        user, _ = broker.login(ONE.user(USER), USER)
        answer = update(broker, ONE, ONE.jwt(signer=Operator(), limits={"conn": 0}))
        assert answer["error"]["code"] == 500
        assert user.closed == ""

    def test_onlySystem(self, broker: OperatorBroker) -> None:
        """Users of other accounts than the system account cannot update JWTs."""
        user, _ = broker.login(ONE.user(USER), USER, {"headers": True, "no_responders": True})
        user.request(b"SUB _INBOX.x 1\r\n")
        subject = f"$SYS.REQ.ACCOUNT.{ONE.key}.CLAIMS.UPDATE"
        answer = user.request(pub(subject, ONE.jwt(limits={"conn": 0}).encode(), "_INBOX.x"))
        assert b"503" in answer
        assert user.closed == ""


class TestExchange:
    """Exports and imports in the JWTs of accounts."""

    def accounts(self, memory: Memory, private: bool, activation: str = "") -> None:
        """Let account TWO import a service and a stream of account ONE."""
        exports = [
            {"subject": "help.*", "type": "service", "token_req": private},
            {"subject": "news.>", "type": "stream", "token_req": private},
        ]
        imports: list[dict[str, Any]] = [
            {"subject": "help.me", "type": "service", "account": ONE.key, "local_subject": "aid"},
            {"subject": "news.>", "type": "stream", "account": ONE.key, "to": "one"},
        ]
        if activation:
            imports[1]["token"] = activation
        memory.texts[ONE] = ONE.jwt({"exports": exports})
        memory.texts[TWO] = TWO.jwt({"imports": imports})

    def activation(self, **claims: Any) -> str:
        """An activation token for the stream."""
        nats = {"subject": "news.>", "kind": "stream"}
        return token(ONE, claimsOf("activation", ONE, TWO.key, nats, **claims))

    def ends(self, broker: OperatorBroker) -> tuple[MemoryConnection, MemoryConnection]:
        """A user of each account, the exporter's first."""
        two, _ = broker.login(TWO.user(USER), USER)
        one, _ = broker.login(ONE.user(USER), USER)
        return one, two

    def test_stream(self, memory: Memory) -> None:
        """Messages of an exported stream reach the importing account under their new subject."""
        self.accounts(memory, False)
        with memory.start() as broker:
            one, two = self.ends(broker)
            two.request(b"SUB one.> 1\r\n")
            one.request(pub("news.a", b"x"))
            assert two.receive() == b"MSG one.news.a 1 1\r\nx\r\n"

    def test_jetstream(self, memory: Memory) -> None:
        """An account with storage limits can use the JetStream of other servers."""
        memory.texts[ONE] = ONE.jwt(limits={"disk_storage": -1})
        with memory.start() as broker:
            user, _ = broker.login(ONE.user(USER), USER)
            system, _ = broker.login(SYSTEM.user(USER), USER)
            system.request(b"SUB $JS.API.> 1\r\n")
            user.request(pub("$JS.API.INFO", b"", "_INBOX.x"))
            assert b"$JS.API.INFO 1 _R_." in system.receive()

    def test_service(self, memory: Memory) -> None:
        """A service of one account answers requests of the other."""
        self.accounts(memory, False)
        with memory.start() as broker:
            one, two = self.ends(broker)
            one.request(b"SUB help.me 1\r\n")
            two.request(b"SUB reply 2\r\n")
            two.request(pub("aid", b"?", "reply"))
            reply = one.receive().split()[3].decode()
            one.request(pub(reply, b"!"))
            assert two.receive() == b"MSG reply 2 1\r\n!\r\n"

    def test_private(self, memory: Memory) -> None:
        """A private export is not imported without an activation token."""
        self.accounts(memory, True)
        with memory.start() as broker:
            one, two = self.ends(broker)
            two.request(b"SUB one.> 1\r\n")
            one.request(pub("news.a", b"x"))
            assert two.receive() == b""

    def test_activated(self, memory: Memory) -> None:
        """A private export is imported with an activation token until this expires."""
        self.accounts(memory, True, self.activation(exp=100))
        with memory.start() as broker:
            one, two = self.ends(broker)
            two.request(b"SUB one.> 1\r\n")
            one.request(pub("news.a", b"x"))
            assert two.receive() == b"MSG one.news.a 1 1\r\nx\r\n"
            broker.advance(101)
            two.receive()
            one.request(pub("news.a", b"x"))
            assert two.receive() == b""

    def test_revokedActivation(self, memory: Memory) -> None:
        """A revoked activation token does not activate an import."""
        self.accounts(memory, True, self.activation(iat=5))
        with memory.start() as broker:
            one, two = self.ends(broker)
            two.request(b"SUB one.> 1\r\n")
            exports = [{"subject": "news.>", "type": "stream", "token_req": True}]
            exports[0]["revocations"] = {TWO.key: 5}
            update(broker, ONE, ONE.jwt({"exports": exports}))
            one.request(pub("news.a", b"x"))
            assert two.receive() == b""

    def test_loadsTheOther(self, memory: Memory) -> None:
        """The exporting account of an import is loaded, although it has no connection here."""
        self.accounts(memory, False)
        with memory.start() as broker:
            broker.login(TWO.user(USER), USER)
            assert ONE.key in broker.broker.accounts.names()

    def test_removed(self, memory: Memory) -> None:
        """Messages of an import stop when it is removed."""
        self.accounts(memory, False)
        with memory.start() as broker:
            one, two = self.ends(broker)
            two.request(b"SUB one.> 1\r\n")
            update(broker, TWO, TWO.jwt())
            one.request(pub("news.a", b"x"))
            assert two.receive() == b""

    def test_nonsenseIsLeftOut(self, memory: Memory) -> None:
        """Malformed imports are omitted, and do not affect other imports."""
        self.accounts(memory, False)
        imports = [
            {"subject": "nothing", "type": "service", "account": ONE.key},
            {"subject": "x", "type": "stream", "account": Account(OPERATOR).key},
            {"subject": "news.>", "type": "stream", "account": ONE.key},
        ]
        memory.texts[TWO] = TWO.jwt(
            {"imports": imports, "mappings": {"a": [], "b": [{"subject": "c"}]}}
        )
        with memory.start() as broker:
            one, two = self.ends(broker)
            two.request(b"SUB news.> 1\r\nSUB c 2\r\n")
            one.request(pub("news.a", b"x"))
            assert two.receive() == b"MSG news.a 1 1\r\nx\r\n"
            assert two.request(pub("b", b"y")) == b"MSG c 2 1\r\ny\r\n"

    def test_cycle(self, memory: Memory) -> None:
        """Two accounts that import each other's service form no loop (CVE-2020-28466)."""
        for mine, other in ((ONE, TWO), (TWO, ONE)):
            memory.texts[mine] = mine.jwt(
                {
                    "exports": [{"subject": "x", "type": "service"}],
                    "imports": [{"subject": "x", "type": "service", "account": other.key}],
                }
            )
        with memory.start() as broker:
            one, two = self.ends(broker)
            one.request(pub("x", b"?", "reply"))
            assert two.request(b"PING\r\n") == PONG


class TestReload:
    """Reloads of the configuration."""

    def test_preload(self, memory: Memory, broker: OperatorBroker) -> None:
        """A reload with changed or removed JWTs affects connected users."""
        one, _ = broker.login(ONE.user(USER), USER)
        two, _ = broker.login(TWO.user(USER), USER)
        three, _ = broker.login(SYSTEM.user(USER), USER)
        del memory.texts[ONE]
        memory.texts[TWO] = TWO.jwt({"revocations": {"*": 1_700_000_000}})
        memory.reload(broker)
        assert (one.closed, two.receive(), three.closed) == ("lost", REVOKED, "")
        assert broker.login(ONE.user(USER), USER)[1] == DENIED

    def test_newAccount(self, memory: Memory, broker: OperatorBroker) -> None:
        """A reload may add accounts."""
        new = Account(OPERATOR)
        assert broker.login(new.user(USER), USER)[1] == DENIED
        memory.texts[new] = new.jwt()
        memory.reload(broker)
        assert broker.login(new.user(USER), USER)[1] == PONG

    def test_serverLimits(self, memory: Memory, broker: OperatorBroker) -> None:
        """Changed limits of the server apply to users with JWTs too."""
        user, _ = broker.login(ONE.user(USER), USER)
        memory.more = "max_payload: 3\n"
        memory.reload(broker)
        assert user.request(pub("a", b"1234")) == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_unchangedConfiguration(self, memory: Memory, broker: OperatorBroker) -> None:
        """A reload without a change affects no client."""
        user, _ = broker.login(ONE.user(USER), USER)
        user.request(b"SUB a 1\r\n")
        memory.reload(broker)
        assert user.request(pub("a", b"x")) == b"MSG a 1 1\r\nx\r\n"

    @pytest.mark.parametrize("text", ["", "operator: {other}\nresolver: MEMORY\n"])
    def test_otherOperators(self, memory: Memory, broker: OperatorBroker, text: str) -> None:
        """A reload that changes the operators is refused, and nothing changes."""
        settings = buildText(text.format(other=Operator().jwt()) + "debug: true", {}).settings
        with pytest.raises(ReloadError, match="not supported"):
            broker.broker.reload(replace(settings, host="127.0.0.1"))
        assert broker.login(ONE.user(USER), USER)[1] == PONG


class TestFolder:
    """JWTs in a folder."""

    @pytest.fixture
    def config(self, tmp_path: Path) -> str:
        """A configuration with a folder and no JWTs."""
        resolver = f"{{ type: full, dir: '{tmp_path}/jwt', allow_delete: true }}"
        return configOf(OPERATOR, resolver=resolver, system_account=SYSTEM.key)

    def test_bootstrap(self, config: str) -> None:
        """
        A broker without any JWT accepts users that the system account's own key signed. JWTs that
        they push take effect at once and after a restart, including the JWT of the system account.
        """
        with OperatorBroker(configText=config) as broker:
            assert broker.login(ONE.user(USER), USER)[1] == DENIED
            assert update(broker, ONE, ONE.jwt())["data"]["code"] == 200
            assert broker.login(ONE.user(USER), USER)[1] == PONG
            assert broker.login(SYSTEM.user(USER, signer=SYSTEM.signing), USER)[1] == DENIED
            assert update(broker, SYSTEM, SYSTEM.jwt())["data"]["code"] == 200
            assert broker.login(SYSTEM.user(USER, signer=SYSTEM.signing), USER)[1] == PONG
        with OperatorBroker(configText=config) as broker:
            assert broker.login(ONE.user(USER), USER)[1] == PONG
            assert broker.login(SYSTEM.user(USER, signer=SYSTEM.signing), USER)[1] == PONG

    def test_systemAccountFoundLater(self, config: str, tmp_path: Path) -> None:
        """The system account's JWT is fetched again until it is found."""
        with OperatorBroker(configText=config) as broker:
            user, _ = broker.login(SYSTEM.user(USER), USER)
            (tmp_path / "jwt" / f"{SYSTEM.key}.jwt").write_text(SYSTEM.jwt(limits={"payload": 1}))
            broker.broker.reload(broker.broker.settings)
            broker.advance(2)
            assert user.request(pub("a", b"12")) == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_deleted(self, config: str) -> None:
        """The users of a deleted account are disconnected."""
        with OperatorBroker(configText=config) as broker:
            update(broker, ONE, ONE.jwt())
            user, _ = broker.login(ONE.user(USER), USER)
            operator, _ = broker.login(SYSTEM.user(USER), USER)
            body = {"jti": "x", "iat": 1, "iss": OPERATOR.key, "sub": OPERATOR.key}
            text = token(OPERATOR, {**body, "nats": {"accounts": [ONE.key], "version": 2}})
            operator.request(b"SUB _INBOX.x 1\r\n")
            answer = operator.request(pub("$SYS.REQ.CLAIMS.DELETE", text.encode(), "_INBOX.x"))
            assert b"deleted 1 accounts" in answer
            assert user.closed == "lost"
            assert broker.login(ONE.user(USER), USER)[1] == DENIED

    def test_changedFiles(self, config: str, tmp_path: Path) -> None:
        """A reload reads files that other programs changed."""
        with OperatorBroker(configText=config) as broker:
            update(broker, ONE, ONE.jwt())
            user, _ = broker.login(ONE.user(USER), USER)
            (tmp_path / "jwt" / f"{ONE.key}.jwt").unlink()
            broker.broker.reload(broker.broker.settings)
            assert user.closed == "lost"

    def test_preload(self, config: str, tmp_path: Path) -> None:
        """JWTs of the configuration are stored in the folder, unless it has newer ones."""
        old, new = ONE.jwt(iat=1), ONE.jwt(iat=2)
        file = tmp_path / "jwt" / f"{ONE.key}.jwt"
        for text, expected in ((new, new), (old, new)):
            preload = f"resolver_preload {{ {ONE.key}: {text} }}\n"
            with OperatorBroker(configText=config + preload):
                assert file.read_text() == expected


def test_folderThatCannotBe(tmp_path: Path) -> None:
    """A folder that cannot be created is reported before any listener opens."""
    (tmp_path / "file").touch()
    resolver = f"{{ type: full, dir: '{tmp_path}/file' }}"
    with pytest.raises(ValueError, match="resolver: dir"):
        OperatorBroker(configText=configOf(OPERATOR, resolver=resolver, system_account=SYSTEM.key))


class TestServices:
    """Services of the broker in accounts of operators."""

    def test_bus(self, memory: Memory) -> None:
        """
        A service has an account before its first user connects, and receives its users' messages.
        """
        with memory.start() as broker:
            heard = Recorder()
            broker.bus(ONE.key).subscribe(b"news", heard)
            user, _ = broker.login(ONE.user(USER), USER)
            user.request(pub("news", b"x"))
            assert heard.bodies == [b"x"]

    def test_serviceStays(self, memory: Memory) -> None:
        """
        When an account expires, its users are disconnected. A service in the account keeps its
        subscription until the account is valid again.
        """
        memory.texts[ONE] = ONE.jwt(exp=10)
        with memory.start() as broker:
            heard = Recorder()
            broker.bus(ONE.key).subscribe(b"news", heard)
            user, _ = broker.login(ONE.user(USER), USER)
            broker.advance(11)
            assert user.closed == "lost"
            assert broker.login(ONE.user(USER), USER)[1] == DENIED
            memory.texts[ONE] = ONE.jwt()
            memory.reload(broker)
            broker.advance(2)
            user, answer = broker.login(ONE.user(USER), USER)
            assert answer == PONG
            user.request(pub("news", b"x"))
            assert heard.bodies == [b"x"]

    def test_streaming(self, memory: Memory) -> None:
        """NATS Streaming serves the clients of its account."""
        memory.more = f"streaming {{ account: {ONE.key}, store: memory, cluster_id: c }}\n"
        with memory.start() as broker:
            for account, expected in ((ONE, b"MSG _INBOX.a 1 "), (TWO, b"")):
                user, _ = broker.login(account.user(USER), USER)
                user.request(b"SUB _INBOX.a 1\r\nSUB hb 2\r\n")
                asked = protocol.ConnectRequest(clientID="me", heartbeatInbox="hb")
                user.send(pub("_STAN.discover.c", asked.SerializeToString(), "_INBOX.a"))
                broker.advance(0.1)
                assert user.receive().startswith(expected)

    def test_unknownAccount(self, memory: Memory) -> None:
        """A name that is not the key of an account is unknown."""
        with memory.start() as broker, pytest.raises(KeyError):
            broker.bus("A")


@implementer(IAccountResolver)
class Table:
    """A resolver of the embedding program."""

    def __init__(self) -> None:
        self.texts = {ONE.key: ONE.jwt(), SYSTEM.key: SYSTEM.jwt()}

    def fetch(self, account: str) -> str:
        """The JWT of an account, or an error."""
        return self.texts[account]


class TestGivenResolver:
    """An account resolver that the embedding program gives to the broker."""

    def test_replacesTheSetting(self) -> None:
        """A resolver object replaces the resolver of the configuration."""
        config = f"operator: {OPERATOR.jwt()}\nsystem_account: {SYSTEM.key}\n"
        with pytest.raises(ValueError, match="require an account resolver"):
            OperatorBroker(configText=config)
        with OperatorBroker(configText=config, accountResolver=Table()) as broker:
            assert broker.login(ONE.user(USER), USER)[1] == PONG
            assert broker.login(TWO.user(USER), USER)[1] == DENIED

    def test_reload(self) -> None:
        """
        A reload works without a resolver in the settings, and fetches the accounts in use again.
        """
        config, table = f"operator: {OPERATOR.jwt()}\nsystem_account: {SYSTEM.key}\n", Table()
        with OperatorBroker(configText=config, accountResolver=table) as broker:
            user, _ = broker.login(ONE.user(USER), USER)
            table.texts[ONE.key] = ONE.jwt({"revocations": {"*": 1_700_000_000}})
            settings = buildText(config, {}).settings
            broker.broker.reload(replace(settings, host="127.0.0.1"))
            assert user.receive() == REVOKED
