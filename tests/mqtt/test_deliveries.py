"""Messages of NATS for clients of MQTT."""

from __future__ import annotations

import pytest

from natsbroker.mqtt.deliveries import MAX_ALIASES
from natsbroker.wire.mqtt.packets import MQTT_3_1_1, MQTT_5, FilterRequest, Publish
from natsbroker.wire.mqtt.properties import (
    CONTENT_TYPE,
    MAXIMUM_PACKET_SIZE,
    RESPONSE_TOPIC,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    USER_PROPERTY,
)
from tests.mqtt.support import LEVELS, MQTTWorld
from tests.support import HEADERS

onLevels = pytest.mark.parametrize("level", LEVELS)


@onLevels
def test_plain(level: int) -> None:
    """A message of a client of NATS is a PUBLISH with QoS 0."""
    world = MQTTWorld()
    device = world.member(level)
    device.subscribe("a/+")
    world.user(b"PUB a.b 2\r\nhi\r\n")
    assert device.receive() == [Publish("a/b", b"hi")]


def test_headers() -> None:
    """Headers are properties in MQTT 5, and left out in MQTT 3.1.1."""
    block = b"NATS/1.0\r\nContent-Type: x\r\na: 1\r\n\r\n"
    for level in LEVELS:
        world = MQTTWorld()
        device = world.member(level)
        device.subscribe("a")
        world.user(HEADERS, b"HPUB a r.1 %d %d\r\n%bhi\r\n" % (len(block), len(block) + 2, block))
        (came,) = device.receive()
        assert isinstance(came, Publish)
        assert came.payload == b"hi"
        shown = {CONTENT_TYPE: "x", RESPONSE_TOPIC: "r/1", USER_PROPERTY: (("a", "1"),)}
        assert came.properties == (shown if level == MQTT_5 else {})


@onLevels
def test_reserved(level: int) -> None:
    """Topics with a dollar match only filters that begin with it."""
    world = MQTTWorld()
    device = world.member(level)
    device.subscribe("#", "+/a", "$x/#")
    world.user(b"PUB $x.a 0\r\n\r\nPUB y.a 0\r\n\r\n")
    assert sorted(device.topics()) == ["$x/a", "y/a", "y/a"]


def test_noTopic() -> None:
    """A subject that cannot be a topic is not delivered, and the connection stays."""
    world = MQTTWorld()
    device = world.member()
    device.subscribe("#")
    world.user(b"PUB \xff 0\r\n\r\nPUB a.# 0\r\n\r\nPUB a.+ 0\r\n\r\nPUB a 0\r\n\r\n")
    assert device.topics() == ["a"]


def test_noLocal() -> None:
    """A client may ask for the messages of others only."""
    world = MQTTWorld()
    device, other = world.member(), world.member(clientID="other")
    device.subscribe(FilterRequest("a", noLocal=True), "b")
    other.subscribe("a")
    assert device.ask(Publish("a"), Publish("b")) == [Publish("b")]
    assert other.ask(Publish("a")) == [Publish("a"), Publish("a")]
    assert device.topics() == ["a"]


def test_identifiers() -> None:
    """A message has the identifier of the subscription that it is for."""
    world = MQTTWorld()
    device = world.member()
    device.subscribe("a/#", properties={SUBSCRIPTION_IDENTIFIER: (7,)})
    device.subscribe("+/b", properties={SUBSCRIPTION_IDENTIFIER: (9,)})
    device.subscribe("a/b")
    world.user(b"PUB a.b 0\r\n\r\n")
    came = [packet for packet in device.receive() if isinstance(packet, Publish)]
    shown = sorted(packet.properties.get(SUBSCRIPTION_IDENTIFIER, ()) for packet in came)
    assert shown == [(), (7,), (9,)]


def test_aliases() -> None:
    """As many topics as the client allows get an alias, and are sent once."""
    world = MQTTWorld()
    device = world.member(properties={TOPIC_ALIAS_MAXIMUM: 2})
    device.subscribe("+")
    world.user(
        b"".join(b"PUB %b 0\r\n\r\n" % name for name in (b"a", b"b", b"c", b"a", b"b", b"c"))
    )
    came = [packet for packet in device.receive() if isinstance(packet, Publish)]
    shown = [(packet.topic, packet.properties.get(TOPIC_ALIAS)) for packet in came]
    assert shown == [("a", 1), ("b", 2), ("c", None), ("", 1), ("", 2), ("c", None)]


def test_manyAliases() -> None:
    """The number of aliases is bounded, whatever the client allows."""
    world = MQTTWorld()
    device = world.member(properties={TOPIC_ALIAS_MAXIMUM: 65535})
    device.subscribe("+")
    lines = [b"PUB t%d 0\r\n\r\n" % number for number in range(MAX_ALIASES + 5)]
    world.user(b"".join(lines))
    came = [packet for packet in device.receive() if isinstance(packet, Publish)]
    aliases = [packet.properties.get(TOPIC_ALIAS) for packet in came]
    assert aliases == [*range(1, MAX_ALIASES + 1), *[None] * 5]


def test_maximum() -> None:
    """A client does not get a packet above its maximum, and later ones have their topics."""
    world = MQTTWorld()
    device = world.member(properties={MAXIMUM_PACKET_SIZE: 30, TOPIC_ALIAS_MAXIMUM: 5})
    device.subscribe("a")
    world.user(b"PUB a 40\r\n%b\r\nPUB a 1\r\nx\r\n" % bytes(40))
    (came,) = device.receive()
    assert isinstance(came, Publish)
    assert (came.topic, came.payload) == ("a", b"x")


def test_sharedFrame() -> None:
    """The packet of a message is made once for all that get the same bytes."""
    world = MQTTWorld()
    devices = [world.member(level, f"{level}-{number}") for level in LEVELS for number in range(9)]
    for device in devices:
        device.subscribe("a")
    world.user(b"PUB a 1\r\nx\r\nPUB a 1\r\ny\r\n")
    for device in devices:
        assert device.receive() == [Publish("a", b"x"), Publish("a", b"y")]
    assert world.clients.framesFor(MQTT_5).made == 2
    assert world.clients.framesFor(MQTT_3_1_1).made == 2


def test_noResponders() -> None:
    """A request that nobody answers is answered with a status."""
    world = MQTTWorld()
    device = world.member()
    device.subscribe("answers")
    (came,) = device.ask(Publish("nobody", properties={RESPONSE_TOPIC: "answers"}))
    assert isinstance(came, Publish)
    assert came.topic == "answers"
    assert ("Nats-Status", "503") in came.properties[USER_PROPERTY]
