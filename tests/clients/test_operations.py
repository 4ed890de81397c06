"""
The operations of an accepted client.

The conformance table has most of them; these tests have the rest.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind, Message
from tests.clients.lines import MIB, msg, pub
from tests.server.support import Host
from tests.support import (
    HEADERS,
    Doorkeeper,
    Names,
    Recorder,
    Wire,
    World,
    onEach,
)

pytestmark = pytest.mark.usefixtures("implementation")


@onEach
class TestPermissions:
    """The permissions of the grant."""

    def client(self, grant: Grant, hello: bytes = HEADERS) -> tuple[World, Wire]:
        """A client with this grant."""
        world = World(authorizer=Doorkeeper(lambda hello: grant))
        return world, world.client(hello)

    def test_publish(self) -> None:
        """A denied publish gets an error with its subject each time. An allowed one gets none."""
        _, wire = self.client(Grant(publish=PermissionSet([b"ok"])))
        wire.ask(b"SUB > 1\r\n")
        answer = wire.ask(pub(b"no", b"1") + pub(b"ok", b"2") + pub(b"no", b"3"))
        refusal = b"-ERR 'Permissions Violation for Publish to \"no\"'\r\n"
        assert answer == refusal + msg(b"ok", b"1", b"2") + refusal

    def test_subscribe(self) -> None:
        """A subscription that is denied is not created. Its sid stays free."""
        _, wire = self.client(Grant(subscribe=SubscribePermissions([b"ok"])))
        refusal = b"-ERR 'Permissions Violation for Subscription to \"no\"'\r\n"
        assert wire.ask(b"SUB no 1\r\nSUB ok 1\r\n" + pub(b"ok", b"x")) == refusal + msg(
            b"ok", b"1", b"x"
        )

    def test_filtered(self) -> None:
        """
        A subscription that includes a denied subject is accepted. Messages on this subject are not
        delivered.
        """
        _, wire = self.client(Grant(subscribe=SubscribePermissions(None, [b"a.secret"])))
        wire.ask(b"SUB a.* 1\r\n")
        assert wire.ask(pub(b"a.secret", b"x") + pub(b"a.b", b"y")) == msg(b"a.b", b"1", b"y")

    def test_responses(self) -> None:
        """A client that may only answer requests can answer each as often as its grant allows."""
        grant = Grant(responses=ResponsePermission(2, 10), subscribe=SubscribePermissions([b"ask"]))
        world, wire = self.client(grant)
        wire.ask(b"SUB ask 1\r\n")
        world.authorizer.answer = lambda hello: Grant()
        asker = world.client()
        asker.ask(b"SUB _INBOX.> 1\r\n")
        refusal = b"-ERR 'Permissions Violation for Publish to \"_INBOX.a\"'\r\n"
        assert wire.ask(pub(b"_INBOX.a", b"early")) == refusal
        asker.ask(pub(b"ask", b"?", b"_INBOX.a"))
        assert wire.receive() == b"MSG ask 1 _INBOX.a 1\r\n?\r\n"
        assert wire.ask(pub(b"_INBOX.a", b"1"), pub(b"_INBOX.a", b"2")) == b""
        assert wire.ask(pub(b"_INBOX.a", b"3")) == refusal
        assert asker.receive() == msg(b"_INBOX.a", b"1", b"1") + msg(b"_INBOX.a", b"1", b"2")
        asker.ask(pub(b"ask", b"?", b"_INBOX.a"))
        world.advance(10.1)
        wire.receive()
        assert wire.ask(pub(b"_INBOX.a", b"late")) == refusal

    def test_ownLimits(self) -> None:
        """The limits of a grant replace those of the server."""
        world, wire = self.client(Grant(maxPayload=3, maxSubscriptions=1))
        assert wire.ask(b"SUB a 1\r\nSUB b 2\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert wire.ask(b"PUB a 4\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"
        world.authorizer.answer = lambda hello: Grant(maxPayload=-1)
        generous = world.client()
        assert generous.ask(b"PUB a %d\r\n" % (2 * MIB)) == b""
        assert generous.closed == ""

    def test_namesAreNotTrusted(self) -> None:
        """An error that names a subject of any bytes is one printable line."""
        _, wire = self.client(Grant(publish=PermissionSet([])))
        answer = wire.ask(pub(b"\xff\xfe'%s", b""))
        assert answer == b"-ERR 'Permissions Violation for Publish to \"\\xff\\xfe'%s\"'\r\n"


@onEach
class TestServices:
    """Clients and services inside the broker."""

    def test_both(self) -> None:
        """A service receives requests of clients and answers them."""
        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)
        service = Recorder(lambda message: bus.publish(Message(message.reply, b"answer")))
        bus.subscribe(b"ask", service, "tag")
        wire = world.client()
        wire.ask(b"SUB here 1\r\n")
        assert wire.ask(pub(b"ask", b"?", b"here")) == msg(b"here", b"1", b"answer")
        assert service.tags == ["tag"]

    def test_publishingOutsideOfInput(self) -> None:
        """A message that a service publishes without input of a client is sent soon."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n")
        world.accounts["$G"].busFor(Kind.INTERNAL).publish(Message(b"foo", b"x"))
        assert wire.transport.take() == b""
        assert wire.receive() == msg(b"foo", b"1", b"x")

    def test_filter(self) -> None:
        """A filter sees every message of a client, also of one that used the lane before."""
        world = World()
        wire = world.client()
        wire.ask(b"SUB foo 1\r\n" + pub(b"foo", b"before"))
        seen: list[bytes] = []

        class Filter:
            def filterMessage(self, message: Message, kind: int) -> Message | None:
                seen.append(message.body)
                return None

        remove = world.accounts["$G"].delivery.filters.add(Filter())  # type: ignore[arg-type]
        assert wire.ask(pub(b"foo", b"during")) == b""
        remove()
        assert wire.ask(pub(b"foo", b"after")) == msg(b"foo", b"1", b"after")
        assert seen == [b"during"]


