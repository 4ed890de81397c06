"""
Monitoring pages, requests and events of several workers, which show one server.
"""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nats.aio.client import Client as NATSClient

from natsbroker.testing.process import BrokerProcess
from tests.interop.workers.support import Client, Workers, clientsOf, served, until

CONFIG = """
accounts {
    A { jetstream: enabled, users: [{user: a, password: a}] }
    B { users: [{user: b, password: b}] }
    SYS { users: [{user: s, password: s}] }
}
system_account: SYS
jetstream { store_dir: "%s" }
"""

COUNTED = """
accounts { A { users: [{ user: a, password: a }] }, SYS { users: [{ user: s, password: s }] } }
system_account: SYS
"""
"""One account apart from that of the system, so its clients are placed by load."""

EACH = 4

QUIET = 0.3
"""The seconds in which a second answer would come."""

Run = Callable[[Workers[BrokerProcess], "Stage"], Awaitable[None]]


class Stage:
    """
    Clients of two accounts, whose connections are at both workers.

    @ivar server: the id of the server.
    """

    def __init__(self, a: list[Client], b: list[Client], system: Client) -> None:
        self.a, self.b, self.system = a, b, system
        self.server: str = system.nats._server_info["server_id"]
        self.events: list[tuple[str, Any]] = []

    async def ask(self, subject: str, body: Any = None, by: Client | None = None) -> Any:
        """The only answer to a request below C{$SYS.REQ.}."""
        nats = (by or self.system).nats
        answers: list[Any] = []

        async def came(message: Any) -> None:
            answers.append(json.loads(message.data))

        inbox = nats.new_inbox()
        await nats.subscribe(inbox, cb=came)
        payload = b"" if body is None else json.dumps(body).encode()
        await nats.publish(f"$SYS.REQ.{subject}", payload, reply=inbox)
        await until(lambda: answers, f"an answer to {subject}")
        await asyncio.sleep(QUIET)
        [answer] = answers
        return answer

    async def hear(self, *subjects: str) -> None:
        """Record events."""

        async def came(message: Any) -> None:
            subject = message.subject.replace(self.server, "ID")
            self.events.append((subject, json.loads(message.data)))

        for subject in subjects:
            await self.system.nats.subscribe(subject, cb=came)
        await self.system.nats.flush()

    def heard(self, subject: str) -> list[Any]:
        return [event for name, event in self.events if name == subject]


@asynccontextmanager
async def staged(workers: Workers[BrokerProcess]) -> AsyncIterator[Stage]:
    async with (
        clientsOf(workers.server, EACH, user="a", password="a") as a,
        clientsOf(workers.server, EACH, user="b", password="b") as b,
        clientsOf(workers.server, 1, user="s", password="s") as [system],
    ):
        yield Stage(a, b, system)


def facing(tmp_path: Path, run: Run, *arguments: str) -> None:
    """Run a function for a server of two workers."""
    config = tmp_path / "nats.conf"
    config.write_text(CONFIG % tmp_path)

    async def whole() -> None:
        async with staged(workers) as stage:
            await run(workers, stage)

    with served("-c", str(config), *arguments) as workers:
        asyncio.run(whole())


