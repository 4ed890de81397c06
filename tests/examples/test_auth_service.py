"""
The authorization service C{examples/auth_service.py}, run unchanged, and a broker that uses it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from examples.auth_service import TERM, grantFor
from natsbroker.auth.httpservice import grantFromAnswer
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.testing.process import BrokerProcess
from tests.examples.running import running


@pytest.mark.parametrize(
    ("user", "password", "isKnown"),
    [
        ("anna", "apple", True),
        ("bob", "banana", True),
        ("anna", "banana", False),
        ("anna", "", False),
        ("carl", "", False),
        ("", "", False),
    ],
)
def test_login(user: str, password: str, isKnown: bool) -> None:
    """Only a user in the table with the right password is accepted."""
    assert (grantFor({"user": user, "pass": password}, 0) is not None) == isKnown
    assert grantFor({"user": user}, 0) is None


def test_grant() -> None:
    """The answer grants access to a broker for a while."""
    answer = grantFor({"user": "bob", "pass": "banana"}, 1000.5)
    grant = grantFromAnswer(json.dumps(answer).encode())
    assert (grant.user, grant.expires) == ("bob", 1000.0 + TERM)
    assert grant.publish == PermissionSet([b"orders.bob.>"])


def test_runs(natsbrokerFactory: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    """The program accepts the right users, with the right permissions."""

    async def talk(url: str) -> tuple[bytes, bool]:
        client = await nats.connect(url, user="anna", password="apple")
        inbox = await client.subscribe("orders.>")
        await client.publish("orders.anna.new", b"tea")
        message = await inbox.next_msg(timeout=30)
        await client.drain()
        refused = False
        try:
            options: dict[str, Any] = {"allow_reconnect": False}
            await nats.connect(url, user="anna", password="pear", **options)
        except nats.errors.Error:
            refused = True
        return bytes(message.data), refused

    with running("auth_service.py", "0") as [port]:
        path = tmp_path / "x.conf"
        path.write_text(f"authorization {{ plugin: http, url: 'http://127.0.0.1:{port}/' }}")
        broker = natsbrokerFactory("-c", str(path))
        assert asyncio.run(talk(broker.url)) == (b"tea", True)
