"""Subscriptions of clients of MQTT."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from natsbroker.config.model import Settings, changed
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.mqtt.codec import encoded
from natsbroker.wire.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Disconnect,
    FilterRequest,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from natsbroker.wire.mqtt.properties import SUBSCRIPTION_IDENTIFIER
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.mqtt.support import LEVELS, MQTTWorld, granting

onLevels = pytest.mark.parametrize("level", LEVELS)

FINE = ReasonCode.SUCCESS


@onLevels
def test_granted(level: int) -> None:
    """Each filter is granted QoS 0, whatever was asked for."""
    device = MQTTWorld().member(level)
    assert device.subscribe(*[FilterRequest(f"a{qos}", qos) for qos in range(3)]) == [FINE] * 3


@onLevels
def test_wrongFilters(level: int) -> None:
    """A filter that is malformed, or that the user may not have, is refused by itself."""
    world = MQTTWorld(None, granting(subscribe=SubscribePermissions((b"a.>", b"b"))))
    device = world.member(level)
    codes = device.subscribe("a/b", "x", "a/#/b", "a/b c", "$MQTT/#", "b", "x" * 5000)
    wrong, denied = ReasonCode.TOPIC_FILTER_INVALID, ReasonCode.NOT_AUTHORIZED
    if level == MQTT_3_1_1:
        wrong = denied = ReasonCode.UNSPECIFIED_ERROR
    assert codes == [FINE, denied, wrong, wrong, denied, FINE, wrong]


def test_above() -> None:
    """A filter with C{#} has the level above it too, and is granted as a whole or not at all."""
    world = MQTTWorld()
    device = world.member()
    device.subscribe("a/#")
    world.user(b"PUB a 0\r\n\r\nPUB a.b.c 0\r\n\r\nPUB ab 0\r\n\r\n")
    assert device.topics() == ["a", "a/b/c"]
    world = MQTTWorld(None, granting(subscribe=SubscribePermissions((b"a.>",))))
    device = world.member()
    assert device.subscribe("a/#") == [ReasonCode.NOT_AUTHORIZED]
    world.user(b"PUB a.b 0\r\n\r\n")
    assert device.topics() == []


def test_limit() -> None:
    """A subscription above the limit is refused, and the connection stays."""
    device = MQTTWorld(changed(Settings(), "max_subscriptions", 2)).member()
    assert device.subscribe("a", "b", "c") == [FINE, FINE, ReasonCode.QUOTA_EXCEEDED]
    assert device.ask(Pingreq()) == [Pingresp()]


def test_twice() -> None:
    """A filter that is subscribed to again has the new options, and no second copy."""
    world = MQTTWorld()
    device = world.member()
    device.subscribe("a", properties={SUBSCRIPTION_IDENTIFIER: (1,)})
    device.subscribe(FilterRequest("a", noLocal=True))
    assert device.ask(Publish("a")) == []
    world.user(b"PUB a 0\r\n\r\n")
    assert device.receive() == [Publish("a")]


def test_shared() -> None:
    """A shared subscription is a queue group, which clients of NATS can join."""
    world = MQTTWorld()
    devices = [world.member(clientID=str(number)) for number in range(3)]
    for device in devices:
        device.subscribe("$share/g/a/#")
    member = world.user(b"SUB a.> g 1\r\n")
    world.user(b"PUB a.b 1\r\nx\r\n" * 60)
    counts = [len(device.receive()) for device in devices] + [member.receive().count(b"MSG")]
    assert sum(counts) == 60
    assert all(counts)


def test_notShared() -> None:
    """MQTT 3.1.1 has no shared subscriptions: the filter is one like others, as in nats-server."""
    world = MQTTWorld()
    device = world.member(MQTT_3_1_1)
    device.subscribe("$share/g/a")
    world.user(b"PUB a 0\r\n\r\nPUB $share.g.a 0\r\n\r\n")
    assert device.topics() == ["$share/g/a"]


@onLevels
def test_unsubscribe(level: int) -> None:
    """A filter ends with both of its subjects. MQTT 5 clients learn if there was none."""
    world = MQTTWorld()
    device = world.member(level)
    device.subscribe("a/#", "b")
    codes = [FINE, ReasonCode.NO_SUBSCRIPTION_EXISTED] if level == MQTT_5 else []
    assert device.ask(Unsubscribe(8, ["a/#", "x"])) == [Unsuback(8, tuple(codes))]
    world.user(b"PUB a 0\r\n\r\nPUB a.b 0\r\n\r\nPUB b 0\r\n\r\n")
    assert device.topics() == ["b"]
    assert device.wire.session.facts().subscriptions == 1


@onLevels
@pytest.mark.parametrize("isSubscribing", [True, False])
def test_emptyFilter(level: int, isSubscribing: bool) -> None:
    """An empty filter ends the connection, and no filter of its packet counts."""
    world = MQTTWorld()
    device = world.member(level)
    filters = ["a"] * 200 + [""]
    packet: Subscribe | Unsubscribe
    if isSubscribing:
        packet = Subscribe(1, [FilterRequest(text) for text in filters])
    else:
        packet = Unsubscribe(1, filters)
    told = [Disconnect(ReasonCode.TOPIC_FILTER_INVALID)] if level == MQTT_5 else []
    assert device.ask(packet) == told
    assert device.closed


def test_lateError() -> None:
    """A packet whose last filter is malformed ends the connection before it subscribes to any."""
    world = MQTTWorld()
    device = world.member(MQTT_3_1_1)
    good = encoded(Subscribe(1, [FilterRequest(f"f{number}") for number in range(300)]), 4)[3:]
    body = good + b"\0\1\xff\0"
    size = len(body)
    assert device.askBytes(b"\x82" + bytes([size & 0x7F | 0x80, size >> 7]) + body) == []
    assert device.wire.session.lastFacts().subscriptions == 0


def test_order() -> None:
    """Packets behind a long SUBSCRIBE are handled after it."""
    device = MQTTWorld().member()
    requests = [FilterRequest(f"f{number}") for number in range(500)]
    came = device.ask(Subscribe(1, requests), Publish("f499"), Pingreq())
    assert came == [Suback(1, (FINE,) * 500), Publish("f499"), Pingresp()]


def test_manyFilters() -> None:
    """A packet with thousands of filters is handled in many turns, between which others act."""
    turns: list[Callable[[], None]] = []
    world = MQTTWorld(schedule=turns.append)
    device, other = world.device(), world.device()
    for name, member in (("a", device), ("b", other)):
        member.wire.send(encoded(Connect(clientID=name)))
        while turns:
            turns.pop(0)()
    requests = [FilterRequest(f"f{number}") for number in range(20_000)]
    device.wire.send(encoded(Subscribe(1, requests)))
    assert device.wire.session.facts().subscriptions < 20_000
    other.wire.send(encoded(Pingreq()))
    while Pingresp() not in other.receive():
        turns.pop(0)()
    assert device.wire.session.facts().subscriptions < 20_000
    while turns:
        turns.pop(0)()
    assert device.receive()[-1] == Suback(1, (FINE,) * 20_000)


def test_revoked() -> None:
    """A subscription that the user may not have any more ends, with both of its subjects."""
    allowed = [SubscribePermissions((b">",)), SubscribePermissions((b"b",))]
    world = MQTTWorld()
    world.authorizer.answer = lambda hello: Grant(user="u", subscribe=allowed[0])
    device = world.member()
    device.subscribe("a/#", "b")
    del allowed[0]
    device.wire.session.reauthorize()
    world.user(b"PUB a 0\r\n\r\nPUB a.b 0\r\n\r\nPUB b 0\r\n\r\n")
    assert device.topics() == ["b"]
    assert device.wire.session.facts().subscriptions == 1