def test_requests(tmp_path: Path) -> None:
    """Each request has one answer, which is of the server and has the figures of all workers."""

    async def run(workers: Workers[BrokerProcess], stage: Stage) -> None:
        everyone = [*stage.a, *stage.b, stage.system]
        assert {workers.at(client) for client in everyone} == set(workers.pids())
        context = stage.a[0].nats.jetstream()
        for name in ("S1", "S2"):
            await context.add_stream(name=name, subjects=[name])
            await context.publish(name, b"x")
        ask, total = stage.ask, len(everyone)
        for kind in ("", ".STATSZ"):
            status = await ask(f"SERVER.PING{kind}")
            assert status["server"]["id"] == stage.server
            assert status["statsz"]["connections"] == total
            assert status["statsz"]["active_accounts"] == 3
        assert (await ask("SERVER.PING.IDZ"))["id"] == stage.server
        varz = (await ask(f"SERVER.{stage.server}.VARZ"))["data"]
        assert (varz["connections"], varz["gomaxprocs"]) == (total, 2)
        connz = (await ask("SERVER.PING.CONNZ", {"sort": "start", "limit": 5}))["data"]
        assert (connz["total"], connz["num_connections"]) == (total, 5)
        cids = [row["cid"] for row in connz["connections"]]
        assert cids == sorted(cids)
        subsz = (await ask("SERVER.PING.SUBSZ", {"subscriptions": True}))["data"]
        assert {row["worker"] for row in subsz["subscriptions_list"]} == {1, 2}
        jsz = (await ask("SERVER.PING.JSZ", {"streams": True}))["data"]
        assert (jsz["streams"], jsz["messages"], jsz["total"]) == (2, 2, 1)
        [details] = jsz["account_details"]
        assert {stream["name"] for stream in details["stream_detail"]} == {"S1", "S2"}
        for kind in ("ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "PROFILEZ", "RAFTZ"):
            assert (await ask(f"SERVER.PING.{kind}"))["server"]["id"] == stage.server
        for stream, code in (("S1", 200), ("S2", 200), ("S3", 404)):
            health = await ask("SERVER.PING.HEALTHZ", {"account": "A", "stream": stream})
            assert health["data"]["status_code"] == code
        assert (await ask("ACCOUNT.A.CONNS"))["conns"] == EACH
        assert (await ask("ACCOUNT.B.INFO"))["data"]["client_connections"] == EACH
        assert (await ask("ACCOUNT.B.JSZ"))["error"]["description"].endswith("enabled")
        rows = (await ask("ACCOUNT.PING.STATZ"))["data"]["account_statz"]
        assert {row["acc"]: row["conns"] for row in rows} == {"A": EACH, "B": EACH, "SYS": 1}
        own = await ask("ACCOUNT.PING.CONNZ", by=stage.b[0])
        assert own["data"]["total"] == EACH
        info = await ask("USER.INFO", by=stage.a[-1])
        assert (info["server"]["id"], info["data"]["account"]) == (stage.server, "A")

    facing(tmp_path, run)


def test_subscribers(tmp_path: Path) -> None:
    """Subscriptions at all workers are one number for every requester, and counted once."""

    async def run(workers: Workers[BrokerProcess]) -> None:
        async with (
            clientsOf(workers.server, EACH, user="a", password="a") as clients,
            clientsOf(workers.server, EACH, user="s", password="s") as systems,
        ):
            for those in (clients, systems):
                assert {workers.at(client) for client in those} == set(workers.pids())
                for client in those:
                    await client.subscribe("counted")
            asked = {"acc": "A", "subject": "counted"}
            assert await Stage(clients, [], systems[0]).ask("ACCOUNT.NSUBS", asked) == EACH
            for client in systems:
                counted = await client.nats.request("$SYS.DEBUG.SUBSCRIBERS", b"counted")
                assert counted.data == b"%d" % EACH

    config = tmp_path / "nats.conf"
    config.write_text(COUNTED)
    with served("-c", str(config)) as workers:
        asyncio.run(run(workers))


def test_actions(tmp_path: Path) -> None:
    """
    A connection at either worker can be closed by request, and a reload by request reaches all
    workers.
    """

    async def run(workers: Workers[BrokerProcess], stage: Stage) -> None:
        for client in (stage.a[0], stage.b[0]):
            cid = client.nats._server_info["client_id"]
            answer = await stage.ask(f"SERVER.{stage.server}.KICK", {"cid": cid})
            assert "error" not in answer
            await until(partial(getattr, client, "losses"), "closed")
        refused = await stage.ask(f"SERVER.{stage.server}.KICK", {"cid": 999_999})
        assert refused["error"]["description"] == "no such client or leafnode id"
        (tmp_path / "nats.conf").write_text(f"{CONFIG % tmp_path}\nmax_payload: 4000\n")
        assert "error" not in await stage.ask(f"SERVER.{stage.server}.RELOAD")
        await until(lambda: "Reloaded: max_payload" in workers.server.log, "reloaded")

    facing(tmp_path, run)


def test_events(tmp_path: Path) -> None:
    """Events are published once, with the server's id and the figures of all workers."""

    async def run(workers: Workers[BrokerProcess], stage: Stage) -> None:
        await stage.hear("$SYS.ACCOUNT.>", "$SYS.SERVER.>")
        one = NATSClient()
        await one.connect(workers.server.url, user="b", password="b")
        await until(lambda: stage.heard("$SYS.ACCOUNT.B.SERVER.CONNS"), "counted")
        await one.close()
        counts = "$SYS.ACCOUNT.B.SERVER.CONNS"
        await until(lambda: len(stage.heard(counts)) == 2, "counted again")
        assert [event["conns"] for event in stage.heard(counts)] == [EACH + 1, EACH]
        assert len(stage.heard("$SYS.ACCOUNT.B.CONNECT")) == 1
        assert len(stage.heard("$SYS.ACCOUNT.B.DISCONNECT")) == 1
        before = list(stage.events)
        stage.events.clear()
        await until(lambda: stage.heard("$SYS.SERVER.ID.STATSZ"), "a status")
        await asyncio.sleep(QUIET)
        [status] = stage.heard("$SYS.SERVER.ID.STATSZ")
        assert status["statsz"]["connections"] == 2 * EACH + 1
        for _, event in before + stage.events:
            assert event["server"]["id"] == stage.server
        workers.signal(signal.SIGTERM)
        await until(lambda: stage.system.losses, "the end")
        assert len(stage.heard("$SYS.SERVER.ID.SHUTDOWN")) == 1

    facing(tmp_path, run)


def test_speakerKilled(tmp_path: Path) -> None:
    """
    After the worker that speaks for the server was killed, reports are published and requests are
    answered.
    """

    async def run(workers: Workers[BrokerProcess], stage: Stage) -> None:
        await stage.hear("$SYS.SERVER.>")
        speaker, _ = workers.pids()
        workers.kill(speaker)
        await until(lambda: "Worker 1 is ready" in workers.server.log, "the next worker")
        await until(lambda: stage.system.nats.is_connected, "connected")
        stage.events.clear()
        await until(lambda: stage.heard("$SYS.SERVER.ID.STATSZ"), "a status")
        for _ in range(4):
            await stage.ask("SERVER.PING")

    facing(tmp_path, run)


def test_livePage(tmp_path: Path) -> None:
    """The live page and all its files are served."""

    async def run(workers: Workers[BrokerProcess], stage: Stage) -> None:
        [ports] = tmp_path.glob("*.ports")
        [base] = json.loads(ports.read_text())["monitoring"]

        def status(path: str) -> tuple[str, int, int]:
            with urllib.request.urlopen(f"{base}/{path}") as response:
                return path, response.status, len(response.read()) > 0

        for path in (
            *("live", "live/main.js", "varz", "connz?sort=bytes_to&limit=6&auth=1"),
            *("connz?state=closed&sort=stop&limit=6", "jsz?consumers=1&config=1", "routez"),
            *("accstatz?unused=1", "accountz?acc=A", "subsz?subs=1&clients=1", "leafz"),
            *("gatewayz?accs=1", "healthz?details=1&warnings=1", "metrics"),
        ):
            assert await asyncio.to_thread(status, path) == (path, 200, True)

    facing(tmp_path, run, "-m", "-1", "--ports_file_dir", str(tmp_path))
