"""Accounts from JWTs at several workers, which share the resolver's folder."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from natsbroker.testing.process import BrokerProcess
from tests.auth.operator.chain import Account, KeyPair, Operator, token
from tests.interop.workers.support import Client, Workers, served, until

OPERATOR = Operator()
SYSTEM, ACCOUNT = Account(OPERATOR), Account(OPERATOR)
USER = KeyPair("U")

CONFIG = f"""
operator: {OPERATOR.jwt({"system_account": SYSTEM.key})}
resolver {{ type: full, dir: "DIR", allow_delete: true }}
"""


async def loggedIn(workers: Workers[BrokerProcess], account: Account) -> Client:
    def signed(nonce: str) -> bytes:
        return base64.b64encode(USER.sign(nonce.encode()))

    options: dict[str, Any] = {
        "user_jwt_cb": lambda: account.user(USER).encode(),
        "signature_cb": signed,
    }
    return await Client.connect(workers.server, **options)


def test_pushed(tmp_path: Path) -> None:
    """One worker answers an operator's request, which takes effect at all workers."""
    claims = {"jti": "X", "iat": 1, "iss": OPERATOR.key, "sub": OPERATOR.key}
    deletion = token(OPERATOR, {**claims, "nats": {"accounts": [ACCOUNT.key], "version": 2}})
    answers: list[Any] = []

    async def came(message: Any) -> None:
        answers.append(json.loads(message.data)["data"])

    async def ask(nats: Any, verb: str, body: str = "") -> Any:
        """The only answer to a request. Answers of other workers would come before the PONG."""
        inbox = nats.new_inbox()
        await nats.subscribe(inbox, cb=came)
        await nats.publish(f"$SYS.REQ.CLAIMS.{verb}", body.encode(), reply=inbox)
        await until(lambda: answers, verb)
        await nats.request("$SYS.REQ.SERVER.PING", timeout=10)
        [answer] = answers
        answers.clear()
        return answer

    async def run(workers: Workers[BrokerProcess]) -> None:
        operators = [await loggedIn(workers, SYSTEM) for _ in range(4)]
        system = operators[0].nats
        assert (await ask(system, "UPDATE", ACCOUNT.jwt()))["message"] == "jwt updated"
        clients = [await loggedIn(workers, ACCOUNT) for _ in range(4)]
        assert {workers.at(client) for client in (*operators, *clients)} == set(workers.pids())
        assert await ask(system, "LIST") == [ACCOUNT.key]
        assert (await ask(system, "DELETE", deletion))["message"] == "deleted 1 accounts"
        await until(lambda: all(client.losses for client in clients), "all users are cut")
        for client in (*operators, *clients):
            await client.nats.close()

    config = tmp_path / "nats.conf"
    config.write_text(CONFIG.replace("DIR", str(tmp_path / "jwt")))
    with served("-c", str(config)) as workers:
        asyncio.run(run(workers))
    assert "failed for" not in workers.server.log
