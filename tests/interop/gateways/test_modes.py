"""
Messages of a gateway to a cluster that does not want them, counted on the wire, and refusals of too
many subjects. The test plays the other cluster. nats-server 2.15 is not tested, because it no
longer begins in optimistic mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import showLogs
from tests.interop.gateways.wires import FakeGateway, Wire, command
from tests.interop.gateways.worlds import EVERYTHING, Plan, Site
from tests.interop.plainclients import Client
from tests.interop.servers import OURS, OURS_FAST, Flavour


@pytest.fixture(params=OURS if EVERYTHING else [OURS_FAST], ids=lambda pair: pair.name)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """Our server with the compiled lane, and in long runs without it too."""
    chosen: Flavour = request.param
    return chosen


@pytest.fixture
def fake() -> Iterator[FakeGateway]:
    """The cluster that the test plays."""
    with FakeGateway("GB") as gateway:
        yield gateway


@pytest.fixture
def site(
    flavour: Flavour, fake: FakeGateway, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """A server that dials the test's cluster."""
    plan = Plan(flavour, "GA", ["GB"], more="interest { switch_after: 20 }")
    server = Site(plan, tmp_path, "one", {"GB": fake.port}, None)
    showLogs(request.node, server)
    server.start()
    yield server
    server.stop()


def subjects(wire: Wire) -> list[bytes]:
    """The subjects of the messages in account A that have arrived."""
    return [frame.split()[2] for frame in wire.heard(b"RMSG A ")]


def published(client: Client, wire: Wire, *names: bytes) -> None:
    """Publish messages, and wait for a last one that is wanted."""
    for name in names:
        client.publish(name, b"x")
    client.publish(b"end", b"x")
    count = subjects(wire).count(b"end")
    wire.until(lambda: subjects(wire).count(b"end") > count, "end")


class TestSending:
    """Messages that the server sends to the test."""

    def test_optimistic(self, site: Site, fake: FakeGateway) -> None:
        """
        Each message is sent until its subject is refused, and later again if the refusal is
        withdrawn. A subject that is refused at once is sent once.
        """
        wire, client = fake.accept(), Client(site)
        names = [b"s.%d" % number for number in range(20)]
        for name in names:
            published(client, wire, name)
            wire.say(b"RS- A %b\r\n" % name)
            wire.pong()
        for _ in range(3):
            published(client, wire, *names)
        assert [name for name in subjects(wire) if name != b"end"] == names
        wire.say(b"RS+ A s.7\r\nRS+ A s.4*\r\n")
        wire.pong()
        published(client, wire, *names)
        assert [name for name in subjects(wire) if name != b"end"] == [*names, b"s.7"]
        wire.say(b"RS+ A s.*\r\n")
        wire.pong()
        published(client, wire, *names)
        assert [name for name in subjects(wire) if name != b"end"] == [*names, b"s.7", *names]
        client.close()

    def test_account(self, site: Site, fake: FakeGateway) -> None:
        """
        Messages of a refused account are not sent, and those of others are, until there is interest
        in the account again.
        """
        wire, client, other = fake.accept(), Client(site), Client(site, "b")
        client.publish(b"one", b"x")
        wire.until(lambda: subjects(wire) == [b"one"], "one")
        wire.say(b"A- A\r\n")
        wire.pong()
        client.publish(b"two", b"x")
        client.flush()
        other.publish(b"two", b"x")
        wire.until(lambda: wire.heard(b"RMSG B two"), "two of B")
        assert subjects(wire) == [b"one"]
        wire.say(b"RS+ A q g 1\r\n")
        wire.pong()
        client.publish(b"q", b"x")
        wire.until(lambda: wire.heard(b"RMSG A q | g 1\r\n"), "q")
        wire.say(b"A+ A\r\n")
        wire.pong()
        client.publish(b"three", b"x")
        wire.until(lambda: subjects(wire)[-1] == b"three", "three")
        client.close()
        other.close()

    def test_interestOnly(self, site: Site, fake: FakeGateway) -> None:
        """A cluster that announces all interest gets only messages that it subscribed to."""
        wire, client = fake.accept(gateway_iom=True), Client(site)
        wire.say(command("GB", 2, b"A") + b"RS+ A end\r\nRS+ A a.*\r\n" + command("GB", 3, b"A"))
        wire.pong()
        published(client, wire, b"a", b"a.b", b"a.b.c", b"b.a", b"a.c")
        assert subjects(wire) == [b"a.b", b"a.c", b"end"]
        wire.say(b"RS- A a.*\r\nRS+ A b.*\r\n")
        wire.pong()
        published(client, wire, b"a.b", b"b.a")
        assert subjects(wire) == [b"a.b", b"a.c", b"end", b"b.a", b"end"]
        client.close()

    def test_switch(self, site: Site, fake: FakeGateway) -> None:
        """
        All messages are sent between the two commands of a switch, and only wanted ones after it.
        """
        wire, client = fake.accept(), Client(site)
        published(client, wire, b"a", b"b")
        wire.say(b"RS- A a\r\nRS- A b\r\n" + command("GB", 2, b"A") + b"RS+ A b\r\nRS+ A end\r\n")
        wire.pong()
        published(client, wire, b"b", b"c")
        assert subjects(wire)[-3:] == [b"b", b"c", b"end"]
        wire.say(command("GB", 3, b"A"))
        wire.pong()
        published(client, wire, b"a", b"b", b"c")
        assert subjects(wire)[-2:] == [b"b", b"end"] and subjects(wire).count(b"c") == 1
        mode = site.modes()["GB"]
        assert (mode["interest_mode"], mode["num_subs"]) == ("Interest-Only", 2)
        assert mode["switches"] == 2
        client.close()

    def test_queues(self, site: Site, fake: FakeGateway) -> None:
        """
        A group in the other cluster gets messages for which there is no local member. Plain
        messages go to both clusters.
        """
        wire, client = fake.accept(), Client(site)
        wire.say(b"RS+ A work g 1\r\nRS+ A work h 1\r\n")
        wire.pong()
        here = client.subscribe(b"work", b"g")
        client.publish(b"work", b"1")
        wire.until(lambda: wire.heard(b"RMSG A work | h 1\r\n"), "h alone")
        assert client.take(here, 1) == [b"1"]
        client.unsubscribe(here)
        client.publish(b"work", b"2", b"reply")
        wire.until(lambda: wire.heard(b"RMSG A work + "), "both")
        (frame,) = wire.heard(b"RMSG A work + ")
        assert sorted(frame.split(b"\r\n")[0].split()[5:-1]) == [b"g", b"h"]
        client.close()

    def test_malformed(self, site: Site, fake: FakeGateway) -> None:
        """A command without an account ends the connection, and the server dials again."""
        wire = fake.accept()
        wire.say(b'INFO {"gateway":"GB","gateway_cmd":2}\r\n')
        wire.until(lambda: wire.closed or wire.heard(b"-ERR"), "an error")
        wanted = b"-ERR 'Account absent from receive-all-subscriptions-start command'\r\n"
        assert wire.heard(b"-ERR") == [wanted]
        fake.accept()


