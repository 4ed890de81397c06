"""
A permission has the same effect everywhere. A user with few permissions tries the broker that has
the streams, WebSocket, another member of the cluster and another cluster.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from natsbroker.testing.process import BrokerProcess, startBroker
from natsbroker.websocket.frames import FrameReader, FrameWriter
from tests.websocket.memory import REQUEST

PATIENCE = 20

ACCOUNTS = """
accounts {
    SYS { users: [ {user: sys, password: sys} ] }
    A {
        JETSTREAM
        users: [
            {user: owner, password: owner}
            {user: some, password: some, permissions {
                publish: ["some.>", "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$NB.API.>", "$SYS.>"]
                subscribe: "_INBOX.>"
            }}
        ]
    }
}
system_account: SYS
"""

HUB = """
server_name: hub
jetstream { backend: memory }
streaming { account: A, cluster_id: c, store: memory }
cluster { name: one, listen: "127.0.0.1:-1" }
gateway { name: one, listen: "127.0.0.1:-1" }
websocket { listen: "127.0.0.1:-1", no_tls: true }
""" + ACCOUNTS.replace("JETSTREAM", "jetstream: enabled")

MEMBER = """
server_name: member
cluster { name: one, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:%s"] }
gateway { name: one, listen: "127.0.0.1:-1" }
""" + ACCOUNTS.replace("JETSTREAM", "")

OTHER = """
server_name: other
gateway {
    name: two, listen: "127.0.0.1:-1"
    gateways: [ {name: one, url: "nats://127.0.0.1:%s"} ]
}
""" + ACCOUNTS.replace("JETSTREAM", "")

#: What the user may not ask for, or may not learn by asking.
DENIED: list[tuple[str, Any]] = [
    ("$JS.API.STREAM.INFO.S", {}),
    ("$JS.API.STREAM.MSG.GET.S", {"seq": 1}),
    ("$JS.API.DIRECT.GET.S", {"seq": 1}),
    ("$JS.API.DIRECT.GET.S.s.x", {}),
    ("$JS.API.STREAM.PURGE.S", {}),
    ("$JS.API.STREAM.DELETE.S", {}),
    ("$JS.API.STREAM.CREATE.T", {"name": "T"}),
    ("$JS.API.STREAM.SNAPSHOT.S", {"deliver_subject": "_INBOX.s"}),
    (
        "$JS.API.CONSUMER.CREATE.S",
        {"stream_name": "S", "config": {"deliver_subject": "_INBOX.d", "ack_policy": "none"}},
    ),
    ("$JS.API.CONSUMER.DELETE.S.c", {}),
    ("$JS.API.CONSUMER.MSG.NEXT.S.c", {"batch": 1, "no_wait": True}),
    ("$JS.ACK.S.c.1.1.1.1.0", {}),
    ("$NB.API.STREAM.INFO._.S", {}),
    ("$NB.API.STREAM.EXPORT._.S", {"start": 1, "stop": 9}),
    ("$NB.API.STREAM.HOLD._.S", {"name": "h", "floor": 1}),
    ("_STAN.discover.c", {}),
    ("_STAN.pub.c.x", {}),
    ("s.x", {}),
    ("$SYS.REQ.SERVER.PING.VARZ", {}),
    ("$SYS.REQ.ACCOUNT.SYS.CONNZ", {}),
]


_NUMBERS = count()


class Client:
    """
    A client over a socket, perhaps with WebSocket.
    """

    def __init__(self, port: int, user: str, isWebSocket: bool = False) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._rest, self._count = b"", 0
        self._inbox = f"_INBOX.{next(_NUMBERS)}"
        self._frames: tuple[FrameWriter, FrameReader] | None = None
        if isWebSocket:
            self._socket.sendall(REQUEST % (b"/", b""))
            self.until(rb"\r\n\r\n")
            self._frames = FrameWriter(isMasked=True), FrameReader(False)
            self._frames[1].feed(self._rest)
            self._rest = b""
        options = {"user": user, "pass": user, "verbose": False, "headers": True}
        self.send(f"CONNECT {json.dumps(options)}\r\nSUB {self._inbox}.> 1\r\nPING\r\n".encode())
        self.until(rb"PONG\r\n")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data if self._frames is None else self._frames[0].frames(data))

    def until(self, pattern: bytes) -> bytes:
        """All input up to a match of the pattern."""
        while (match := re.search(pattern, self._rest)) is None:
            more = self._socket.recv(1 << 16)
            assert more, self._rest
            if self._frames is not None:
                self._frames[1].feed(more)
                frames = iter(self._frames[1].next, None)
                more = b"".join(frame for frame in frames if isinstance(frame, bytes))
            self._rest += more
        heard, self._rest = self._rest[: match.end()], self._rest[match.end() :]
        return heard

    def join(self) -> None:
        """Wait until requests of this client reach the streams."""
        deadline = time.monotonic() + PATIENCE
        self._socket.settimeout(0.5)
        request = f"PUB $JS.API.STREAM.NAMES {self._inbox}.join 0\r\n\r\n".encode()
        while True:
            self.send(request)
            try:
                self.until(rb'"S"')
                break
            except TimeoutError:
                assert time.monotonic() < deadline
        self._socket.settimeout(PATIENCE)

    def ask(self, subject: str, body: Any = None) -> bytes:
        """The bytes that arrive until two later requests have been answered."""
        self._count += 1
        payload = b"" if body is None else json.dumps(body).encode()
        head = f"PUB {subject} {self._inbox}.{self._count} {len(payload)}\r\n"
        self.send(head.encode() + payload + b"\r\n")
        heard = b""
        for letter in "ab":
            inbox = f"{self._inbox}.{letter}{self._count}".encode()
            self.send(b"PUB $JS.API.INFO %b 0\r\n\r\n" % inbox)
            heard += self.until(rb"MSG %b 1 .*\r\n.*\r\n" % inbox)
        return heard


def _ports(broker: BrokerProcess) -> dict[str, int]:
    """The ports that a broker listens on, by their purpose."""
    lines = re.findall(r"Listening for (\w+) \w+ on \S*:(\d+)", broker.log)
    return {kind: int(port) for kind, port in lines}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    """A client of the user at each place, and a client of the owner of the streams."""
    folder: Path = tmp_path_factory.mktemp("places")
    with ExitStack() as running:

        def start(name: str, text: str) -> BrokerProcess:
            config = folder / f"{name}.conf"
            config.write_text(text)
            return running.enter_context(startBroker("-c", str(config)))

        hub = start("hub", HUB)
        ports = _ports(hub)
        member = start("member", MEMBER % ports["route"])
        other = start("other", OTHER % ports["gateways"])
        owner = Client(hub.port, "owner")
        stream = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
        owner.ask("$JS.API.STREAM.CREATE.S", stream)
        owner.ask("s.x", "SECRET")
        config = {"durable_name": "c", "ack_policy": "explicit"}
        owner.ask("$JS.API.CONSUMER.DURABLE.CREATE.S.c", {"stream_name": "S", "config": config})
        owner.ask("$JS.API.CONSUMER.MSG.NEXT.S.c", {"batch": 1, "no_wait": True})
        peers = {
            "owner": owner,
            "hub": Client(hub.port, "some"),
            "websocket": Client(ports["websocket"], "some", True),
            "member": Client(member.port, "some"),
            "other cluster": Client(other.port, "some"),
        }
        for peer in peers.values():
            peer.join()
        yield peers


@pytest.mark.realtime
@pytest.mark.parametrize("place", ["hub", "websocket", "member", "other cluster"])
def test_sameEverywhere(clients: dict[str, Client], place: str) -> None:
    """A denied request changes nothing and reveals nothing, wherever the user is connected."""
    owner, client = clients["owner"], clients[place]
    shown = [
        ("$JS.API.STREAM.INFO.S", rb'"state":(\{.*?\})'),
        ("$JS.API.CONSUMER.INFO.S.c", rb'"num_ack_pending":(\d+)'),
        ("$JS.API.CONSUMER.NAMES.S", rb'"consumers":(\[.*?\])'),
        ("$JS.API.STREAM.NAMES", rb'"streams":(\[.*?\])'),
        ("$NB.API.STREAM.INFO._.S", rb'"holds": (\[.*?\])'),
    ]

    def state() -> list[list[bytes]]:
        return [re.findall(pattern, owner.ask(subject)) for subject, pattern in shown]

    before = state()
    assert all(before), before
    for subject, body in DENIED:
        told = client.ask(subject, body)
        for secret in (b"SECRET", b'"first_seq"', b'"identity"', b'"server_id"', b"+OK"):
            assert secret not in told, (subject, told)
    assert state() == before
    assert b'"S"' in client.ask("$JS.API.STREAM.NAMES")
