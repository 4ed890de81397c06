"""
Auth callout in operator mode, with a service of nats-py, on nats-server and on natsbroker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from tests.auth.callout.questions import Curve, Question
from tests.auth.operator.chain import Account, KeyPair, Operator, credentialsFile
from tests.interop.auth.callouts import Decide, Worlds
from tests.interop.auth.peers import Both, Peer
from tests.interop.servers import Server

OPERATOR = Operator()
SYSTEM, AUTH, APP, OTHER, ANY, LIMITED = (Account(OPERATOR) for _ in range(6))
SERVICE, SENTINEL = KeyPair("U"), KeyPair("U")
SCOPED = KeyPair("A")
CURVE = Curve()
NO = "Authorization Violation"

UNLIMITED = {"subs": -1, "data": -1, "payload": -1}
SCOPE = {
    "kind": "user_scope",
    "key": SCOPED.key,
    "template": {**UNLIMITED, "pub": {"allow": ["{{name()}}.>"]}},
}
TEXTS = {
    SYSTEM: SYSTEM.jwt(),
    APP: APP.jwt({"signing_keys": [APP.signing.key, SCOPE]}),
    OTHER: OTHER.jwt(),
    ANY: ANY.jwt({"authorization": {"auth_users": [SERVICE.key], "allowed_accounts": ["*"]}}),
    LIMITED: LIMITED.jwt(limits={"payload": 5}),
}
PASSIVE = {"bearer_token": True, "pub": {"deny": [">"]}, "sub": {"deny": [">"]}}


def config(xkey: str = "") -> str:
    """A configuration whose account AUTH has a callout service."""
    external: dict[str, Any] = {
        "auth_users": [SERVICE.key],
        "allowed_accounts": [APP.key, LIMITED.key],
    }
    if xkey:
        external["xkey"] = xkey
    texts = {**TEXTS, AUTH: AUTH.jwt({"authorization": external})}
    lines = "\n".join(f"{account.key}: {text}" for account, text in texts.items())
    sentinel = AUTH.user(SENTINEL, PASSIVE, name="sentinel")
    return (
        f"operator: {OPERATOR.jwt({'system_account': SYSTEM.key})}\nresolver: MEMORY\n"
        f"resolver_preload {{\n{lines}\n}}\ndefault_sentinel: {sentinel}\n"
        "authorization { timeout: 1 }\n"
    )


def start(factory: pytest.TempPathFactory, text: str, curve: Curve | None = None) -> Worlds:
    """
    Both servers, with services that log in with credentials files.
    """
    directory = factory.mktemp("callout")
    path = directory / "service.creds"
    path.write_text(credentialsFile(AUTH.user(SERVICE), SERVICE))
    return Worlds(Both(directory, text), curve, user_credentials=str(path))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Both servers and services, without sealing."""
    running = start(tmp_path_factory, config())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """
    Both servers and services, with a key for sealing.
    """
    running = start(tmp_path_factory, config(CURVE.key), CURVE)
    yield running
    running.stop()


def placed(
    issuer: KeyPair = APP,
    answerer: KeyPair = AUTH,
    nats: Mapping[str, Any] | None = None,
    answer: Mapping[str, Any] | None = None,
    **claims: Any,
) -> Decide:
    """
    Answers that place the user into an account.

    @param issuer: the issuer of the user JWT.
    @param answerer: the signer of the answer.
    @param answer: further members of the answer.
    """

    def decide(question: Question) -> bytes:
        text = question.user(issuer, nats, **claims)
        return question.response(answerer, {"jwt": text, **(answer or {})})

    return decide


def scoped(question: Question) -> bytes:
    """Answers with a user of a scoped signing key."""
    key = question.nats["user_nkey"]
    user = APP.scopedUser(KeyPair("U"), SCOPED, sub=key, name="bob", iat=int(time.time()))
    return question.response(AUTH, {"jwt": user})


SIGNED = {"issuer_account": APP.key}

