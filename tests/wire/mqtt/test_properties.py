"""The table of the properties of MQTT 5."""

from __future__ import annotations

import pytest

from natsbroker.wire.mqtt import properties
from natsbroker.wire.mqtt.fields import Reader
from natsbroker.wire.mqtt.layouts import LAYOUTS
from natsbroker.wire.mqtt.properties import (
    BY_NUMBER,
    CONTENT_TYPE,
    SUBSCRIPTION_IDENTIFIER,
    USER_PROPERTY,
    WILL,
    readProperties,
    writeProperties,
)

#: The numbers of all properties in the standard.
NUMBERS = [1, 2, 3, 8, 9, 11, *range(17, 20), *range(21, 27), 28, 31, *range(33, 43)]


def test_complete() -> None:
    """The table has each property of the standard."""
    assert sorted(BY_NUMBER) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_carriers(number: int) -> None:
    """Each property is declared for packets that the side sends, and that there are."""
    declared = BY_NUMBER[number]
    clients = {layout.name for layout in LAYOUTS.values() if layout.isOfClients} | {WILL}
    servers = {layout.name for layout in LAYOUTS.values() if layout.isOfServers}
    assert declared.clients <= clients
    assert declared.servers <= servers
    assert declared.clients or declared.servers
    assert declared.repeating <= declared.clients | declared.servers
    assert repr(declared) == f"<{declared.name}>"


def test_everywhere() -> None:
    """All packets with properties may have user properties."""
    without = {"PINGREQ", "PINGRESP"}
    assert {layout.name for layout in LAYOUTS.values()} - without <= (
        USER_PROPERTY.clients | USER_PROPERTY.servers
    )


def test_order() -> None:
    """Repeated properties keep their order among each other."""
    given = {USER_PROPERTY: (("a", "1"), ("b", ""), ("a", "2")), CONTENT_TYPE: "x"}
    reader = Reader(writeProperties(given))
    assert readProperties(reader, "PUBLISH") == given
    assert reader.isAtEnd


def test_manyIdentifiers() -> None:
    """A message of a server may have the identifiers of several subscriptions."""
    given = {SUBSCRIPTION_IDENTIFIER: (1, 268435455)}
    reader = Reader(writeProperties(given), isOfClient=False)
    assert readProperties(reader, "PUBLISH") == given


def test_none() -> None:
    """Without properties, there is only the length 0."""
    assert writeProperties({}) == b"\0"
    assert readProperties(Reader(b"\0"), "PUBLISH") is properties.NONE
