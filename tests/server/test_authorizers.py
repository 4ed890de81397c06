"""
The authorizer of clients: the first of several candidates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from natsbroker.auth.callout.authorizer import CalloutAuthorizer
from natsbroker.auth.defaultauthorizer import SettingsAuthorizer
from natsbroker.config.model import Settings
from natsbroker.server.authorizers import AuthorizerSelection
from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from tests.auth.callout.questions import Question
from tests.auth.operator.chain import Account, Operator
from tests.server.support import logLines, settingsOf
from tests.support import Doorkeeper

ISSUER = Account(Operator())
CONFIG = f"""
accounts {{
    AUTH {{ users: [ {{user: auth, password: pw}} ] }}
    APP {{ users: [ {{user: app, password: pw}} ], limits {{ max_payload: 5 }} }}
}}
authorization {{ timeout: 2, auth_callout {{
    issuer: {ISSUER.key}, account: AUTH, auth_users: [auth]
}} }}
"""
DENIED = b"-ERR 'Authorization Violation'\r\n"


def letIn(question: Question) -> bytes:
    """An answer of the callout service that admits a client to the account APP."""
    return question.response(ISSUER, {"jwt": question.user(ISSUER, aud="APP", iat=1)}, iat=1)


def login(broker: MemoryBroker, user: str, password: str = "pw") -> MemoryConnection:
    """Connect with a user and a password."""
    return broker.connect({"verbose": False, "headers": True, "user": user, "pass": password})


class Service:
    """
    A service that is a client.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self._client = login(broker, "auth")
        self._client.request(b"SUB $SYS.REQ.USER.AUTH 1\r\n")

    def answer(self, decide: Callable[[Question], bytes] = letIn) -> Question:
        """
        Read a question and answer it.
        """
        line, _, rest = self._client.receive().partition(b"\r\n")
        _, subject, _, reply, size = line.split()
        assert subject == b"$SYS.REQ.USER.AUTH"
        assert reply.startswith(b"$SYS._INBOX.")
        question = Question(rest[: int(size)], {}, None)
        body = decide(question)
        assert self._client.request(b"PUB %b %d\r\n%b\r\n" % (reply, len(body), body)) == b""
        return question


def test_withoutCallout() -> None:
    """Without a callout service, no request is made."""
    with MemoryBroker(settingsOf("port: 4222")) as broker:
        assert isinstance(broker.broker.clientContext.authorizer, SettingsAuthorizer)
    with MemoryBroker(configText=CONFIG) as broker:
        assert isinstance(broker.broker.clientContext.authorizer, CalloutAuthorizer)


def test_letIn() -> None:
    """
    A client waits until the callout service answers, and gets the account and limits of the answer.
    """
    with MemoryBroker(configText=CONFIG) as broker:
        service = Service(broker)
        client = login(broker, "bob", "secret")
        assert client.request(b"PING\r\n") == b""
        question = service.answer()
        assert client.receive() == b"PONG\r\n"
        assert question.options["pass"] == "secret"
        assert question.nats["client_info"]["id"] == client.info["client_id"]
        assert question.nats["server_id"]["id"] == broker.broker.serverId
        app = broker.bus("APP")
        assert app.account == "APP"
        assert client.request(b"PUB a 6\r\n123456\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"


def test_deniedByTheService() -> None:
    """A login can be denied by the service."""
    with MemoryBroker(configText=CONFIG) as broker:
        service = Service(broker)
        client = login(broker, "bob")
        service.answer(lambda question: question.response(ISSUER, {"error": "no"}, iat=1))
        assert (client.receive(), client.closed) == (DENIED, "lost")


def test_timeout() -> None:
    """If the callout service does not answer in time, the client is refused."""
    with MemoryBroker(configText=CONFIG) as broker:
        Service(broker)
        client = login(broker, "bob")
        broker.advance(1.9)
        assert client.closed == ""
        broker.advance(0.2)
        assert (client.receive(), client.closed) == (DENIED, "lost")


def test_reload() -> None:
    """
    A reload asks the callout service again about all clients except itself. A client that it denies
    is closed.
    """
    with MemoryBroker(configText=CONFIG) as broker:
        service = Service(broker)
        clients = []
        for _ in range(2):
            clients.append(login(broker, "bob"))
            service.answer()
            assert clients[-1].request(b"PING\r\n") == b"PONG\r\n"
        changed = CONFIG + "max_payload: 4k\n"
        broker.broker.reload(settingsOf(changed + 'listen: "127.0.0.1:4222"'))
        raw = service._client.receive().split(b"MSG $SYS.REQ.USER.AUTH")[1:]
        for part, decide in zip(raw, (letIn, refuse), strict=True):
            line, _, rest = part.partition(b"\r\n")
            question = Question(rest[: int(line.split()[-1])], {}, None)
            body = decide(question)
            service._client.request(b"PUB %b %d\r\n%b\r\n" % (line.split()[1], len(body), body))
        assert clients[0].request(b"PING\r\n") == b"PONG\r\n"
        assert (clients[1].receive(), clients[1].closed) == (DENIED, "lost")


def refuse(question: Question) -> bytes:
    """An answer of the callout service that refuses a client."""
    return question.response(ISSUER, {"error": "no"}, iat=1)


def test_info() -> None:
    """With a callout service, INFO requires a login even if there is a default user."""
    with MemoryBroker(configText=CONFIG) as broker:
        info = json.loads(broker.connect().receive()[5:])
        assert info["auth_required"] is True


def test_log() -> None:
    """An account and users that do not exist are reported at the start."""
    text = CONFIG.replace(
        "account: AUTH, auth_users: [auth]", "account: NOWHERE, auth_users: [nobody]"
    )
    with logLines() as lines, MemoryBroker(configText=text):
        pass
    assert '[ERR] Authorization callout account "NOWHERE" not valid' in lines
    assert '[ERR] Authorization callout user "nobody" not valid' in lines


class Operators:
    """
    The service of operator mode.
    """

    def __init__(self) -> None:
        self.authorizer = Doorkeeper()
        self.required: list[str] = []

    def nameOf(self, account: str) -> str:
        return account.title()

    def require(self, account: str) -> None:
        self.required.append(account)


def authority(operators: Any = None) -> AuthorizerSelection:
    """A selection of authorizers for operator mode or settings."""
    unused: Any = None
    return AuthorizerSelection(unused, unused, operators)


def test_settings() -> None:
    """By default, the users of the settings decide."""
    made = authority()
    assert isinstance(made.choose(Settings(), None), SettingsAuthorizer)
    assert (made.chosen, made.nameOf("a")) == (None, "a")
    made.require("a")


def test_operator() -> None:
    """In operator mode, JWTs decide instead of the settings, and define the accounts."""
    operators: Any = Operators()
    made = authority(operators)
    assert made.choose(Settings(), None) is made.chosen is operators.authorizer
    made.require("a")
    assert (made.nameOf("a"), operators.required) == ("A", ["a"])


@pytest.mark.parametrize("operators", [None, Operators()], ids=["settings", "operator"])
def test_givenAuthorizer(operators: Operators | None) -> None:
    """An authorizer that is passed in precedes the operator's and that of the settings."""
    given: Any = Doorkeeper()
    made = authority(operators)
    assert made.choose(Settings(), given) is made.chosen is given


def test_noAuthorizer() -> None:
    """An object that is no authorizer is refused at once."""
    odd: Any = object()
    with pytest.raises(TypeError, match=r"object of object provides no I"):
        authority().choose(Settings(), odd)
