"""Unmodified clients of MQTT."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.mqtt.listeners import MQTTServer
from tests.interop.plainclients import Client
from tests.interop.programs import DEADLINE
from tests.interop.servers import OURS_FAST, PATIENCE, missing


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MQTTServer]:
    rest = 'websocket { listen: "127.0.0.1:-1", no_tls: true }'
    started = MQTTServer(OURS_FAST, Path(tmp_path_factory.mktemp("mqtt")), rest=rest).start()
    yield started
    started.stop()


def require(name: str) -> Any:
    """A Python package that speaks MQTT."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        missing(f"no Python package {name}")
    return importlib.import_module(name)


@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv5"])
def test_mosquitto(server: MQTTServer, version: str) -> None:
    """mosquitto_pub and mosquitto_sub exchange messages with clients of NATS."""
    if shutil.which("mosquitto_sub") is None:
        missing("no mosquitto-clients")
    common = ["-h", "127.0.0.1", "-p", str(server.mqttPort), "-V", version]
    subject = version.encode()
    command = ["mosquitto_sub", *common, "-t", f"{version}/#", "-C", "2", "-v", "-q", "1", "-d"]
    listening = subprocess.Popen(
        ["stdbuf", "-oL", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert listening.stdout is not None
        for line in listening.stdout:
            if "Subscribed" in line:
                break
        user = Client(server)
        sid = user.subscribe(subject + b".>")
        subprocess.run(
            ["mosquitto_pub", *common, "-t", f"{version}/a", "-m", "one"],
            check=True,
            timeout=DEADLINE,
        )
        assert user.take(sid, 1) == [b"one"]
        user.publish(subject + b".b", b"two")
        user.flush()
        rows = [line.split() for line in listening.communicate(timeout=DEADLINE)[0].splitlines()]
    finally:
        listening.kill()
    shown = [row for row in rows if row and row[0].startswith(version)]
    assert shown == [[f"{version}/a", "one"], [f"{version}/b", "two"]]


@pytest.mark.parametrize("transport", ["tcp", "websockets"])
@pytest.mark.parametrize("version", [4, 5])
def test_paho(server: MQTTServer, version: int, transport: str) -> None:
    """paho-mqtt connects, subscribes, answers pings, and exchanges messages with properties."""
    paho = require("paho.mqtt.client")
    came: list[Any] = []
    connected, subscribed, arrived = threading.Event(), threading.Event(), threading.Event()
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2,
        f"paho{version}",
        protocol=version,
        transport=transport,
    )
    client.on_connect = lambda *details: connected.set()
    client.on_subscribe = lambda *details: subscribed.set()

    def received(ours: Any, data: Any, message: Any) -> None:
        came.append(message)
        arrived.set()

    client.on_message = received
    port = server.mqttPort if transport == "tcp" else server.webSocketPort
    client.connect("127.0.0.1", port, keepalive=5)
    client.loop_start()
    try:
        assert connected.wait(PATIENCE)
        client.subscribe(f"paho{version}/#")
        assert subscribed.wait(PATIENCE)
        options = {}
        if version == 5:
            properties = require("paho.mqtt.properties").Properties(3)
            properties.UserProperty = ("k", "v")
            properties.ResponseTopic = "answers/1"
            properties.CorrelationData = b"c"
            options["properties"] = properties
        client.publish(f"paho{version}/x", b"hello", **options)
        assert arrived.wait(PATIENCE)
    finally:
        client.disconnect()
        client.loop_stop()
    (message,) = came
    assert (message.topic, message.payload) == (f"paho{version}/x", b"hello")
    if version == 5:
        assert message.properties.UserProperty == [("k", "v")]
        assert message.properties.ResponseTopic == "answers/1"
        assert message.properties.CorrelationData == b"c"


def test_aiomqtt(server: MQTTServer) -> None:
    """aiomqtt sends a request that a client of NATS answers."""
    aiomqtt = require("aiomqtt")
    properties = require("paho.mqtt.properties").Properties(3)
    properties.ResponseTopic = "aio/answers"
    service = Client(server)
    sid = service.subscribe(b"aio.requests")

    async def exchange() -> bytes:
        version = aiomqtt.ProtocolVersion.V5
        async with aiomqtt.Client("127.0.0.1", server.mqttPort, protocol=version) as client:
            await client.subscribe("aio/answers")
            await client.publish("aio/requests", b"ask", properties=properties)
            ((reply, _, _),) = await asyncio.to_thread(service.messages, sid, 1)
            service.publish(reply, b"answer")
            service.flush()
            async for message in client.messages:
                return bytes(message.payload)
        return b""

    assert asyncio.run(asyncio.wait_for(exchange(), DEADLINE)) == b"answer"


def test_certificate(tmp_path: Path) -> None:
    """A certificate is the login of a client over TLS, and without one there is no connection."""
    if shutil.which("mosquitto_pub") is None:
        missing("no mosquitto-clients")
    block = """tls {
        cert_file: "$DIR/server.pem", key_file: "$DIR/server-key.pem"
        ca_file: "$DIR/ca.pem", verify_and_map: true
    }"""
    users = "authorization { users: [ {user: alice@example.com, connection_types: [MQTT]} ] }"
    server = MQTTServer(OURS_FAST, tmp_path, "secure", block, users)
    home = server.directory
    writeCertificates(home)
    server.start()
    try:
        command = ["mosquitto_pub", "-p", str(server.mqttPort), "-h", "127.0.0.1", "-V", "5"]
        command += ["--cafile", str(home / "ca.pem"), "-t", "a", "-m", "x"]
        shown = ["--cert", str(home / "client.pem"), "--key", str(home / "client-key.pem")]
        codes = [
            subprocess.run([*command, *more], capture_output=True, timeout=DEADLINE).returncode
            for more in (shown, [])
        ]
    finally:
        server.stop()
    assert codes[0] == 0
    assert codes[1] != 0
