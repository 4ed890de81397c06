"""
Message tracing, compared with nats-server for the same clients: the same events, the same
deliveries, the same errors.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.linked import Circle, filled
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour, Server

CONFIG = """
server_name: s1
jetstream { store_dir: "$DIR" }
accounts {
  A {
    jetstream: true
    users: [
      { user: a, password: a }
      { user: d, password: d, permissions { publish { deny: [deny.x, tdeny.x] } } }
    ]
    mappings { "map.in": "map.out" }
    exports: [
      { service: svc.open, allow_trace: true }, { service: svc.shut }
      { stream: "str.open" }, { stream: "str.shut" }
    ]
    msg_trace: { dest: trace.parent, sampling: 100 }
  }
  B {
    users: [ { user: b, password: b } ]
    imports: [
      { service: { account: A, subject: svc.open }, to: b.open }
      { service: { account: A, subject: svc.shut }, to: b.shut }
      { stream: { account: A, subject: str.open }, to: got.open, allow_trace: true }
      { stream: { account: A, subject: str.shut }, to: got.shut }
    ]
  }
  $SYS { users: [ { user: s, password: s } ] }
}
"""

PARENT = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-%s"
DEST = "Nats-Trace-Dest: trace.x"
ONLY = "Nats-Trace-Only: true"

#: Publishes: who, the subject, the headers, whether with a reply subject.
CASES: dict[str, tuple[str, str, tuple[str, ...], bool]] = {
    "plain": ("a", "foo.1", (DEST,), False),
    "only": ("a", "foo.1", (DEST, ONLY), False),
    "only spelled otherwise": ("a", "foo.1", (DEST, "Nats-Trace-Only: yes"), False),
    "headers": ("a", "foo.1", ("B: 2", "A: <1>", "B: 1", DEST, "Empty:"), False),
    "groups": ("a", "grp.1", (DEST,), False),
    "groups only": ("a", "grp.1", (DEST, ONLY), False),
    "nobody": ("a", "none", (DEST,), True),
    "nobody only": ("a", "none", (DEST, ONLY), True),
    "request only": ("a", "foo.1", (DEST, ONLY), True),
    "mapping": ("a", "map.in", (DEST,), False),
    "denied": ("d", "deny.x", (DEST,), False),
    "dest denied": ("d", "foo.1", ("Nats-Trace-Dest: tdeny.x",), False),
    "dest invalid": ("a", "foo.1", ("Nats-Trace-Dest: a.*",), False),
    "dest invalid only": ("a", "foo.1", ("Nats-Trace-Dest: a.*", ONLY), False),
    "disabled": ("a", "foo.1", ("Nats-Trace-Dest: trace disabled",), False),
    "only without dest": ("a", "foo.1", (ONLY,), False),
    "service": ("b", "b.open", (DEST,), True),
    "service only": ("b", "b.open", (DEST, ONLY), True),
    "service shut": ("b", "b.shut", (DEST,), True),
    "service shut only": ("b", "b.shut", (DEST, ONLY), True),
    "stream": ("a", "str.open", (DEST,), False),
    "stream only": ("a", "str.open", (DEST, ONLY), False),
    "stream shut": ("a", "str.shut", (DEST,), False),
    "stream shut only": ("a", "str.shut", (DEST, ONLY), False),
    "parent": ("a", "foo.1", (PARENT % "01",), False),
    "parent in capitals": ("a", "foo.1", ((PARENT % "01").upper(),), False),
    "parent not sampled": ("a", "foo.1", (PARENT % "00",), False),
    "parent of no account": ("b", "foo.1", (PARENT % "01",), False),
    "gzip": ("a", "foo.1", (DEST, "Accept-Encoding: gzip"), False),
    "identity": ("a", "foo.1", (DEST, "Accept-Encoding: br"), False),
    "stored": ("a", "ord.1", (DEST,), True),
    "stored only": ("a", "ord.1", (DEST, ONLY), True),
    "wrong last id": ("a", "ord.1", (DEST, "Nats-Expected-Last-Msg-Id: nope"), True),
    "wrong sequence": ("a", "ord.1", (DEST, "Nats-Expected-Last-Sequence: 99"), True),
    "wrong sequence only": ("a", "ord.1", (DEST, ONLY, "Nats-Expected-Last-Sequence: x"), True),
    "wrong of subject": ("a", "ord.1", (DEST, "Nats-Expected-Last-Subject-Sequence: 9"), True),
    "wrong stream": ("a", "ord.1", (DEST, "Nats-Expected-Stream: OTHER"), True),
    "no rollup": ("a", "ord.1", (DEST, "Nats-Rollup: all"), True),
    "no time to live": ("a", "ord.1", (DEST, "Nats-TTL: 1s"), True),
    "no counter": ("a", "ord.1", (DEST, "Nats-Incr: 1"), True),
    "no room": ("a", "full.1", (DEST,), True),
    "no room only": ("a", "full.1", (DEST, ONLY), True),
    "id": ("a", "ord.1", (DEST, "Nats-Msg-Id: one"), True),
    "duplicate": ("a", "ord.1", (DEST, "Nats-Msg-Id: one"), True),
    "duplicate only": ("a", "ord.1", (DEST, ONLY, "Nats-Msg-Id: one"), True),
    "to the destination": ("a", "trace.x", (DEST,), False),
}


#: Requests that nobody answers.
UNANSWERED = (
    "request only",
    "service",
    "service only",
    "service shut",
    "stored only",
    "no room only",
)

#: A stream, and one that takes no second message.
STREAMS: list[dict[str, Any]] = [
    {"name": "ORD", "subjects": ["ord.*"], "storage": "memory"},
    {"name": "FULL", "subjects": ["full.*"], "storage": "memory", "max_msgs": 1, "discard": "new"},
]


class Collected(Client):
    """
    A client that records errors.

    @ivar errors: the error lines.
    """

    def __init__(self, server: Server, user: str) -> None:
        self.errors: list[bytes] = []
        super().__init__(server, user)

    def _frame(self, frame: bytes) -> None:
        if frame.startswith(b"-ERR"):
            self.errors.append(frame)
        else:
            super()._frame(frame)


def documentOf(headers: bytes, body: bytes) -> Any:
    """A trace without values that differ between runs, and its headers."""
    document = json.loads(gzip.decompress(body) if b"gzip" in headers else body)
    del document["server"]
    for event in document["events"]:
        del event["ts"]
        event.pop("cid", None)
    document["events"].sort(key=json.dumps)
    for values in document["request"].get("header", {}).values():
        values[:] = ["_R_" if value.startswith("_R_") else value for value in values]
    return headers, document


class Side:
    """
    A server, and clients that subscribe.

    @ivar answers: the client of a case that has a reply subject, and its subscription to that.
    """

    answers: tuple[Collected, bytes] | None = None

    def __init__(self, flavour: Flavour, directory: Path) -> None:
        store = directory / "store"
        config = CONFIG.replace("$DIR", str(store))
        self.server = Server(flavour, directory, config).start()
        self.clients = {name: Collected(self.server, name) for name in "abd"}
        listener, self.importer = self.clients["a"], self.clients["b"]
        self.traces = [
            (client, client.subscribe(subject))
            for client in (listener, self.importer)
            for subject in (b"trace.x", b"trace.parent")
        ]
        self.receiver = Collected(self.server, "a")
        subjects = (b"foo.*", b"map.out", b"svc.*", b"str.*", b"ord.*")
        self.deliveries = [(self.receiver, self.receiver.subscribe(token)) for token in subjects]
        self.deliveries.append((self.receiver, self.receiver.subscribe(b"grp.1", b"q1")))
        self.deliveries.append((self.receiver, self.receiver.subscribe(b"grp.*", b"q2")))
        self.deliveries.append((self.importer, self.importer.subscribe(b"got.*")))
        inbox = self.receiver.subscribe(b"_INBOX.made")
        for stream in STREAMS:
            subject, body = f"$JS.API.STREAM.CREATE.{stream['name']}", json.dumps(stream)
            self.receiver.publish(subject.encode(), body.encode(), b"_INBOX.made")
            self.receiver.take(inbox, 1)
        self.receiver.publish(b"full.1", b"first", b"_INBOX.made")
        self.receiver.take(inbox, 1)

    def publish(self, name: str) -> None:
        """Publish the message of a case."""
        self.clear()
        user, subject, headers, isRequest = CASES[name]
        client = self.clients[user]
        reply = b"_INBOX.%d" % len(name) if isRequest else b""
        self.answers = (client, client.subscribe(reply)) if isRequest else None
        block = "\r\n".join(["NATS/1.0", *headers, "", ""]).encode()
        client.publish(subject.encode(), b"hi", reply, block)
        client.flush()
        if self.answers is not None and name not in UNANSWERED:
            # A stream answers after the PONG at times.
            client.waitFor(self.answers[1], 1)

    def outcome(self) -> dict[str, Any]:
        """
        @return: the result of the case so far.
        """
        for _ in range(2):
            for peer in (*self.clients.values(), self.receiver):
                peer.flush()
        answers = [] if self.answers is None else self.answers[0].got[self.answers[1]]
        return {
            "errors": [client.errors[:] for client in self.clients.values()],
            "traces": self.tracesFound(),
            "deliveries": [
                [(masked(headers), body) for _, headers, body in client.got[sid]]
                for client, sid in self.deliveries
            ],
            "answers": [(headers, body.startswith(b'{"error"')) for _, headers, body in answers],
        }

    def tracesFound(self) -> list[Any]:
        """
        @return: the traces that have come to each subscription.
        """
        return [
            [
                documentOf(headers, body) if body != b"hi" else (headers, body)
                for _, headers, body in client.got[sid]
            ]
            for client, sid in self.traces
        ]

    def clear(self) -> None:
        """Remove the messages of a case."""
        if self.answers is not None:
            client, sid = self.answers
            client.unsubscribe(sid)
            self.answers = None
        for peer in (*self.clients.values(), self.receiver):
            peer.errors.clear()
            peer.clear()

    def close(self) -> None:
        """Close the clients."""
        for client in (*self.clients.values(), self.receiver):
            client.close()
        self.server.stop()


def masked(headers: bytes) -> bytes:
    """Headers of a delivery without values that differ between runs."""
    lines = [
        line.partition(b"_R_")[0] if b"_R_" in line else line
        for line in headers.split(b"\r\n")
        if not line.startswith(b"Nats-Request-Info")
    ]
    return b"\r\n".join(lines)


def assertSame(real: Side | World, other: Side | World) -> None:
    """
    Assert that both servers have the same result. nats-server sometimes sends traces after a PONG.
    """
    deadline = time.monotonic() + PATIENCE
    while (expected := real.outcome()) != (actual := other.outcome()):
        if time.monotonic() > deadline:
            assert actual == expected
        time.sleep(0.05)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """
    nats-server and natsbroker.
    """
    made = [Side(flavour, tmp_path_factory.mktemp("tracing")) for flavour in (REAL, OURS_FAST)]
    yield made[0], made[1]
    for side in made:
        side.close()


@pytest.mark.parametrize("name", CASES)
def test_sameTraces(name: str, sides: tuple[Side, Side]) -> None:
    """A message has the same events, receivers, answers and errors at both servers."""
    for side in sides:
        side.publish(name)
    assertSame(*sides)


@pytest.mark.parametrize("flavour", (REAL, OURS_FAST), ids=str)
@pytest.mark.parametrize("subject", [b"$JS.API.INFO", b"$JS.API.STREAM.INFO.ORD", b"$JS.API.NOPE"])
def test_serviceOnly(flavour: Flavour, subject: bytes, sides: tuple[Side, Side]) -> None:
    """A request of the API that is traced only is answered at once that nobody answers it."""
    side = sides[flavour is OURS_FAST]
    client = Collected(side.server, "a")
    block = f"NATS/1.0\r\nNats-Trace-Dest: elsewhere\r\n{ONLY}\r\n\r\n".encode()
    inbox = client.subscribe(b"_INBOX.only")
    client.publish(subject, b"", b"_INBOX.only", block)
    client.waitFor(inbox, 1)
    [(_, headers, _)] = client.got[inbox]
    assert headers.startswith(b"NATS/1.0 503\r\n")
    client.close()


@pytest.mark.parametrize("headers", [(DEST,), (DEST, ONLY), (PARENT % "01",), ("A: 1",)])
def test_tooLarge(headers: tuple[str, ...], sides: tuple[Side, Side]) -> None:
    """A message that is too large is traced before its publisher is disconnected."""
    block = "\r\n".join(["NATS/1.0", *headers, "", ""]).encode()
    errors = []
    for side in sides:
        side.clear()
        publisher = Collected(side.server, "a")
        line = b"HPUB foo.1 %d %d\r\n" % (len(block), len(block) + (1 << 20))
        publisher.send(line + block + b"some of it")
        with pytest.raises(ConnectionError):
            publisher.flush()
        publisher.close()
        errors.append(publisher.errors)
    assert errors[1] == errors[0]
    assertSame(*sides)


LINKED = """
server_name: $NAME
system_account: "$SYS"
accounts {
  A { users: [ {user: a, password: a} ]
      exports: [ { service: svc.open, allow_trace: true }, { stream: str.open } ] }
  B { users: [ {user: b, password: b} ]
      imports: [
        { service: { account: A, subject: svc.open }, to: b.open }
        { stream: { account: A, subject: str.open }, to: got.open, allow_trace: true } ] }
  $SYS { users: [ {user: s, password: s} ] }
}
"""

_CLUSTER = """
cluster { name: C1, listen: "127.0.0.1:$ROUTE", routes: [ $ROUTES ] }
gateway { name: C1, listen: "127.0.0.1:$GATEWAY",
          gateways: [ { name: C2, urls: ["nats://127.0.0.1:$OTHER"] } ] }