@onEach
class TestMapped:
    """Clients of an account that maps subjects."""

    @staticmethod
    def world(authorizer: Doorkeeper | None = None, **destinations: str) -> World:
        """A world in which the global account has mappings."""
        world = World(authorizer=authorizer)
        made = [Mapping(a.encode(), [Destination(b.encode())]) for a, b in destinations.items()]
        table = MappingTable(made, Random(1).randrange)
        world.accounts["$G"].mapSubjects(table)
        return world

    @pytest.mark.parametrize("hello", [HEADERS, b'CONNECT {"verbose":false,"pedantic":true}\r\n'])
    def test_mapped(self, hello: bytes) -> None:
        """A client's publish is mapped to its destination."""
        wire = self.world(None, **{"in.*": "out.$1"}).client(hello)
        wire.ask(b"SUB > 1\r\n")
        assert wire.ask(pub(b"in.a", b"x", b"r")) == b"MSG out.a 1 r 1\r\nx\r\n"

    def test_permissions(self) -> None:
        """
        The destination of a mapping decides whether a message may be published. nats-server checks
        nothing else.
        """
        grant = Grant(publish=PermissionSet([b"out"], []))
        world = self.world(Doorkeeper(lambda hello: grant), **{"in": "out", "out": "else"})
        wire = world.client()
        assert wire.ask(pub(b"in", b"x")) == b""
        assert wire.ask(pub(b"out", b"x")) == (
            b"-ERR 'Permissions Violation for Publish to \"else\"'\r\n"
        )

    def test_nowhere(self) -> None:
        """A request that is mapped to an empty subject has no responders."""
        world = self.world(None, **{"in.*": "{{split(1,-)}}"})
        wire = world.client(HEADERS)
        wire.ask(b"SUB r 1\r\n")
        block = b"NATS/1.0 503\r\nNats-Subject: \r\n\r\n"
        assert wire.ask(pub(b"in.--", b"x", b"r")) == (
            b"HMSG r 1 %d %d\r\n%b\r\n" % (len(block), len(block), block)
        )

    def test_noResponders(self) -> None:
        """The status for no responders has the mapped subject of the request."""
        wire = self.world(None, **{"in": "out"}).client(HEADERS)
        wire.ask(b"SUB r 1\r\n")
        assert b"Nats-Subject: out\r\n" in wire.ask(pub(b"in", b"x", b"r"))

    def test_reserved(self) -> None:
        """Reserved subjects cannot be published to through a mapping."""
        wire = self.world(None, **{"in": "$NRG.x"}).client()
        assert b"Permissions Violation" in wire.ask(pub(b"in", b"x"))


@onEach
def test_tooLargeMessageIsTraced(names: Names) -> None:
    """A message that is too large is traced before its publisher is disconnected."""
    host = Host("max_payload: 100, fast_lane: false").start()
    listener = host.client()
    listener.ask(b"SUB t 1\r\n")
    block = b"NATS/1.0\r\nNats-Trace-Dest: t\r\n\r\n"
    hello = b'CONNECT {"verbose":false,"headers":true,"name":"me"}\r\n'
    for headers in (block, block.replace(b"Dest", b"Hops")):
        publisher = host.client(hello)
        line = b"HPUB foo %d 5000\r\n" % len(headers)
        assert publisher.ask(line + headers + b"hi") == b"-ERR 'Maximum Payload Violation'\r\n"
    _, document, rest = listener.receive().split(b"\r\n", 2)
    assert rest == b""
    trace = json.loads(document)
    assert trace["request"]["msgsize"] == 5000
    (event,) = trace["events"]
    assert (event["name"], event["error"]) == ("me", "maximum payload exceeded")
