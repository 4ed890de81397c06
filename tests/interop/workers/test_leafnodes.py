"""Several workers are one server to leafnodes, and one leafnode of a hub."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from tests.interop.workers.exact import crowd, running
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
    """Leafnodes are shared out, see one server, and everything reaches everybody once."""
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
    """A hub has one connection, over which everything passes once; another worker renews it."""
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


def test_between(tmp_path: Path) -> None:
    """Leafnodes of the host and its hub reach each other through it."""
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
    """The connection to a hub moves when workers are replaced."""
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
    """Members of a queue group at the hub get what the host has no member for."""
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