"""
_LEAFS = 'leafnodes { listen: "127.0.0.1:$LEAF" }\n'
_LEAF = 'leafnodes { remotes: [ { url: "nats://a:a@127.0.0.1:$LEAF", account: A } ] }\n'
_GATEWAY = """
gateway { name: C2, listen: "127.0.0.1:$OTHER",
          gateways: [
            { name: C1, urls: ["nats://127.0.0.1:$GATEWAY", "nats://127.0.0.1:$GATEWAY2"] } ] }
"""

#: Publishes over links: the place of the publisher, its user, the subject, the headers.
LINKED_CASES = {
    "everywhere from s1": (0, "a", "all", (DEST,)),
    "everywhere from s1 only": (0, "a", "all", (DEST, ONLY)),
    "everywhere from s2": (1, "a", "all", (DEST,)),
    "everywhere from l1": (2, "a", "all", (DEST,)),
    "everywhere from l1 only": (2, "a", "all", (DEST, ONLY)),
    "service from s1": (0, "b", "b.open", (DEST,)),
    "service from s1 only": (0, "b", "b.open", (DEST, ONLY)),
    "stream from s1": (0, "a", "str.open", (DEST,)),
    "headers": (2, "a", "all", (DEST, "X: 1", "Nats-Trace-Hop: 7")),
}


def freePorts(count: int) -> list[int]:
    """Ports that are free at present."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(bound.getsockname()[1]) for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports


class World:
    """
    A cluster of two servers, a leafnode of the first one, and another cluster.
    """

    NAMES = ("s1", "s2", "l1", "g1")

    def __init__(self, flavours: tuple[Flavour, ...], directory: Path) -> None:
        """
        @param flavours: the kinds of the servers, in the order of their names.
        """
        route1, route2, gateway1, gateway2, other, leaf = freePorts(6)
        texts = [
            filled(_CLUSTER + _LEAFS, ROUTES="", ROUTE=route1, GATEWAY=gateway1),
            filled(_CLUSTER, ROUTES=f'"nats://127.0.0.1:{route1}"', ROUTE=route2, GATEWAY=gateway2),
            _LEAF,
            filled(_GATEWAY, GATEWAY2=gateway2, GATEWAY=gateway1),
        ]
        self.servers = []
        for flavour, name, text in zip(flavours, self.NAMES, texts, strict=True):
            folder = directory / name
            folder.mkdir()
            config = filled(LINKED + text, NAME=name, OTHER=other, LEAF=leaf)
            self.servers.append(Server(flavour, folder, config).start())
        self.circle = Circle([(server, "a") for server in self.servers])
        for place in range(4):
            self.circle.connect(place)
        self.circle.form()
        self.receivers = [Collected(server, "a") for server in self.servers]
        self.deliveries = [
            (receiver, receiver.subscribe(subject))
            for receiver in self.receivers
            for subject in (b"all", b"svc.open", b"str.open")
        ]
        self.importers = [Collected(server, "b") for server in self.servers]
        self.deliveries += [(importer, importer.subscribe(b"got.>")) for importer in self.importers]
        self.traces = [
            (client, client.subscribe(b"trace.>"))
            for client in (self.receivers[0], self.importers[0])
        ]
        for _ in range(2):  # Clusters learn of interest with the first messages.
            self.publish("service from s1")
            self._settle()

    def _settle(self) -> None:
        for _ in range(3):
            for client in (*self.receivers, *self.importers):
                client.flush()
            self.circle.sync()

    def publish(self, name: str) -> None:
        """Publish the message of a case."""
        for peer in (*self.receivers, *self.importers):
            peer.clear()
        place, user, subject, headers = LINKED_CASES[name]
        block = "\r\n".join(["NATS/1.0", *headers, "", ""]).encode()
        client = (self.receivers if user == "a" else self.importers)[place]
        client.publish(subject.encode(), b"hi", b"", block)
        self._settle()
        time.sleep(0.05)  # until traces have come too

    def outcome(self) -> Any:
        """
        @return: the result of the case so far.
        """
        self._settle()
        traces: dict[str, list[Any]] = {}
        for place, (peer, sid) in enumerate(self.traces):
            for _, headersOf, body in peer.got[sid]:
                server = json.loads(body)["server"]["name"]
                trace = traces.setdefault(f"{server} {place}", [])
                trace.append(ordered(documentOf(headersOf, body)[1]))
        return {
            "traces": traces,
            "deliveries": [
                sorted((unnumbered(masked(headers)), body) for _, headers, body in client.got[sid])
                for client, sid in self.deliveries
            ],
        }

    def close(self) -> None:
        """Close the clients, and stop the servers."""
        self.circle.close()
        for client in (*self.receivers, *self.importers):
            client.close()
        for server in self.servers:
            server.stop()


