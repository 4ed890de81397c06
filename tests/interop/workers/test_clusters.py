"""
Several workers as members of a cluster with nats-servers.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import nats

from tests.interop.servers import PATIENCE, Server
from tests.interop.workers.exact import crowd, running, waitUntil
from tests.interop.workers.linking import (
    CLIENTS,
    HOST,
    LISTENING,
    NAME,
    document,
    leafPort,
    made,
    remote,
    waitForLeafs,
    workersOf,
)

LOGIN = "authorization { user: u, password: p }"


def cluster(routes: list[str], port: int = -1) -> str:
    urls = ", ".join(f'"nats-route://u:p@127.0.0.1:{place}"' for place in routes)
    return f'cluster {{ name: C, listen: "127.0.0.1:{port}", {LOGIN}, routes: [ {urls} ] }}\n'


def routePort(server: Server) -> str:
    return server.waitForLog(r"Listening for route connections on \S+:(\d+)")[1]


def namesAt(server: Server) -> set[str]:
    """The names of the other members that a server knows."""
    routes: list[dict[str, Any]] = document(server, "routez")["routes"] or []
    return {route["remote_name"] for route in routes}


def waitForMembers(*servers: Server) -> None:
    """Wait until all nats-servers know all members."""
    names = {server.directory.name for server in servers} | {f"{NAME}-1", f"{NAME}-2"}
    waitUntil(
        lambda: all(namesAt(server) == names - {server.directory.name} for server in servers),
        lambda: [namesAt(server) for server in servers],
    )


def freePorts() -> int:
    """A free port whose next port is free too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def test_joined(tmp_path: Path) -> None:
    """Members that know one worker find all of them, also after a restart of a worker."""
    host = made(tmp_path, NAME, HOST + cluster([]), isHost=True)
    with running(host):
        seed = routePort(host)
        members = [made(tmp_path, f"member{n}", cluster([seed])) for n in range(2)]
        with running(*members):
            waitForMembers(*members)
            places = (host, CLIENTS), *((member, 2) for member in members)
            with crowd(*places) as clients:
                clients.check()
                # Its clients learn one address of the host.
                urls = json.loads(clients.clients[-1].info[5:])["connect_urls"]
                assert urls.count(f"127.0.0.1:{host.port}") == 1
            before = workersOf(host)
            os.kill(before[1], signal.SIGKILL)
            host.waitForLog(r"Worker \d is ready")
            waitForMembers(*members)
            with crowd(*places) as clients:
                clients.check()


def test_ports(tmp_path: Path) -> None:
    """Workers listen on consecutive ports, and do not take each other for other servers."""
    member = made(tmp_path, "member", cluster([]))
    port = freePorts()
    with running(member):
        routes = [routePort(member), str(port), str(port + 1)]
        host = made(tmp_path, NAME, HOST + cluster(routes, port), isHost=True)
        with running(host):
            listening = re.findall(r"Listening for route connections on \S+:(\d+)", host.log())
            assert sorted(map(int, listening)) == [port, port + 1]
            waitForMembers(member)
            with crowd((host, CLIENTS), (member, 2)) as clients:
                clients.check()


def test_hub(tmp_path: Path) -> None:
    """In a cluster each worker has its own connection to a hub, as each member has."""
    hub = made(tmp_path, "hub", LISTENING)
    with running(hub):
        remotes = remote(leafPort(hub))
        host = made(tmp_path, NAME, HOST + cluster([]) + remotes, isHost=True)
        with running(host):
            member = made(tmp_path, "member", cluster([routePort(host)]) + remotes)
            with running(member):
                waitForMembers(member)
                names = sorted(leaf["name"] for leaf in waitForLeafs(hub, 3))
                assert names == [f"{NAME}-1", f"{NAME}-2", "member"]
                with crowd((host, CLIENTS), (member, 2), (hub, 2)) as clients:
                    clients.check()


def test_streams(tmp_path: Path) -> None:
    """Clients of a member without JetStream use that of the workers, and get one answer."""

    async def run(url: str) -> None:
        client = await nats.connect(url)
        context = client.jetstream(timeout=PATIENCE)
        for name in "ab":
            await context.add_stream(name=name, subjects=[f"{name}.*"])
            for number in range(CLIENTS):
                assert (await context.publish(f"{name}.x", b"x")).seq == number + 1
            puller = await context.pull_subscribe(f"{name}.*", "d")
            assert len(await puller.fetch(CLIENTS, timeout=PATIENCE)) == CLIENTS
        assert (await context.account_info()).streams == 2
        came: list[bytes] = []

        async def answered(message: Any) -> None:
            came.append(message.data)

        await client.subscribe("inbox", cb=answered)
        await client.publish("$JS.API.STREAM.NAMES", b"", reply="inbox")
        await client.request("$JS.API.INFO", b"", timeout=PATIENCE)
        await client.flush()
        assert [json.loads(answer)["streams"] for answer in came] == [["a", "b"]]
        await client.close()

    store = f'jetstream {{ store_dir: "{tmp_path}/store" }}\n'
    host = made(tmp_path, NAME, HOST + store + cluster([]), isHost=True)
    with running(host):
        member = made(tmp_path, "member", cluster([routePort(host)]))
        with running(member):
            waitForMembers(member)
            asyncio.run(run(member.url))
