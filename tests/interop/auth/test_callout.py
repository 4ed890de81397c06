"""
Auth callout with a service written with nats-py: with the same answers, nats-server and natsbroker
make the same decisions and send the same requests.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.auth.callout.questions import Curve, Question
from tests.auth.operator.chain import Account, KeyPair, Operator, claimsOf, token
from tests.interop.auth.callouts import Decide, Worlds
from tests.interop.auth.peers import Both, Peer
from tests.interop.certificates import writeCertificates
from tests.interop.servers import PATIENCE, Server

ISSUER, OTHER = Account(Operator()), Account(Operator())
CURVE = Curve()
LOGIN: dict[str, Any] = {"user": "auth", "password": "pw"}
NO = "Authorization Violation"

CONFIG = f"""
accounts {{
    AUTH {{ users: [ {{user: auth, password: pw}}, {{user: member, password: pw}} ] }}
    APP {{ users: [ {{user: app, password: pw}} ] }}
    FULL {{ limits {{ max_conn: 0 }} }}
    SYS {{}}
}}
system_account: SYS
authorization {{ timeout: 1, auth_callout {{
    issuer: {ISSUER.key}, account: AUTH, auth_users: [auth] %s
}} }}
"""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Both servers and services, without sealing."""
    running = Worlds(Both(tmp_path_factory.mktemp("callout"), CONFIG % ""), None, **LOGIN)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """
    Both servers and services, with a key for sealing.
    """
    directory = tmp_path_factory.mktemp("sealed")
    running = Worlds(Both(directory, CONFIG % f", xkey: {CURVE.key}"), CURVE, **LOGIN)
    yield running
    running.stop()


def placed(question: Question, nats: Mapping[str, Any] | None = None, **claims: Any) -> bytes:
    """An answer that places the user into account APP."""
    user = question.user(ISSUER, nats, **{"aud": "APP", **claims})
    return question.response(ISSUER, {"jwt": user})


def user(**nats: Any) -> Decide:
    """Answers with these claims of NATS in the user JWT."""
    return lambda question: placed(question, nats)


def claims(**more: Any) -> Decide:
    """Answers with these claims in the user JWT."""
    return lambda question: placed(question, None, **more)


def response(**more: Any) -> Decide:
    """Answers with these claims besides the user JWT."""
    return lambda question: question.response(
        ISSUER, {"jwt": question.user(ISSUER, aud="APP")}, **more
    )


def said(**nats: Any) -> Decide:
    """Answers without a user JWT."""
    return lambda question: question.response(ISSUER, nats)


