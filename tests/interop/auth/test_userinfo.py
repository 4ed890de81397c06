"""
Requests to C{$SYS.REQ.USER.INFO}, compared with nats-server: clients get the same information about
themselves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.auth.operator.chain import KeyPair
from tests.interop.auth.operatorconfig import ONE, SYSTEM, USER, memoryConfig
from tests.interop.auth.peers import Both, Peer
from tests.interop.servers import PATIENCE, Server

RULES = '{publish: {allow: [">", "b"], deny: ["x", "w"]}, subscribe: ["_INBOX.>", "foo q"]}'
CONFIG = f"""
accounts {{
    A {{ users: [
        {{user: a, password: pw}}, {{user: p, password: pw, permissions: {RULES}}}
        {{user: r, password: pw, permissions: {{
            publish: "$SYS.>", allow_responses: {{max: 5, expires: "1m"}}
        }}}}
        {{user: d, password: pw, permissions: {{publish: "$SYS.>", allow_responses: true}}}}
    ] }}
    SYS {{ users: [ {{user: s, password: pw}} ] }}
}}
system_account: SYS
"""

#: Logs a peer in.
Login = Callable[[Peer], str]


def told(server: Server, login: Login) -> Any:
    """The answer to a client, with sorted lists."""
    with closing(Peer(server)) as peer:
        assert login(peer) == ""
        answer = json.loads(peer.request("$SYS.REQ.USER.INFO"))
    assert answer["server"]["id"] == peer.info["server_id"]
    for rules in answer["data"].get("permissions", {}).values():
        for entries in rules.values():
            if isinstance(entries, list):
                entries.sort()
    return answer["data"]


def password(user: str) -> Login:
    """
    Log in with a password.
    """
    return lambda peer: peer.login(options={"user": user, "pass": "pw"})


def signed(jwt: str, user: KeyPair = USER) -> Login:
    """
    Log in with a JWT.
    """
    return lambda peer: peer.login(jwt, user)


def test_configuration(tmp_path: Path) -> None:
    """
    Users of the configuration get the same answer. nats-py sends the request, as other clients do.
    """
    both = Both(tmp_path, CONFIG)

    async def play(server: Server) -> Any:
        client = await nats.connect(server.url, user="a", password="pw")
        answer = await client.request("$SYS.REQ.USER.INFO", timeout=PATIENCE)
        await client.close()
        return json.loads(answer.data)["data"]

    try:
        for user in "aprds":
            both.compare(lambda server, user=user: told(server, password(user)))  # type: ignore[misc]
        expected = {"user": "a", "account": "A", "account_name": "A"}
        assert both.compare(lambda server: asyncio.run(play(server))) == expected
    finally:
        both.stop()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """
    Both servers in operator mode.
    """
    running = Both(tmp_path_factory.mktemp("info"), memoryConfig())
    yield running
    running.stop()


@pytest.mark.parametrize(
    "jwt",
    [
        ONE.user(USER),
        ONE.user(USER, {"pub": {"allow": ["a", "$SYS.>"]}}, name="joe"),
        ONE.user(USER, {"sub": {"deny": ["b"]}}, signer=ONE.signing),
        SYSTEM.user(USER),
    ],
    ids=["default permissions", "permissions", "signing key", "system"],
)
def test_operatorMode(both: Both, jwt: str) -> None:
    """Users with JWTs get the same answer."""
    infos = both.compare(lambda server: told(server, signed(jwt)))
    assert infos["user"] == USER.key
