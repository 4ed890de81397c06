"""The reason codes of MQTT 5."""

from __future__ import annotations

from natsbroker.wire.mqtt.layouts import LAYOUTS
from natsbroker.wire.mqtt.reasons import (
    CLIENT_REASONS,
    RETURN_CODES,
    SERVER_REASONS,
    ReasonCode,
)


def test_carriers() -> None:
    """Codes are declared for packets that the side sends."""
    assert CLIENT_REASONS.keys() <= {
        layout.name for layout in LAYOUTS.values() if layout.isOfClients
    }
    assert SERVER_REASONS.keys() <= {
        layout.name for layout in LAYOUTS.values() if layout.isOfServers
    }


def test_allCarried() -> None:
    """Each code is carried by a packet."""
    carried = {code for codes in CLIENT_REASONS.values() for code in codes.values()}
    carried |= {code for codes in SERVER_REASONS.values() for code in codes.values()}
    assert carried == set(ReasonCode)


def test_errors() -> None:
    """Codes from 0x80 on are errors."""
    errors = {code for code in ReasonCode if code.isError}
    assert min(errors) is ReasonCode.UNSPECIFIED_ERROR
    assert max(set(ReasonCode) - errors) is ReasonCode.REAUTHENTICATE


def test_returnCodes() -> None:
    """MQTT 3 has the return codes from 0 to 5."""
    assert sorted(RETURN_CODES.values()) == list(range(6))
