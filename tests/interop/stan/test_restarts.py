"""
Original NATS Streaming clients while the broker is stopped, or killed, and restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, PATIENCE, Server
from tests.interop.stan.programs import READY, runTogether

DISK = """
streaming { store: file, dir: "$DIR/channels", jetstream_accounts { "*.restart": "$G" } }
jetstream { store_dir: "$DIR" }
"""


def _kill(server: Server) -> None:
    """Kill the broker with SIGKILL, and start it again."""
    server.signal("KILL")
    server.exitStatus()
    server.restart()


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """
    A broker whose channels are on disk.
    """
    server = Server(OURS_FAST, tmp_path, DISK).start()
    showLogs(request.node, server)
    yield server
    server.stop()


async def _fetched(url: str, stream: str) -> list[bytes]:
    """The new messages of a durable JetStream consumer, which acknowledges them."""
    client = await nats.connect(url)
    context = client.jetstream(timeout=PATIENCE)
    puller = await context.pull_subscribe("", "d", stream=stream)
    messages = await puller.fetch(2, PATIENCE)
    for message in messages:
        await message.ack_sync(PATIENCE)
    await client.close()
    return [message.data for message in messages]


def test_stopped(server: Server) -> None:
    """
    Subscriptions continue after a restart of the broker, without a new connect request. No
    acknowledged message comes again, and none is omitted. Durable subscriptions and durable queue
    groups can be resumed later, and so can durable consumers of JetStream on the channel.
    """
    fetched: list[bytes] = []

    def restart() -> None:
        fetched.extend(asyncio.run(_fetched(server.url, "py_restart")))
        server.restart()

    outcome = runTogether(server.url, "restart", whenReady=restart)
    assert fetched == [b"1", b"2", b"3", b"4"]
    for lines in outcome.values():
        assert lines["restart"] == [
            {"got": [1, 2], "group": [1, 2]},
            READY,
            {"got": [3], "group": [3]},
            READY,
            {"got": [4], "group": [4]},
        ]


def test_killed(server: Server) -> None:
    """
    Subscriptions continue after the broker was killed. The last acknowledged messages may come
    again, and are then marked. Those that JetStream's consumer acknowledged with an answer do not
    come again.
    """
    fetched: list[bytes] = []

    def kill() -> None:
        fetched.extend(asyncio.run(_fetched(server.url, "js_restart")))
        _kill(server)

    outcome = runTogether(server.url, "restart", whenReady=kill)
    assert fetched == [b"1", b"2", b"3", b"4"]
    for lines in outcome.values():
        first, _, second, _, third = lines["restart"]
        assert first == {"got": [1, 2], "group": [1, 2]}
        for sequence, line in ((3, second), (4, third)):
            for new, *others in (line["got"], line["group"]):
                assert new == sequence
                assert all(sequences < sequence for again in others for sequences in again)


def test_killedWhilePublishing(server: Server) -> None:
    """
    When the broker is killed during publishes, no acknowledged message is lost, and none is
    doubled.
    """
    kills: list[Server] = []

    def kill() -> None:
        kills.append(server)
        _kill(server)

    for lines in runTogether(server.url, "killed", whenReady=kill).values():
        assert lines["killed"] == [
            READY,
            {"lost": [], "many": True, "ordered": True, "sequences": True},
        ]
    assert len(kills) == 1
