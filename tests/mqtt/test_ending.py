"""The reasons for which connections end."""

from __future__ import annotations

import pytest

from natsbroker import errors
from natsbroker.mqtt import ending
from natsbroker.wire.mqtt.codec import PacketDecoder
from natsbroker.wire.mqtt.packets import MQTT_3_1_1, MQTT_5, Connack, Disconnect
from natsbroker.wire.mqtt.reasons import ReasonCode


def reasonIn(data: bytes, level: int = MQTT_5) -> ReasonCode:
    decoder = PacketDecoder(isOfClient=False, level=level)
    decoder.feed(data)
    packet = decoder.next()
    assert isinstance(packet, (Connack, Disconnect))
    return packet.reason


@pytest.mark.parametrize("reason", [reason for reason in ReasonCode if reason.isError])
def test_always(reason: ReasonCode) -> None:
    """CONNACK and DISCONNECT carry each reason, or a nearer one that they may carry."""
    for data in (ending.refused(reason, MQTT_5), ending.disconnected(reason)):
        assert reasonIn(data).isError


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (ReasonCode.NOT_AUTHORIZED, ReasonCode.NOT_AUTHORIZED),
        (ReasonCode.QUOTA_EXCEEDED, ReasonCode.SERVER_UNAVAILABLE),
        (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
    ],
)
def test_oldVersion(reason: ReasonCode, shown: ReasonCode) -> None:
    """MQTT 3.1.1 has few return codes."""
    assert reasonIn(ending.refused(reason, MQTT_3_1_1), MQTT_3_1_1) is shown


def test_shutdown() -> None:
    """A broker that stops tells its clients."""
    reason = ending.codeOf(errors.SERVER_SHUTDOWN)
    assert reasonIn(ending.disconnected(reason)) is ReasonCode.SERVER_SHUTTING_DOWN
    assert reasonIn(ending.refused(reason, MQTT_5)) is ReasonCode.SERVER_UNAVAILABLE


def test_otherError() -> None:
    """An error that MQTT has no code for is an unspecified one."""
    assert ending.codeOf(errors.INTERNAL) is ReasonCode.UNSPECIFIED_ERROR
