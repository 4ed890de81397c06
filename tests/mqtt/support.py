"""Clients of MQTT without sockets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from natsbroker.clients.dialect import DialectFactory
from natsbroker.config.model import Settings
from natsbroker.connections.wheel import DeadlineWheel
from natsbroker.mqtt.dialect import MQTTClients, MQTTDialect
from natsbroker.wire.grants import Grant
from natsbroker.wire.mqtt.codec import PacketDecoder, encoded
from natsbroker.wire.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Connack,
    Connect,
    FilterRequest,
    Packet,
    Publish,
    Suback,
    Subscribe,
)
from natsbroker.wire.mqtt.properties import NONE, Properties
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.support import QUIET, Doorkeeper, Wire, World

LEVELS = [MQTT_3_1_1, MQTT_5]


class Device:
    """The other end of a connection."""

    def __init__(self, wire: Wire, level: int) -> None:
        self.wire = wire
        self.level = level
        self._decoder = PacketDecoder(isOfClient=False, level=level)

    def ask(self, *sent: Packet) -> list[Packet]:
        """Send packets and give those that come."""
        return self.askBytes(b"".join(encoded(packet, self.level) for packet in sent))

    def askBytes(self, data: bytes) -> list[Packet]:
        self._decoder.feed(self.wire.ask(data) if data else self.wire.receive())
        came = []
        while (packet := self._decoder.next()) is not None:
            came.append(packet)
        return came

    def receive(self) -> list[Packet]:
        """The packets since the last call."""
        return self.ask()

    def connect(self, clientID: str = "c", **options: Any) -> Connack:
        (answer,) = self.ask(Connect(self.level, clientID, **options))
        assert isinstance(answer, Connack)
        return answer

    def subscribe(
        self, *requests: str | FilterRequest, properties: Properties = NONE
    ) -> list[ReasonCode]:
        wanted = [FilterRequest(text) if isinstance(text, str) else text for text in requests]
        (answer,) = self.ask(Subscribe(3, wanted, properties))
        assert isinstance(answer, Suback)
        assert answer.packetID == 3
        return list(answer.reasons)

    def topics(self) -> list[str]:
        """The topics of the messages since the last call."""
        return [packet.topic for packet in self.receive() if isinstance(packet, Publish)]

    @property
    def closed(self) -> str:
        return self.wire.closed


class MQTTWorld(World):
    """
    A broker whose clients speak MQTT.

    @ivar clients: the L{MQTTClients}.
    """

    def __init__(
        self,
        limits: Settings | None = None,
        authorizer: Doorkeeper | None = None,
        schedule: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        super().__init__(limits, authorizer, schedule=schedule)
        self.nats: Any = self.factory
        self.clients = MQTTClients(self.clock.seconds, DeadlineWheel(self.clock))
        make = partial(MQTTDialect, clients=self.clients)
        factory: Any = DialectFactory(self.context, make, "MQTT", None, None, lambda settings: None)
        self.factory = factory

    def device(self, level: int = MQTT_5) -> Device:
        """A client that has not sent anything."""
        return Device(self.dial(), level)

    def member(self, level: int = MQTT_5, clientID: str = "c", **options: Any) -> Device:
        """A client that is connected."""
        device = self.device(level)
        assert device.connect(clientID, **options).reason is ReasonCode.SUCCESS
        return device

    def user(self, *lines: bytes) -> Wire:
        """A client of NATS, which has said these lines."""
        ours, self.factory = self.factory, self.nats
        wire = self.client(QUIET)
        self.factory = ours
        wire.ask(*lines)
        return wire


def granting(**fields: Any) -> Doorkeeper:
    """An authorizer that gives every client the same grant."""
    return Doorkeeper(lambda hello: Grant(user="u", **fields))
