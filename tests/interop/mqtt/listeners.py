"""Servers that listen for MQTT connections, and a client that shows every packet."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from natsbroker.wire.mqtt.codec import PacketDecoder, encoded
from natsbroker.wire.mqtt.packets import (
    MQTT_3_1_1,
    Connack,
    Connect,
    FilterRequest,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
)
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.interop.servers import CROSSING, PATIENCE, Flavour, Server

CONFIG = """
server_name: $NAME
http: "127.0.0.1:-1"
jetstream { store_dir: "$DIR/jetstream" }
mqtt {
    listen: "127.0.0.1:-1"
    $BLOCK
}
$REST
"""


class MQTTServer(Server):
    """
    @ivar mqttPort: where it listens.
    """

    mqttPort = 0

    def __init__(
        self, flavour: Flavour, directory: Path, name: str = "m", block: str = "", rest: str = ""
    ) -> None:
        home = directory / name
        home.mkdir()
        text = CONFIG
        for key, value in {"$NAME": name, "$BLOCK": block, "$REST": rest}.items():
            text = text.replace(key, value)
        super().__init__(flavour, home, text)

    def start(self) -> MQTTServer:
        super().start()
        self.mqttPort = self._portOf(r"Listening for MQTT clients on \w+://\S+:(\d+)")
        return self

    @property
    def webSocketPort(self) -> int:
        """The port of the C{websocket} block, which has to be in the configuration."""
        return self._portOf(r"Listening for websocket clients on wss?://\S+:(\d+)")


class MQTTClient:
    """
    A client on a socket.

    @ivar packets: those that came and were not taken.
    """

    def __init__(self, server: MQTTServer, level: int = MQTT_3_1_1, opened: Any = None) -> None:
        """
        @param opened: an object with the methods of a socket that is connected; C{None} for none.
        """
        self.level = level
        self.packets: list[Packet] = []
        self._decoder = PacketDecoder(isOfClient=False, level=level)
        self._socket = opened or socket.create_connection(("127.0.0.1", server.mqttPort), PATIENCE)

    def connect(self, clientID: str = "", **options: Any) -> Connack:
        self.send(Connect(self.level, clientID, **options))
        answer = self.receive()
        assert isinstance(answer, Connack), answer
        return answer

    def send(self, packet: Packet) -> None:
        self.sendBytes(encoded(packet, self.level))

    def sendBytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> Packet | None:
        """The next packet; C{None} once the connection is closed."""
        while not self.packets:
            packet = self._decoder.next()
            if packet is not None:
                return packet
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._decoder.feed(data)
        return self.packets.pop(0)

    def subscribe(self, *filters: str, packetID: int = 7, qos: int = 0) -> list[ReasonCode]:
        requests = [FilterRequest(text, qos) for text in filters]
        self.send(Subscribe(packetID, requests))
        answer = self.receive()
        assert isinstance(answer, Suback), answer
        assert answer.packetID == packetID
        return list(answer.reasons)

    def publish(self, topic: str, payload: bytes = b"x", **options: Any) -> None:
        self.send(Publish(topic, payload, **options))

    def flush(self) -> None:
        """Wait for the answer to a ping, and keep what comes before it."""
        time.sleep(CROSSING)
        self.send(Pingreq())
        earlier: list[Packet] = []
        while True:
            packet = self.receive()
            assert packet is not None, "the connection was closed"
            if isinstance(packet, Pingresp):
                break
            earlier.append(packet)
        self.packets = earlier

    def close(self) -> None:
        self._socket.close()
