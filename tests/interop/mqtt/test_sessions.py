"""nats-server and natsbroker answer the packets of MQTT 3.1.1 alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from natsbroker.wire.mqtt.codec import encoded
from natsbroker.wire.mqtt.packets import (
    MQTT_3_1_1,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pubcomp,
    Pubrel,
    Unsuback,
)
from natsbroker.wire.mqtt.reasons import ReasonCode
from tests.interop.mqtt.listeners import MQTTClient, MQTTServer
from tests.interop.servers import ALL, REAL

USERS = """
authorization {
    users: [ {
        user: a, password: a
        permissions { subscribe: ["a.>", "b", "$MQTT.sub.>"], publish: ["a.>"] }
    } ]
}
"""

FINE, REFUSED = ReasonCode.SUCCESS, ReasonCode.UNSPECIFIED_ERROR

#: Bytes of a client that is connected, and the packets that it gets; C{None} if it is closed.
ANSWERS: dict[str, tuple[bytes, list[Packet] | None]] = {
    "a second CONNECT": (encoded(Connect(MQTT_3_1_1, "z"), MQTT_3_1_1), None),
    "type 0": (b"\0\0", None),
    "bits of PINGREQ": (b"\xc1\0", None),
    "bits of DISCONNECT": (b"\xe1\0", None),
    "a SUBACK": (b"\x90\3\0\1\0", None),
    "AUTH": (b"\xf0\0", None),
    "bytes behind PINGREQ": (b"\xc0\1x", None),
    "QoS 3": (b"\x36\5\0\1a\0\1", None),
    "an empty topic": (b"\x30\2\0\0", None),
    "a topic with a wildcard": (b"\x30\3\0\1#", None),
    "a topic that is not UTF-8": (b"\x30\4\0\1\xffx", None),
    "U+0000": (b"\x30\3\0\1\0", None),
    "SUBSCRIBE without filters": (b"\x82\2\0\1", None),
    "SUBSCRIBE with identifier 0": (b"\x82\6\0\0\0\1a\0", None),
    "SUBSCRIBE with QoS 3": (b"\x82\6\0\1\0\1a\3", None),
    "an empty filter": (b"\x82\5\0\1\0\0\0", None),
    "a filter that is not UTF-8": (b"\x82\6\0\1\0\1\xff\0", None),
    "UNSUBSCRIBE of nothing": (b"\xa2\5\0\1\0\1a", [Unsuback(1)]),
    "an unknown PUBACK": (b"\x40\2\0\1", []),
    "an unknown PUBREC": (b"\x50\2\0\1", [Pubrel(1)]),
    "an unknown PUBREL": (b"\x62\2\0\1", [Pubcomp(1)]),
    "an unknown PUBCOMP": (b"\x70\2\0\1", []),
    "a message that the user may not publish": (b"\x30\3\0\1c", []),
    "a duplicate with QoS 0": (b"\x38\3\0\1a", None),
}

#: The packets that nats-server lets pass, with the reason to refuse them.
ALLOWED = {"a duplicate with QoS 0": "MQTT-3.3.1-2: the flag must not be set"}


@pytest.fixture(scope="module", params=ALL, ids=lambda flavour: flavour.name)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MQTTServer]:
    started = MQTTServer(request.param, Path(tmp_path_factory.mktemp("mqtt")), rest=USERS)
    started.start()
    yield started
    started.stop()


def member(server: MQTTServer) -> MQTTClient:
    client = MQTTClient(server)
    assert client.connect(user="a", password=b"a").reason is FINE
    return client


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_answers(server: MQTTServer, name: str) -> None:
    """A packet has the answer of the table, or ends the connection."""
    data, expected = ANSWERS[name]
    if name in ALLOWED and server.flavour is REAL:
        expected = []
    client = member(server)
    client.sendBytes(data)
    if expected is None:
        assert client.receive() is None
    else:
        client.flush()
        assert client.packets == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"user": "a", "password": b"x"}, ReasonCode.NOT_AUTHORIZED),
        ({}, ReasonCode.NOT_AUTHORIZED),
        ({"user": "", "password": b"x"}, ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        ({"clientID": "", "clean": False}, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
        ({"clientID": "a b"}, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
        ({"clientID": "a.b"}, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
    ],
    ids=repr,
)
def test_refusedClients(server: MQTTServer, options: dict[str, Any], reason: ReasonCode) -> None:
    """A client that is not let in gets the return code, and is closed."""
    client = MQTTClient(server)
    client.send(Connect(MQTT_3_1_1, **{"clientID": "c", **options}))
    answer = client.receive()
    assert isinstance(answer, Connack)
    assert answer.reason is reason
    assert client.receive() is None


def test_permissions(server: MQTTServer) -> None:
    """A filter with C{#} needs the permission for the level above it too."""
    codes = member(server).subscribe("a/#", "a", "a/b", "b", "c")
    assert codes == [REFUSED, REFUSED, FINE, FINE, REFUSED]


def test_otherVersion(server: MQTTServer) -> None:
    """A client of a version that there is not gets the return code 1."""
    client = MQTTClient(server)
    client.sendBytes(b"\x10\x0d\0\4MQTT\6\2\0\0\0\1c")
    answer = client.receive()
    assert isinstance(answer, Connack)
    assert answer.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION


def test_connz(server: MQTTServer) -> None:
    """C{/connz} shows the client's identifier, and finds the client by it, also when it is gone."""
    client = MQTTClient(server)
    client.connect("cid1", user="a", password=b"a")
    client.flush()
    (row,) = rowsOf(server, "")
    assert (row["type"], row["mqtt_client"], "name" in row) == ("mqtt", "cid1", False)
    client.send(Disconnect())
    assert client.receive() is None
    (row,) = rowsOf(server, "&state=closed")
    assert (row["mqtt_client"], row["reason"]) == ("cid1", "Client Closed")


def rowsOf(server: MQTTServer, query: str) -> list[dict[str, object]]:
    page: Any = server.monitor(f"/connz?mqtt_client=cid1{query}")
    rows: list[dict[str, object]] = page["connections"]
    return rows
