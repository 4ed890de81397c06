"""
Tests of L{natsbroker.system.status}.
"""

from __future__ import annotations

import json
from typing import Any

from tests.server.support import Host
from tests.support import Recorder

MEMBER = """
    server_name: n1, listen: "127.0.0.1:4222"
    cluster { name: C1, listen: "127.0.0.1:6222" }
"""


def heard(text: str, pattern: bytes, seconds: float) -> tuple[Host, list[Any]]:
    """A broker, and what the system account received from it in some time."""
    host = Host(text).start()
    recorder = Recorder()
    host.broker.bus("$SYS").subscribe(pattern, recorder)
    host.advance(seconds)
    return host, [message for message, _ in recorder.got]


def test_reports() -> None:
    """The broker reports its status soon, and then every ten seconds."""
    host, messages = heard(MEMBER, b"$SYS.SERVER.*.STATSZ", 28.0)
    assert [message.subject for message in messages] == [
        b"$SYS.SERVER.%b.STATSZ" % host.broker.serverId.encode()
    ] * 6
    report = json.loads(messages[-1].body)
    server, stats = report["server"], report["statsz"]
    assert (server["name"], server["cluster"], server["jetstream"]) == ("n1", "C1", False)
    assert (stats["connections"], stats["active_accounts"]) == (0, 0)
    numbers = [json.loads(message.body)["server"]["seq"] for message in messages]
    assert numbers == sorted(set(numbers))


def test_noSubscriber() -> None:
    """Without a subscriber, the status is not published."""
    assert heard(MEMBER, b"$SYS.SERVER.other.>", 20.0)[1] == []


def test_aloneBroker() -> None:
    """A broker that is alone publishes its status too."""
    assert len(heard('listen: "127.0.0.1:4222"', b"$SYS.SERVER.*.STATSZ", 1.0)[1]) == 1


def test_shutdown() -> None:
    """A broker in lame duck mode, and one that stops, publish an event with their identity."""
    host = Host(MEMBER).start()
    recorder = Recorder()
    host.broker.bus("$SYS").subscribe(b"$SYS.SERVER.*.*", recorder)
    host.broker.lameDuck()
    host.broker.stopService()
    server = host.broker.serverId.encode()
    assert [message.subject for message, _ in recorder.got] == [
        b"$SYS.SERVER.%b.LAMEDUCK" % server,
        b"$SYS.SERVER.%b.SHUTDOWN" % server,
    ]
    for body in recorder.bodies:
        document = json.loads(body)
        assert (document["name"], document["cluster"]) == ("n1", "C1")
        assert {"host", "id", "ver", "seq", "time"} <= document.keys()


def test_stops() -> None:
    """When the broker stops, the reports end."""
    host, messages = heard(MEMBER, b"$SYS.SERVER.*.STATSZ", 1.0)
    assert len(messages) == 1
    host.broker.stopService()
    assert not [call for call in host.reactor.getDelayedCalls() if "_again" in repr(call)]
