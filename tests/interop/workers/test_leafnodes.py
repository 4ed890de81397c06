"""
Several workers as one server for leafnodes, and as one leafnode of a hub.
"""

from __future__ import annotations

import os
import re
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.plainclients import Client
from tests.interop.workers.exact import PAUSE, crowd, running, waitUntil
from tests.interop.workers.linking import (
    CLIENTS,
    HOST,
    LISTENING,
    NAME,
    leafPort,
    leafsOf,
    made,
    remote,
    waitForLeafs,
    workersOf,
)


def test_accepted(tmp_path: Path) -> None:
    """
    Leafnodes are spread over the workers, see one server, and each message reaches all clients
    once.
    """
    host = made(tmp_path, NAME, HOST + LISTENING, isHost=True)
    with running(host):
        port = leafPort(host)
        leafs = [made(tmp_path, f"leaf{number}", remote(port)) for number in range(3)]
        with running(*leafs):
            hubs = [waitForLeafs(leaf, 1)[0] for leaf in leafs]
            assert {hub["name"] for hub in hubs} == {NAME}
            assert len(waitForLeafs(host, 3)) == 3
            with crowd((host, CLIENTS), *((leaf, 2) for leaf in leafs)) as clients:
                clients.check()
    assert len(re.findall("Listening for leafnode", host.log())) == 1


def test_dialled(tmp_path: Path) -> None:
    """
    A hub has one connection, over which all messages pass once, and another worker restores it.
    """
    hub = made(tmp_path, "hub", LISTENING)
    with running(hub):
        port = leafPort(hub)
        host = made(tmp_path, NAME, HOST + remote(port), isHost=True)
        beside = made(tmp_path, "beside", remote(port))
        with running(host, beside):
            names = [leaf["name"] for leaf in waitForLeafs(hub, 2)]
            assert sorted(names) == ["beside", NAME]
            places = (host, CLIENTS), (hub, 2), (beside, 2)
            with crowd(*places) as clients:
                clients.check()
            [pid] = re.findall(r"\[(\d+)\][^\n]*Leafnode connection created", host.log())
            assert int(pid) in workersOf(host)
            os.kill(int(pid), signal.SIGKILL)
            # Connections that are on their way to it are lost.
            host.waitForLog(rf"\(pid {pid}\) ended")
            with crowd(*places) as clients:
                clients.check()
            assert len(waitForLeafs(hub, 2)) == 2


def test_limit(tmp_path: Path) -> None:
    """The leafnodes of an account are counted at all workers."""
    account = "accounts { A { users: [{ user: l, password: l }], limits: { max_leafnodes: 2 } } }\n"
    host = made(tmp_path, NAME, account + HOST + LISTENING, isHost=True)
    with running(host):
        port = leafPort(host)
        leafs = [
            made(tmp_path, f"leaf{number}", remote(port).replace("//", "//l:l@"))
            for number in range(3)
        ]
        with running(*leafs[:2]):
            waitForLeafs(host, 2)
            assert "maximum account" not in host.log()
            with running(leafs[2]):
                host.waitForLog("maximum account active connections exceeded")
                leafs[2].waitForLog("maximum account active connections exceeded")


def test_between(tmp_path: Path) -> None:
    """Leafnodes of the server and of its hub reach each other through both."""
    hub = made(tmp_path, "hub", LISTENING)
    with running(hub):
        remotes = remote(leafPort(hub)).replace("{", '{ listen: "127.0.0.1:-1",', 1)
        host = made(tmp_path, NAME, HOST + remotes, isHost=True)
        with running(host):
            leafs = [made(tmp_path, f"leaf{n}", remote(leafPort(host))) for n in range(2)]
            with running(*leafs):
                assert len(waitForLeafs(host, 3)) == 3
                with crowd((hub, 2), (host, CLIENTS), *((leaf, 2) for leaf in leafs)) as clients:
                    clients.check()


def test_upgrade(tmp_path: Path) -> None:
    """The connection to a hub moves to another worker when workers are replaced."""
    hub = made(tmp_path, "hub", LISTENING)
    with running(hub):
        host = made(tmp_path, NAME, HOST + remote(leafPort(hub)), isHost=True)
        with running(host):
            waitForLeafs(hub, 1)
            host.signal("URG")
            host.waitForLog("Upgraded 2 workers")
            with crowd((host, CLIENTS), (hub, 2)) as clients:
                clients.check()
            assert len(leafsOf(hub)) == 1


