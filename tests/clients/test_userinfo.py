"""
Tests of L{natsbroker.clients.userinfo}, in a whole broker.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from natsbroker.wire.values import Message
from tests.auth.operator.chain import Account, KeyPair, Operator
from tests.auth.operator.support import OperatorBroker, configOf
from tests.server.support import settingsOf
from tests.support import Recorder, WatchRecorder

RULES = (
    '{publish: {allow: [">", "b"], deny: [x]}, subscribe: ["_INBOX.>", "foo q"], '
    'allow_responses: {max: 5, expires: "1m"}}'
)
CONFIG = f"""
server_name: one
accounts {{
    A {{ users: [
        {{user: a, password: pw}}, {{user: p, password: pw, permissions: {RULES}}}
        {{user: s, password: pw, permissions: {{subscribe: {{deny: [y]}}}}}}
    ] }}
    SYS {{ users: [ {{user: admin, password: pw}} ] }}
}}
system_account: SYS
"""

OPERATOR = Operator()
ONE, SYSTEM = Account(OPERATOR), Account(OPERATOR)
USER = KeyPair("U")


def asked(client: MemoryConnection) -> dict[str, Any]:
    """The answer to a client's request for its user info."""
    answer = client.request(b"SUB _INBOX.a 1\r\nPUB $SYS.REQ.USER.INFO _INBOX.a 0\r\n\r\n")
    document: dict[str, Any] = json.loads(answer.split(b"\r\n")[-2])
    return document


def login(broker: MemoryBroker, user: str) -> MemoryConnection:
    """
    Log in with a password.
    """
    return broker.connect({"verbose": False, "user": user, "pass": "pw"})


@pytest.mark.parametrize(
    ("user", "account", "permissions"),
    [
        ("a", "A", None),
        ("admin", "SYS", None),
        (
            "p",
            "A",
            {
                "publish": {"allow": [">", "b"], "deny": ["x"]},
                "subscribe": {"allow": ["_INBOX.>", "foo q"]},
                "responses": {"max": 5, "ttl": 60_000_000_000},
            },
        ),
        ("s", "A", {"publish": {}, "subscribe": {"deny": ["y"]}}),
    ],
)
def test_told(user: str, account: str, permissions: Any) -> None:
    """Each client can request its own user, account and permissions."""
    with MemoryBroker(configText=CONFIG) as broker:
        info = asked(login(broker, user))
    expected = {"user": user, "account": account, "account_name": account}
    if permissions is not None:
        expected["permissions"] = permissions
    assert info["data"] == expected
    assert info["server"]["name"] == "one"


def test_operatorMode() -> None:
    """A user with a JWT gets the names in its JWTs, and the expiry of its own one."""
    text = configOf(
        OPERATOR, (ONE, ONE.jwt(name="first")), (SYSTEM, SYSTEM.jwt()), system_account=SYSTEM.key
    )
    with OperatorBroker(configText=text) as broker:
        jwt = ONE.user(USER, name="joe", exp=100)
        client, _ = broker.login(jwt, USER)
        broker.advance(10.5)
        info = asked(client)["data"]
    assert info == {
        "user": USER.key,
        "account": ONE.key,
        "account_name": "first",
        "user_name": "joe",
        "expires": 89_000_000_000,
    }


def test_noSystemAccount() -> None:
    """A request for user info has no answer without a system account."""
    with MemoryBroker(configText="no_system_account: true") as broker:
        client = broker.connect({"verbose": False})
        assert client.request(b"SUB a 1\r\nPUB $SYS.REQ.USER.INFO a 0\r\n\r\n") == b""


def test_notAClient() -> None:
    """A request for user info is answered only to clients."""
    with MemoryBroker(configText=CONFIG) as broker:
        bus, heard = broker.bus("A"), Recorder()
        bus.subscribe(b"inbox", heard)
        bus.publish(Message(b"$SYS.REQ.USER.INFO", b"", b"inbox"))
        broker.advance(0)
        assert heard.bodies == []


def test_interestIsLocal() -> None:
    """
    Other brokers do not learn of the interest in user info, because each broker answers its own
    clients.
    """
    with MemoryBroker(configText=CONFIG) as broker:
        watcher = WatchRecorder()
        broker.bus("A").watchInterest(watcher)
        client = login(broker, "a")
        client.request(b"SUB x 1\r\n")
        assert watcher.taken() == [("+", b"x", b"", 1)]


def test_newAccount() -> None:
    """Requests for user info work in accounts that a reload adds."""
    with MemoryBroker(configText=CONFIG) as broker:
        more = CONFIG.replace("SYS {", "B { users: [ {user: b, password: pw} ] }\n    SYS {", 1)
        broker.broker.reload(settingsOf(more + '\nlisten: "127.0.0.1:4222"'))
        assert asked(login(broker, "b"))["data"]["account"] == "B"