ANSWERS: dict[str, tuple[Decide, list[str]]] = {
    "allowed account": (placed(), ["", ""]),
    "own account": (placed(AUTH), ["", ""]),
    "named": (placed(name="robert"), ["", ""]),
    "signing key": (placed(APP.signing, nats=SIGNED), ["", ""]),
    "signing key, account unsaid": (placed(APP.signing), [NO]),
    "limits of the user": (placed(nats={"payload": 1, "subs": 0}), ["", ""]),
    "limits of the account": (placed(LIMITED), ["", "Maximum Payload Violation"]),
    "scoped": (scoped, ["", 'Permissions Violation for Publish to "news"']),
    "scoped with permissions": (placed(SCOPED, nats={**SIGNED, "pub": {"allow": ["a"]}}), [NO]),
    "account not allowed": (placed(OTHER), [NO]),
    "account unknown": (placed(Account(OPERATOR)), [NO]),
    "another's user": (placed(OTHER, nats=SIGNED), [NO]),
    "answer by its signing key": (
        placed(answerer=AUTH.signing, answer={"issuer_account": AUTH.key}),
        ["", ""],
    ),
    "answer by another": (placed(answerer=OTHER), [NO]),
    "answer by the target": (placed(answerer=APP), [NO]),
    "permissions": (
        placed(nats={"pub": {"allow": ["a"]}}),
        ["", 'Permissions Violation for Publish to "news"'],
    ),
    "expired": (placed(exp=int(time.time()) - 5), [NO]),
    "refused": (lambda question: question.response(AUTH, {"error": "no"}), [NO]),
    "nonsense": (lambda question: b"hello", [NO]),
    "silence": (lambda question: None, [NO]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer(worlds: Worlds, name: str) -> None:
    """For every answer of the service, the client is accepted or denied as by nats-server."""
    decide, expected = ANSWERS[name]
    answers = worlds.login(decide, None, b"PUB news 6\r\n123456\r\n")
    assert answers == expected


@pytest.mark.parametrize("isAnswerSealed", [True, False])
@pytest.mark.parametrize("name", ["allowed account", "answer by another", "account not allowed"])
def test_sealed(sealed: Worlds, name: str, isAnswerSealed: bool) -> None:
    """
    With sealed requests the results are the same, and the signer of a sealed answer does not
    matter.
    """
    plain = ANSWERS[name][0]

    def decide(question: Question) -> bytes:
        assert question.sealed
        answer = plain(question) or b""
        return CURVE.seal(answer, question.sender) if isAnswerSealed else answer

    sealed.login(decide)


def test_question(worlds: Worlds) -> None:
    """
    The service receives the same request about a client from both servers, with the default JWT.
    """
    hello = {"user": "bob", "pass": "secret", "name": "n"}
    worlds.login(placed(), hello)
    told = []
    for question in worlds.questions():
        said = question.nats
        assert said["client_info"].pop("id") > 0
        told.append(
            [question.claims["sub"], question.claims["aud"], said["client_info"], question.options]
        )
    theirs, ours = told
    assert ours == theirs
    assert ours[0] == AUTH.key
    assert ours[3]["jwt"].startswith("eyJ")


def test_itsOwn(worlds: Worlds) -> None:
    """The service is not asked about its own users, and they cannot send requests to it."""
    before = worlds.counts()

    def play(server: Server) -> list[str]:
        with closing(Peer(server)) as peer:
            answer = peer.login(AUTH.user(SERVICE), SERVICE)
            return [answer, peer.ask(b"PUB $SYS.REQ.USER.AUTH 0\r\n\r\n")]

    outcomes = worlds.compare(placed(), play)
    assert outcomes == ["", 'Permissions Violation for Publish to "$SYS.REQ.USER.AUTH"']
    assert worlds.counts() == before


def test_notProved(worlds: Worlds) -> None:
    """A JWT without a bearer token must be proved by a signature before the service is asked."""

    def play(server: Server) -> str:
        with closing(Peer(server)) as peer:
            return peer.login(AUTH.user(KeyPair("U")), KeyPair("U"))

    assert worlds.compare(placed(), play) == NO


def test_revoked(worlds: Worlds) -> None:
    """Users that the service has placed into an account can be revoked there."""

    def play(server: Server) -> list[str]:
        with closing(Peer(server)) as peer, closing(Peer(server)) as operator:
            answers = [peer.login(options={"user": "bob"})]
            assert operator.login(SYSTEM.user(SERVICE), SERVICE) == ""
            subject = f"$SYS.REQ.ACCOUNT.{LIMITED.key}.CLAIMS.UPDATE"
            revoked = LIMITED.jwt({"revocations": {"*": int(time.time())}}, limits={"payload": 5})
            operator.request(subject, revoked)
            answers.append(peer.end())
            operator.request(subject, TEXTS[LIMITED])
            return answers

    assert worlds.compare(placed(LIMITED), play) == ["", "User Authentication Revoked"]


def test_accountChanges(worlds: Worlds) -> None:
    """
    When an account's JWT changes, users that the service has placed there stay without a new
    request.
    """

    def play(server: Server) -> list[str]:
        with closing(Peer(server)) as peer, closing(Peer(server)) as operator:
            answers = [peer.login(options={"user": "bob"})]
            assert operator.login(SYSTEM.user(SERVICE), SERVICE) == ""
            subject = f"$SYS.REQ.ACCOUNT.{APP.key}.CLAIMS.UPDATE"
            operator.request(subject, APP.jwt(limits={"payload": 3}))
            answers.append(peer.ask(b"PUB a 4\r\n1234\r\n"))
            operator.request(subject, TEXTS[APP])
            return answers

    before = worlds.counts()
    assert worlds.compare(placed(), play) == ["", "Maximum Payload Violation"]
    assert worlds.counts() == [count + 1 for count in before]