def elsewhere(question: Question) -> bytes:
    """A user JWT for another key than the one of the request."""
    body = {"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
    text = token(ISSUER, claimsOf("user", ISSUER, KeyPair("U").key, body, aud="APP"))
    return question.response(ISSUER, {"jwt": text})


def hours(start: int, end: int) -> dict[str, Any]:
    """A time of day, some hours from now."""
    now = time.time()
    texts = [time.strftime("%H:%M:%S", time.gmtime(now + offset * 3600)) for offset in (start, end)]
    return {"times": [{"start": texts[0], "end": texts[1]}], "times_location": "UTC"}


SOON = 500

ANSWERS: dict[str, tuple[Decide, str]] = {
    "place": (placed, ""),
    "name": (claims(name="robert"), ""),
    "bearer": (user(bearer_token=True), ""),
    "no limits": (user(subs=0, data=0, payload=0), ""),
    "other network": (user(src=["10.0.0.0/8"]), ""),
    "other type": (user(allowed_connection_types=["WEBSOCKET"]), ""),
    "unknown type": (user(allowed_connection_types=["SMOKE"]), NO),
    "right time": (user(**hours(-2, 2)), ""),
    "wrong time": (user(**hours(2, 4)), NO),
    "global account": (claims(aud="$G"), ""),
    "system account": (claims(aud="SYS"), ""),
    "full account": (claims(aud="FULL"), "maximum account active connections exceeded"),
    "no account": (claims(aud=""), NO),
    "unknown account": (claims(aud="NOPE"), NO),
    "issuer account": (user(issuer_account=ISSUER.key), NO),
    "bad permissions": (user(pub={"allow": ["a b"]}), NO),
    "expired user": (claims(exp=int(time.time()) - 5), NO),
    "user to come": (claims(nbf=int(time.time()) + SOON), NO),
    "another user": (elsewhere, NO),
    "user of another issuer": (
        lambda question: question.response(ISSUER, {"jwt": question.user(OTHER, aud="APP")}),
        NO,
    ),
    "another signer": (
        lambda question: question.response(OTHER, {"jwt": question.user(ISSUER, aud="APP")}),
        NO,
    ),
    "for another user": (response(sub=KeyPair("U").key), NO),
    "for another server": (response(aud=KeyPair("N").key), NO),
    "for nobody": (response(aud=""), NO),
    "expired": (response(exp=5), NO),
    "to come": (response(nbf=int(time.time()) + SOON), NO),
    "error": (said(error="go away"), NO),
    "both": (lambda question: question.response(ISSUER, {"error": "x", "jwt": "y"}), NO),
    "neither": (said(), NO),
    "empty": (lambda question: b"", NO),
    "nonsense": (lambda question: b"hello", NO),
    "nonsense inside": (said(jwt="hello"), NO),
    "only a user": (lambda question: question.user(ISSUER, aud="APP").encode(), NO),
    "silence": (lambda question: None, NO),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer(worlds: Worlds, name: str) -> None:
    """For every answer of the service, the client is accepted or denied as by nats-server."""
    decide, expected = ANSWERS[name]
    assert worlds.login(decide) == [expected]


@pytest.mark.parametrize("isAnswerSealed", [True, False])
@pytest.mark.parametrize("name", ["place", "error", "another signer", "another user", "nonsense"])
def test_sealedAnswer(sealed: Worlds, name: str, isAnswerSealed: bool) -> None:
    """With sealed requests the results are the same, whether or not the answers are sealed."""
    plain = ANSWERS[name][0]

    def decide(question: Question) -> bytes:
        assert question.sealed and question.headers["Nats-Server-Xkey"] == question.sender
        answer = plain(question) or b""
        return CURVE.seal(answer, question.sender) if isAnswerSealed else answer

    sealed.login(decide)
    assert all(
        question.nats["server_id"]["xkey"] == question.sender for question in sealed.questions()
    )


def test_sealedByAnother(sealed: Worlds) -> None:
    """An answer that was sealed with another key denies the login."""
    assert sealed.login(lambda question: Curve().seal(placed(question), question.sender)) == [NO]


def test_permissions(worlds: Worlds) -> None:
    """The permissions of the user JWT apply, and its limits do not."""
    decide = user(pub={"allow": ["a"]}, sub={"deny": ["b"]}, subs=1, payload=1)
    asks = (b"PUB a 2\r\nxx\r\n", b"PUB b 0\r\n\r\n", b"SUB b 1\r\n", b"SUB c 2\r\nSUB d 3\r\n")
    answers = worlds.login(decide, None, *asks)
    assert answers[:2] == ["", ""] and answers[4] == ""
    assert "Publish" in answers[2] and "Subscription" in answers[3]


def test_nobodyElseAsks(worlds: Worlds) -> None:
    """
    No user of the service's account can send requests to the service, not even the service itself.
    """
    ask = b"PUB $SYS.REQ.USER.AUTH 0\r\n\r\n"
    own = {"user": "auth", "pass": "pw"}
    expected = ["", 'Permissions Violation for Publish to "$SYS.REQ.USER.AUTH"']
    assert worlds.login(claims(aud="AUTH"), None, ask) == expected
    assert worlds.login(said(error="no"), own, ask) == expected


def test_expires(worlds: Worlds) -> None:
    """A user is disconnected with an error when its JWT expires."""

    def play(server: Server) -> tuple[str, str]:
        with closing(Peer(server)) as peer:
            return peer.login(options={"user": "bob"}), peer.end()

    expires = int(time.time()) + 2
    outcomes = worlds.compare(claims(exp=expires + 1), play)
    assert outcomes == ("", "User Authentication Expired")


class TestWhoIsAskedAbout:
    """The users about which the service decides."""

    def test_members(self, worlds: Worlds) -> None:
        """The service decides about users of the configuration too."""
        for name in ("app", "member"):
            hello = {"user": name, "pass": "pw"}
            before = worlds.counts()
            assert worlds.login(placed, hello) == [""]
            assert worlds.login(said(error="no"), hello) == [NO]
            assert worlds.counts() == [count + 2 for count in before]

    def test_itsOwn(self, worlds: Worlds) -> None:
        """The service is not asked about its own users."""
        before = worlds.counts()
        assert worlds.login(said(error="no"), {"user": "auth", "pass": "pw"}) == [""]
        assert worlds.login(placed, {"user": "auth", "pass": "wrong"}) == [NO]
        assert worlds.counts() == before


@pytest.mark.parametrize(
    "options",
    [
        {"user": "bob", "pass": "secret"},
        {},
        {"auth_token": "t"},
        {"nkey": ISSUER.key, "sig": "xx"},
        {"jwt": "abc"},
        {"user": "u", "name": "n", "lang": "python3", "version": "2.1", "protocol": 0, "x": 1},
    ],
)
def test_question(worlds: Worlds, options: dict[str, Any]) -> None:
    """The service receives the same request about a client from both servers."""
    assert worlds.login(placed, options) == [""]
    theirs, ours = (told(question) for question in worlds.questions())
    assert ours == theirs


def told(question: Question) -> dict[str, Any]:
    """A request without the values that differ between servers and connections."""
    assert question.headers == {}
    said = dict(question.claims)
    server = said["nats"]["server_id"]
    assert said["iss"] == server["id"] == server["name"]
    assert said["exp"] - said["iat"] == 1
    assert said["nats"]["client_info"].pop("id") > 0
    for name in ("jti", "iat", "exp", "iss"):
        del said[name]
    assert re.fullmatch("U[A-Z2-7]{55}", said["nats"].pop("user_nkey"))
    del server["id"], server["name"]
    return said


def test_natsPy(worlds: Worlds) -> None:
    """nats-py logs in through the service, and exchanges messages."""

    def decide(question: Question) -> bytes:
        isRight = question.options.get("pass") == "secret"
        return placed(question) if isRight else question.response(ISSUER, {"error": "wrong"})

    async def connected(server: Server, password: str) -> str:
        async def ignore(error: Exception) -> None:
            """Ignore an event that the test detects in another way."""

        client = await nats.connect(
            server.url, user="bob", password=password, allow_reconnect=False, error_cb=ignore
        )
        heard = await client.subscribe("news")
        await client.publish("news", b"hi")
        message = await heard.next_msg(PATIENCE)
        await client.close()
        return message.data.decode()

    def play(server: Server) -> tuple[str, str]:
        right = asyncio.run(connected(server, "secret"))
        with pytest.raises(nats.errors.Error) as refused:
            asyncio.run(connected(server, "wrong"))
        return right, str(refused.value)

    assert worlds.compare(decide, play)[0] == "hi"


def test_certificates(tmp_path: Path) -> None:
    """The service receives the TLS facts of a connection and the certificates of the client."""
    writeCertificates(tmp_path)
    files = ", ".join(
        f'{key}: "{tmp_path}/{name}.pem"'
        for key, name in (("cert_file", "server"), ("key_file", "server-key"), ("ca_file", "ca"))
    )
    both = Both(tmp_path, CONFIG % "" + f"\ntls {{ {files}, verify: true }}\n")
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # where both choose the same cipher
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    context.load_cert_chain(tmp_path / "client.pem", tmp_path / "client-key.pem")

    async def login(server: Server) -> None:
        client = await nats.connect(server.url, user="bob", tls=context, allow_reconnect=False)
        await client.close()

    running = Worlds(both, None, **LOGIN, tls=context)
    try:
        running.compare(placed, lambda server: asyncio.run(login(server)))
        theirs, ours = (question.nats["client_tls"] for question in running.questions())
        assert ours == theirs
        assert len(ours["verified_chains"][0]) == 2
    finally:
        running.stop()


def test_allowedAccounts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The service does not decide about users of accounts that are not listed."""
    both = Both(tmp_path_factory.mktemp("allowed"), CONFIG % ", allowed_accounts: [AUTH]")
    running = Worlds(both, None, **LOGIN)
    try:
        assert running.login(said(error="no"), {"user": "app", "pass": "pw"}) == [""]
        assert running.login(said(error="no"), {"user": "app", "pass": "x"}) == [NO]
        assert running.login(said(error="no"), {"user": "member", "pass": "pw"}) == [NO]
        assert running.login(placed) == [""]
    finally:
        running.stop()


def test_nobodyThere(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a running service, only its own users are accepted."""
    both = Both(tmp_path_factory.mktemp("alone"), CONFIG % "")

    def play(server: Server) -> list[str]:
        answers = []
        for name in ("auth", "app", "bob"):
            with closing(Peer(server)) as peer:
                answers.append(peer.login(options={"user": name, "pass": "pw"}))
        return answers

    try:
        assert both.compare(play) == ["", NO, NO]
    finally:
        both.stop()


def test_reload(tmp_path: Path) -> None:
    """
    When users change at a reload, the service is asked again about every user, and denied users are
    disconnected. nats-server disconnects every user that the service accepted, and asks when they
    reconnect.
    """
    running = Worlds(Both(tmp_path, CONFIG % ""), None, **LOGIN)

    def play(server: Server) -> list[str]:
        with closing(Peer(server)) as kept, closing(Peer(server)) as cut:
            answers = [
                peer.login(options={"user": name}) for peer, name in ((kept, "a"), (cut, "b"))
            ]
            server.writeConfig((CONFIG % "").replace("user: app", "user: other"))
            server.signal("HUP")
            server.waitForLog("Reloaded server configuration")
            return [*answers, cut.end(), kept.ask(b"")]

    asked: dict[str, set[str]] = {}

    def decide(question: Question) -> bytes:
        names = asked.setdefault(question.nats["server_id"]["id"], set())
        name = question.options["user"]
        if name == "b" and name in names:
            return question.response(ISSUER, {"error": "not any more"})
        names.add(name)
        return placed(question)

    try:
        for service in running.services:
            service.decide = decide
        answers = [play(server) for server in running.both.servers]
        assert answers == [["", "", "", "closed"], ["", "", NO, ""]]
    finally:
        running.stop()