def ordered(document: Any) -> Any:
    """A trace whose hops are not numbered, because servers order their links differently."""
    for event in document["events"]:
        if "hop" in event:
            event["hop"] = event["hop"].count(".")
    headers = document["request"].get("header", {})
    if headers.pop("Nats-Request-Info", None):
        del document["request"]["msgsize"]
    for values in headers.values():
        values[:] = [value.count(".") if value[:1].isdigit() else value for value in values]
    document["events"].sort(key=json.dumps)
    return document


def unnumbered(headers: bytes) -> bytes:
    """Headers with the number of hops instead of the hop itself."""
    return re.sub(rb"(?<=Hop: )[0-9.]+", lambda match: b"%d" % match[0].count(b"."), headers)


#: Mixed worlds to be compared with one of nats-servers: all of them are a test by hand.
_WORLDS = [(OURS_FAST, REAL, REAL, OURS_FAST)]
if os.environ.get("NATSBROKER_TRACES"):
    _WORLDS += [(REAL, OURS_FAST, OURS_FAST, REAL), (OURS_FAST,) * 4]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """
    A world of nats-servers.
    """
    made = World((REAL,) * 4, tmp_path_factory.mktemp("world"))
    yield made
    made.close()


@pytest.mark.parametrize("flavours", _WORLDS, ids=str)
def test_links(flavours: tuple[Flavour, ...], real: World, tmp_path: Path) -> None:
    """
    Every server that a message reaches adds its events to the trace, also over links to the other
    kind of server.
    """
    mixed = World(flavours, tmp_path)
    try:
        for name in LINKED_CASES:
            for world in (real, mixed):
                world.publish(name)
            assertSame(real, mixed)
    finally:
        mixed.close()
