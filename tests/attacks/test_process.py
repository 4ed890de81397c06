"""
All attacks at once on a broker in a process of its own, in its processor's time.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from natsbroker.testing.process import BrokerProcess, startBroker
from tests.attacks.stage import requests

WAIT = 0.1
"""Seconds of the processor that others wait, as in C{tests/interop/test_turns.py}: beside other
tests the same work costs more, and a pass of the garbage collector is among it."""

USUAL = 0.02
"""The same for nine of ten PINGs."""

END = 0.5
"""The same for C{/healthz}, and until the broker ends after SIGTERM."""

MESSAGES = 20_000
SECONDS = 4

_SCHEDULE = (
    b"NATS/1.0\r\nNats-Schedule: @at 2020-01-01T00:00:00Z\r\nNats-Schedule-Target: s.t\r\n\r\n"
)
_TRACED = b"NATS/1.0\r\nNats-Trace-Dest: _I.t\r\n\r\n"


def _headed(headers: bytes, count: int) -> bytes:
    return b"".join(
        b"HPUB s.h.%d %d %d\r\n%bx\r\n" % (number, len(headers), len(headers) + 1, headers)
        for number in range(count)
    )


ATTACKS = [
    requests("$JS.API.DIRECT.GET.S", b'{"batch":1000000000,"seq":1}', b"_I.q"),
    requests("$JS.API.DIRECT.GET.S", b'{"batch":1000000000,"seq":1}', b"_N.q"),
    requests("$JS.API.DIRECT.GET.S", b'{"multi_last":[">"],"batch":1}', b"_I.q"),
    requests("$JS.API.DIRECT.GET.S", b'{"seq":1,"next_by_subj":"s.*.nope"}', b"_I.q", 1000),
    requests("$JS.API.STREAM.LIST", b"", b"_I.q", 5000),
    requests("$JS.API.STREAM.INFO.S", b'{"subjects_filter":">"}', b"_I.q"),
    requests("$JS.API.STREAM.PURGE.S", b'{"filter":"s.*.nope"}', b"_I.q"),
    requests("$NB.API.STREAM.EXPORT._.S", b'{"start":1}', b"_I.q"),
    requests("$NB.API.STREAM.DIGEST._.S", b'{"start":1,"stop":20000}', b"_I.q"),
    requests("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":100000,"expires":5000000000}', b"_I.q"),
    _headed(_SCHEDULE, 5000),
    _headed(_TRACED, 5000),
]


class Client:
    """
    A client over a socket, which measures what the broker works while it waits.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self.socket = socket.create_connection(("127.0.0.1", broker.port), 60)
        self.socket.recv(1 << 16)
        self.wait(b'CONNECT {"verbose":false,"headers":true}\r\nPING\r\n', b"PONG\r\n")

    def wait(self, data: bytes, answer: bytes) -> float:
        """The seconds that the broker works until an answer comes."""
        before = worked(self._broker)
        self.socket.sendall(data)
        got = b""
        while answer not in got:
            more = self.socket.recv(1 << 20)
            assert more, got[-200:]
            got = got[-1000:] + more
        return worked(self._broker) - before

    def publish(self, subject: bytes) -> float:
        return self.wait(b"PUB %b _A 1\r\nx\r\n" % subject, b'"seq":')

    def ask(self, subject: str, body: bytes) -> None:
        self.wait(requests(subject, body, b"_A", 1), b"MSG _A")

    def attack(self, data: bytes) -> None:
        """Send, and take nothing of what comes, until it ends or is cut."""
        with suppress(OSError):
            self.socket.sendall(data)


def worked(broker: BrokerProcess) -> float:
    """The seconds of the processor that the reactor's thread of a broker has used."""
    return int(Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.fixture
def page(tmp_path: Path) -> Iterator[tuple[BrokerProcess, str]]:
    """A broker with streams, and the address of its pages."""
    config = tmp_path / "broker.conf"
    config.write_text('http: "127.0.0.1:-1"\njetstream {}\n')
    with startBroker("-c", str(config)) as broker:
        line = next(each for each in broker.log.splitlines() if "http monitor" in each)
        yield broker, f"http://127.0.0.1:{line.rpartition(':')[2].strip()}/healthz"


@pytest.mark.slow
@pytest.mark.realtime
def test_allAtOnce(page: tuple[BrokerProcess, str]) -> None:
    """No other client waits while all attacks are under way, and SIGTERM ends the broker."""
    broker, address = page
    other = Client(broker)
    other.socket.sendall(b"SUB _A 1\r\n")
    stream = b'"subjects":["s.>"],"allow_direct":true,"allow_msg_schedules":true'
    other.ask("$JS.API.STREAM.CREATE.S", b'{"name":"S",%b,"allow_rollup_hdrs":true}' % stream)
    other.ask("$JS.API.STREAM.CREATE.T", b'{"name":"T","subjects":["t"],"storage":"memory"}')
    consumer = b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}'
    other.ask("$JS.API.CONSUMER.DURABLE.CREATE.S.C", consumer)
    filling = b"".join(b"PUB s.%d.x 1\r\nx\r\n" % number for number in range(MESSAGES))
    other.wait(filling + b"PING\r\n", b"PONG\r\n")
    other.publish(b"s.last")
    clients = [Client(broker) for _ in ATTACKS]
    for client, attack in zip(clients, ATTACKS, strict=True):
        client.socket.sendall(b"SUB _I.> 1\r\n")
        threading.Thread(target=client.attack, args=(attack,), daemon=True).start()
    pings, others, logins, health = [], [], [], []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pings.append(other.wait(b"PING\r\n", b"PONG\r\n"))
        others.append(other.publish(b"t"))
        before = worked(broker)
        with closing(Client(broker).socket):
            logins.append(worked(broker) - before)
        before = worked(broker)
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.status == 200
        health.append(worked(broker) - before)
    assert sorted(pings)[len(pings) * 9 // 10] < USUAL
    assert max(pings) < WAIT
    assert max(others) < WAIT
    assert max(logins) < WAIT
    assert max(health) < END
    before = worked(broker)
    os.kill(broker.pid, signal.SIGTERM)
    state = Path(f"/proc/{broker.pid}/stat")
    while state.read_text().rpartition(") ")[2][0] != "Z":
        time.sleep(0.005)
    assert worked(broker) - before < END
