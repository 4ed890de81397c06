"""
JetStream of accounts with JWTs, compared with nats-server in operator mode for the same requests:
the answers are the same, also after JWTs and the limits of the server have changed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import NoRespondersError

from tests.auth.operator.chain import Account, KeyPair, Operator, credentialsFile
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server

OPERATOR = Operator()
SYSTEM, ONE, TIERED, LATE = (Account(OPERATOR) for _ in range(4))
NAMES = {"one": ONE, "tiered": TIERED, "late": LATE}

LIMITS: dict[str, Any] = {
    "mem_storage": 2000,
    "disk_storage": 3000,
    "streams": 2,
    "consumer": 1,
    "max_ack_pending": 100,
    "mem_max_stream_bytes": 1500,
    "disk_max_stream_bytes": 2500,
    "max_bytes_required": True,
}
TIER = {"mem_storage": 1000, "disk_storage": 2000, "streams": 1, "consumer": 1}
TIERS = {"tiered_limits": {"R1": TIER, "R3": {**TIER, "streams": 4}}}

Steps = Callable[["Clients"], Awaitable[None]]


def configuration() -> str:
    """A configuration with a resolver whose JWTs may change, and JetStream."""
    tokens = {
        SYSTEM: SYSTEM.jwt(),
        ONE: ONE.jwt(limits=LIMITS),
        TIERED: TIERED.jwt(limits=TIERS),
        LATE: LATE.jwt(),
    }
    preload = "\n".join(f"{account.key}: {text}" for account, text in tokens.items())
    return f"""
        operator: {OPERATOR.jwt({"system_account": SYSTEM.key})}
        resolver {{ type: full, dir: "$DIR/jwt" }}
        resolver_preload {{ {preload} }}
        jetstream {{ store_dir: "$DIR/js", max_mem: 64MB, max_file: 64MB }}
    """


class Clients:
    """The clients of a server, and the answers that they received."""

    def __init__(self, server: Server, directory: Path) -> None:
        self._server = server
        self._directory = directory
        self._open: dict[str, Any] = {}
        self.answers: list[Any] = []

    async def of(self, name: str, account: Account | None = None) -> Any:
        """The client of an account, or that of a user of this name."""
        if name not in self._open:
            options: dict[str, Any] = {"user": name, "password": name}
            if account is not None:
                user = KeyPair("U")
                path = self._directory / f"{name}.creds"
                path.write_text(credentialsFile(account.user(user), user))
                options = {"user_credentials": str(path)}
            url = f"nats://127.0.0.1:{self._server.port}"
            self._open[name] = await nats.connect(url, **options)
        return self._open[name]

    async def ask(self, name: str, subject: str, body: bytes = b"") -> Any:
        """Send a request, and keep its answer."""
        client = await self.of(name, NAMES.get(name))
        try:
            answer = json.loads((await client.request(subject, body, timeout=PATIENCE)).data)
        except NoRespondersError:
            answer = None
        self.answers.append((name, subject, _compared(answer)))
        return answer

    async def api(self, name: str, subject: str, /, **body: Any) -> Any:
        """Send a request of the API, and keep its answer."""
        return await self.ask(name, f"$JS.API.{subject}", json.dumps(body).encode())

    async def stream(self, name: str, stream: str, /, **config: Any) -> None:
        """
        Create a stream.
        """
        given = {"name": stream, "subjects": [stream.lower()], **config}
        await self.api(name, f"STREAM.CREATE.{stream}", **given)

    async def consumer(self, name: str, consumer: str, /, **config: Any) -> None:
        """
        Create a consumer of the stream C{A}.
        """
        given = {"name": consumer, "ack_policy": "explicit", **config}
        subject = f"CONSUMER.CREATE.A.{consumer}"
        await self.api(name, subject, stream_name="A", config=given)

    async def limit(self, name: str, isThere: bool = True, **limits: Any) -> None:
        """Change the JWT of an account, and wait until the change is applied."""
        account = NAMES[name]
        system = await self.of("system", SYSTEM)
        subject = f"$SYS.REQ.ACCOUNT.{account.key}.CLAIMS.UPDATE"
        text = account.jwt(limits=limits).encode()
        updated = json.loads((await system.request(subject, text, timeout=PATIENCE)).data)
        assert updated["data"]["code"] == 200
        client = await self.of(name, account)
        while (await _hasJetStream(client)) is not isThere:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Close all clients."""
        for client in self._open.values():
            await client.close()


async def _hasJetStream(client: Any) -> bool:
    try:
        answer = await client.request("$JS.API.INFO", b"", timeout=PATIENCE)
    except NoRespondersError:
        return False
    return b'"error"' not in answer.data


def _compared(answer: Any) -> Any:
    """
    An answer without the parts that differ between runs. An answer with a configuration is reduced
    to the configuration.
    """
    if not isinstance(answer, dict):
        return answer
    if "config" in answer:
        return "done"
    answer.pop("api", None)
    return answer