class TestTelling:
    """The interest that the server sends to the test."""

    def test_refusals(self, site: Site, fake: FakeGateway) -> None:
        """An unwanted subject is refused once, alone or with its account."""
        fake.accept()
        wire, client = fake.dial(site.gatewayPort), Client(site)
        wire.say(b"RMSG A one 1\r\nx\r\nRMSG A two 1\r\nx\r\nRMSG NOPE one 1\r\nx\r\n")
        wire.pong()
        assert wire.heard(b"A-") == [b"A- A\r\n", b"A- NOPE\r\n"]
        assert not wire.heard(b"RS- ") and not wire.heard(b"RS+ A ")
        ear = client.subscribe(b"other")
        wire.until(lambda: wire.heard(b"A+"), "A+")
        for _ in range(3):
            wire.say(b"RMSG A one 1\r\nx\r\nRMSG A other 1\r\ny\r\nRMSG A two 1\r\nx\r\n")
        wire.pong()
        assert wire.heard(b"RS-") == [b"RS- A one\r\n", b"RS- A two\r\n"]
        assert client.take(ear, 3) == [b"y"] * 3
        client.subscribe(b"tw*")
        more = client.subscribe(b"*")
        wire.until(lambda: wire.heard(b"RS+ A "), "RS+")
        assert wire.heard(b"RS+ A") == [b"RS+ A *\r\n"]
        wire.say(b"RMSG A one 1\r\nx\r\n")
        assert client.take(more, 1) == [b"x"]
        client.close()

    def test_queues(self, site: Site, fake: FakeGateway) -> None:
        """
        Queue groups are announced at once, with a weight of one. A group that the sender has not
        chosen gets nothing.
        """
        client = Client(site)
        members = [client.subscribe(b"work.*", b"g") for _ in range(2)]
        fake.accept()
        wire = fake.dial(site.gatewayPort)
        wire.until(lambda: wire.heard(b"RS+ A"), "RS+")
        wire.say(b"RMSG A work.1 1\r\nx\r\nRMSG A work.2 | g 1\r\ny\r\n")
        wire.pong()
        assert wire.heard(b"RS+ A") == [b"RS+ A work.* g 1\r\n"]
        assert wire.heard(b"RS- A") == [b"RS- A work.1\r\n", b"RS- A work.2\r\n"]
        assert [body for sid in members for body in client.arrived(sid)] == [b"y"]
        client.unsubscribe(members[0])
        client.unsubscribe(members[1])
        wire.until(lambda: wire.heard(b"RS- A work.* g"), "RS-")
        client.close()

    def test_switch(self, site: Site, fake: FakeGateway) -> None:
        """A sender of too many unwanted subjects gets all interest, and later every change."""
        client = Client(site)
        ears = [client.subscribe(b"ear.%d" % number) for number in range(3)]
        fake.accept()
        wire = fake.dial(site.gatewayPort)
        for number in range(40):
            wire.say(b"RMSG A no.%d 1\r\nx\r\n" % number)
        wire.pong()
        assert len(wire.heard(b"RS- A no.")) == 20
        begins, ends = [place for place, frame in enumerate(wire.frames) if b"gateway_cmd" in frame]
        told = sorted(wire.frames[begins + 1 : ends])
        assert told == [b"RS+ A ear.%d\r\n" % number for number in range(3)]
        assert b'"gateway_cmd":2,"gateway_cmd_payload":"QQ=="' in wire.frames[begins]
        assert b'"gateway_cmd":3,"gateway_cmd_payload":"QQ=="' in wire.frames[ends]
        client.unsubscribe(ears[0])
        client.subscribe(b"new.>")
        wire.until(lambda: wire.heard(b"RS+ A new.>\r\n"), "RS+")
        assert wire.heard(b"RS- A ear.0\r\n")
        wire.say(b"RMSG A no.1 1\r\nx\r\nRMSG A no.100 1\r\nx\r\n")
        wire.pong()
        assert len(wire.heard(b"RS- A no.")) == 20
        client.close()
