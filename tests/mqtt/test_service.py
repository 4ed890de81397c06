"""The listener for clients of MQTT, in a whole broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from natsbroker.config.model import Settings, changed
from natsbroker.config.settings.mqtt import MQTT
from natsbroker.mqtt.service import overlaid
from natsbroker.testing.memory import MemoryBroker
from natsbroker.testing.transport import MemoryTransport
from natsbroker.wire.mqtt.codec import PacketDecoder, encoded
from natsbroker.wire.mqtt.packets import MQTT_5, Connack, Connect, Disconnect, Packet
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.server.support import logLines, settingsOf

USERS = """
accounts {
    A {
        users: [
            {user: a, password: a}
            {user: m, password: m, allowed_connection_types: [MQTT]}
        ]
    }
    B { users: [ {user: b, password: b, allowed_connection_types: [STANDARD]} ] }
}
"""


class MQTTBroker:
    """
    A broker in memory that listens for clients of MQTT.

    @ivar service: its L{natsbroker.mqtt.service.MQTTService}.
    """

    def __init__(self, block: str = "", rest: str = "") -> None:
        text = (
            f"jetstream {{ backend: memory }}\nmqtt {{ listen: '127.0.0.1:1883'\n{block} }}\n{rest}"
        )
        self.memory = MemoryBroker(settingsOf(text))
        self.broker = self.memory.broker
        self.reactor: Any = self.broker.reactor
        self.service: Any = self.broker.links.find("mqtt")

    def connect(self, **options: Any) -> tuple[MemoryTransport, Connack]:
        factory = next(server[1] for server in self.reactor.tcpServers if server[0] == 1883)
        address = IPv4Address("TCP", "127.0.0.1", 50001)
        transport = MemoryTransport(self.reactor, factory.buildProtocol(address), address)
        transport.connect()
        transport.send(encoded(Connect(MQTT_5, **options)))
        self.reactor.pass_(0)
        answer = packetsIn(transport.take())[0]
        assert isinstance(answer, Connack)
        return transport, answer


def packetsIn(data: bytes) -> list[Packet]:
    decoder = PacketDecoder(isOfClient=False, level=MQTT_5)
    decoder.feed(data)
    packets = []
    while (packet := decoder.next()) is not None:
        packets.append(packet)
    return packets


def test_listening() -> None:
    """The address is in the log, in the ports file and in C{/varz}."""
    with logLines() as lines:
        broker = MQTTBroker()
    assert [line for line in lines if "Listening for MQTT clients on mqtt://" in line], lines
    assert broker.broker.addresses()["mqtt"] == ["mqtt://127.0.0.1:1883"]
    assert broker.service.varz()["port"] == 1883
    assert "ack_wait" not in broker.service.varz()


def test_page() -> None:
    """C{/varz} shows what was configured."""
    shown = MQTTBroker("ack_wait: '5s', max_ack_pending: 7, js_domain: d").service.varz()
    assert (shown["ack_wait"], shown["max_ack_pending"]) == (5_000_000_000, 7)
    assert shown["js_domain"] == "d"


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("a", ReasonCode.SUCCESS),
        ("m", ReasonCode.SUCCESS),
        ("b", ReasonCode.NOT_AUTHORIZED),
        ("x", ReasonCode.NOT_AUTHORIZED),
    ],
)
def test_users(user: str, reason: ReasonCode) -> None:
    """Clients log in as the users of the broker, if these may be clients of MQTT."""
    _, answer = MQTTBroker("", USERS).connect(clientID="c", user=user, password=user.encode())
    assert answer.reason is reason


def test_label() -> None:
    """The log shows clients of MQTT with the letters that nats-server has for them."""
    broker = MQTTBroker()
    broker.connect(clientID="c")
    (session,) = broker.broker.clientContext.connections
    assert str(session).startswith("127.0.0.1:50001 - mid:1 ")


def test_ownLogin() -> None:
    """The block may have a login of its own, with a token or a user."""
    broker = MQTTBroker("authorization { token: t }")
    assert broker.connect(clientID="c", user="any", password=b"t")[1].reason is ReasonCode.SUCCESS
    assert broker.connect(clientID="c", user="any", password=b"x")[1].reason.isError
    broker = MQTTBroker("no_auth_user: a", USERS)
    assert broker.connect(clientID="c")[1].reason is ReasonCode.SUCCESS


def test_shutdown() -> None:
    """A broker that stops tells clients of MQTT 5."""
    broker = MQTTBroker()
    transport, _ = broker.connect(clientID="c")
    broker.broker.stopService()
    broker.reactor.pass_(1)
    assert packetsIn(transport.take()) == [Disconnect(ReasonCode.SERVER_SHUTTING_DOWN)]


def test_reload() -> None:
    """A reload changes the keys that it changes in nats-server, and refuses others."""
    broker = MQTTBroker()
    settings = broker.broker.settings
    broker.service.plan(changed(settings, "mqtt.ack_wait", 5.0), ())()
    assert broker.service.block.ack_wait == 5.0
    for path, value in (("mqtt.port", 1), ("mqtt.user", "u"), ("mqtt.js_domain", "d")):
        with pytest.raises(ValueError, match="not supported for MQTT"):
            broker.service.plan(changed(settings, path, value), ())


def test_overlay() -> None:
    """Without logins of its own, the block has those of the top level."""
    general = changed(Settings(), "no_auth_user", "g")
    assert overlaid(MQTT(), general).no_auth_user == "g"
    assert overlaid(MQTT(token="t"), general).no_auth_user == ""
    assert overlaid(replace(MQTT(), timeout=7.0), general).authorization.timeout == 7.0