def test_nearFirst(tmp_path: Path) -> None:
    """Members of a queue group at the hub get only messages for which the server has no member."""
    hub = made(tmp_path, "hub", LISTENING)
    with running(hub):
        host = made(tmp_path, NAME, HOST + remote(leafPort(hub)), isHost=True)
        with running(host), crowd((host, CLIENTS), (hub, 1)) as clients:
            *near, far = clients.clients
            away = far.subscribe(b"g", b"q")
            members = [client.subscribe(b"g", b"q") for client in near]
            clients.meet()
            for client in near:
                client.publish(b"g", b"1")
            for client in near:
                client.flush()
            clients.meet()
            assert far.arrived(away) == []
            for client, sid in zip(near, members, strict=True):
                client.unsubscribe(sid)
            clients.meet()
            for client in near:
                client.publish(b"g", b"2")
            assert far.take(away, CLIENTS) == [b"2"] * CLIENTS


@pytest.mark.parametrize("isOverWebSocket", [False, True])
def test_encrypted(tmp_path: Path, isOverWebSocket: bool) -> None:
    """Leafnodes may connect over TLS and WebSocket, and do not count as clients."""
    writeCertificates(tmp_path)
    files = f'cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server-key.pem"'
    tls = f"tls {{ {files} }}"
    blocks = f"""
        leafnodes {{ listen: "127.0.0.1:-1", {tls} }}
        websocket {{ listen: "127.0.0.1:-1", {tls} }}
        max_connections: {CLIENTS}
    """
    host = made(tmp_path, NAME, HOST + blocks, isHost=True)
    with running(host):
        port = leafPort(host)
        if isOverWebSocket:
            port = host.waitForLog(r"Listening for websocket clients on wss://\S+:(\d+)")[1]
        url = remote(port).replace("nats://", "wss://" if isOverWebSocket else "tls://")
        dialling = url.replace(
            '" } ]', f'", tls {{ ca_file: "{tmp_path}/ca.pem" }}, ws_compression: true }} ]'
        )
        leafs = [made(tmp_path, f"leaf{number}", dialling) for number in range(2)]
        with running(*leafs):
            assert len(waitForLeafs(host, 2)) == 2
            with crowd((host, CLIENTS), *((leaf, 2) for leaf in leafs)) as clients:
                clients.check()


ACCOUNTS = """
    accounts {
        A {
            users: [ {user: a, password: a} ]
            exports: [ {stream: "news.>"}, {service: "ask"} ]
        }
        B {
            users: [ {user: b, password: b} ]
            imports: [
                {stream: {account: A, subject: "news.>"}}, {service: {account: A, subject: ask}}
            ]
        }
    }
"""


def _hears(client: Client, sid: bytes, far: Client) -> list[bytes]:
    far.publish(b"news.early", b"")
    return client.arrived(sid)


def test_imports(tmp_path: Path) -> None:
    """Clients of an account that imports from the hub's account get everything once."""
    hub = made(tmp_path, "hub", LISTENING)
    with running(hub):
        remotes = remote(leafPort(hub)).replace('" } ]', '", account: A } ]')
        host = made(tmp_path, NAME, HOST + ACCOUNTS + remotes, isHost=True)
        with running(host):
            waitForLeafs(hub, 1)
            far = Client(hub)
            clients = [Client(host, user) for user in "ab" * CLIENTS]
            importers = clients[1::2]
            news = [client.subscribe(b"news.*") for client in clients]
            served = far.subscribe(b"ask")
            inboxes = [client.subscribe(b"inbox.%d" % n) for n, client in enumerate(importers)]
            for client, sid in zip(clients, news, strict=True):
                waitUntil(partial(_hears, client, sid, far))
            far.flush()
            time.sleep(4 * PAUSE)
            for client, sid in zip(clients, news, strict=True):
                client.arrived(sid)
            far.publish(b"news.x", b"1")
            clients[0].publish(b"news.x", b"2")
            for number, client in enumerate(importers):
                client.publish(b"ask", b"?", b"inbox.%d" % number)
            for reply, _, _ in far.messages(served, len(importers)):
                far.publish(reply, b"!")
            far.flush()
            for client, inbox in zip(importers, inboxes, strict=True):
                assert client.take(inbox, 1) == [b"!"]
            time.sleep(4 * PAUSE)
            for client, sid in zip(clients, news, strict=True):
                assert sorted(client.arrived(sid)) == [b"1", b"2"]
            assert far.arrived(served) == []
            for client in (far, *clients):
                client.close()