async def _limits(clients: Clients) -> None:
    await clients.api("one", "INFO")
    for size in ({}, {"max_bytes": 5000}, {"max_bytes": 2600}, {"max_bytes": 2400}):
        await clients.stream("one", "A", **size)
    await clients.stream("one", "B", max_bytes=1600, storage="memory")
    await clients.stream("one", "B", max_bytes=1000)
    await clients.stream("one", "B", max_bytes=1000, storage="memory")
    await clients.stream("one", "C", max_bytes=100, storage="memory")
    await clients.consumer("one", "x", max_ack_pending=200)
    await clients.consumer("one", "x", max_ack_pending=50)
    await clients.consumer("one", "y")
    for _ in range(3):
        await clients.ask("one", "a", b"x" * 1000)
    await clients.api("one", "INFO")


async def _tiers(clients: Clients) -> None:
    await clients.api("tiered", "INFO")
    await clients.stream("tiered", "R", num_replicas=5)
    await clients.stream("tiered", "A")
    await clients.stream("tiered", "B")
    await clients.stream("tiered", "C", num_replicas=3)
    await clients.consumer("tiered", "x")
    await clients.consumer("tiered", "y")
    for _ in range(3):
        await clients.ask("tiered", "a", b"x" * 1000)
    await clients.api("tiered", "INFO")
    await clients.limit("tiered", tiered_limits={"R1": {**TIER, "streams": 5}})
    await clients.stream("tiered", "B")
    await clients.limit("tiered", tiered_limits={"R3": TIER})
    await clients.stream("tiered", "E")
    await clients.api("tiered", "INFO")
    await clients.api("tiered", "STREAM.NAMES")


async def _changes(clients: Clients) -> None:
    await clients.of("late", LATE)
    await clients.limit("late", mem_storage=1000, disk_storage=3000, streams=1, consumer=1)
    await clients.api("late", "INFO")
    await clients.stream("late", "A")
    await clients.ask("late", "a", b"x" * 1000)
    await clients.limit("late", mem_storage=1000, disk_storage=1000, streams=1)
    await clients.api("late", "INFO")
    await clients.ask("late", "a", b"x")
    await clients.stream("late", "B")
    await clients.limit("late", isThere=False)
    await clients.ask("late", "a", b"x")
    await clients.limit("late", mem_storage=-1, disk_storage=-1, streams=-1, consumer=-1)
    await clients.api("late", "INFO")
    await clients.api("late", "STREAM.NAMES")
    await clients.ask("late", "a", b"x")


def answersOf(flavour: Flavour, directory: Path, config: str, steps: Steps) -> list[Any]:
    """The answers that the clients of a server received."""
    directory.mkdir()
    server = Server(flavour, directory, config).start()
    clients = Clients(server, directory)

    async def run() -> None:
        try:
            await steps(clients)
        finally:
            await clients.close()

    try:
        asyncio.run(asyncio.wait_for(run(), 4 * PATIENCE))
    finally:
        server.stop()
    return clients.answers


def assertSame(directory: Path, config: str, steps: Steps) -> None:
    """Compare the answers that clients of both servers receive."""
    there = answersOf(REAL, directory / "real", config, steps)
    here = answersOf(OURS_FAST, directory / "ours", config, steps)
    assert here == there


@pytest.mark.parametrize(
    "steps", [_limits, _tiers, _changes], ids=lambda scenario: scenario.__name__
)
def test_operator(steps: Steps, tmp_path: Path) -> None:
    """Limits and tiers of a JWT bound an account, and change with it."""
    assertSame(tmp_path, configuration(), steps)


def test_survives(tmp_path: Path) -> None:
    """Streams of an account exist after a restart, before a client of the account connects."""

    async def make(clients: Clients) -> None:
        await clients.stream("one", "A", max_bytes=2000)
        await clients.ask("one", "a", b"x")

    server = Server(OURS_FAST, tmp_path, configuration(), ["-m", "-1"]).start()

    async def run() -> None:
        clients = Clients(server, tmp_path)
        await make(clients)
        await clients.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    server.restart()
    deadline = time.monotonic() + PATIENCE
    while server.monitor("/jsz")["messages"] != 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.monitor("/jsz")["messages"] == 1
    server.stop()


SERVER_LIMITS = """
accounts {
  A { jetstream: enabled, users: [ { user: a, password: a } ] }
  B { jetstream: { max_mem: 1KB, max_file: 2500 }, users: [ { user: b, password: b } ] }
}
jetstream { store_dir: "$DIR/js", max_mem: 3000, max_file: 4000 }
"""


async def _serverLimits(clients: Clients) -> None:
    for user in "ab":
        await clients.stream(user, "F")
        await clients.stream(user, "M", storage="memory")
        await clients.stream(user, "L", max_bytes=3000)
        for subject, count in (("f", 5), ("m", 4), ("l", 2)):
            for _ in range(count):
                await clients.ask(user, subject, b"x" * 1000)
        await clients.ask(user, "f", b"x")
        await clients.api(user, "STREAM.PURGE.F")
        await clients.ask(user, "f", b"x" * 1000)


def test_serverLimits(tmp_path: Path) -> None:
    """The limits of the server apply to streams without a maximum size."""
    assertSame(tmp_path, SERVER_LIMITS, _serverLimits)
