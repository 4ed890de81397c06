"""
What the settings may say of the broker's own events.
"""

from __future__ import annotations

import pytest

from natsbroker.interfaces import IBrokerService
from natsbroker.monitoring.trafficplugin import TrafficPlugin
from natsbroker.server.plugins import PluginError
from tests.server.support import Host


def test_isAPlugin() -> None:
    """It is found like any other service."""
    assert IBrokerService.providedBy(TrafficPlugin())
    Host('services { traffic { interval: "2s", depth: 3, top: 50, account: "$G" } }')
    Host("services { traffic {} }")
    Host("services { traffic { interval: 0.5 } }, no_system_account: true")
    Host("plugins { traffic { channel: E } }, streaming {}")


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("colour: red", 'unknown field "colour"'),
        ("interval: 0", "interval must be 0.1 to 3600 seconds"),
        ("interval: soon", "interval must be"),
        ("interval: true", "interval must be"),
        ('interval: "2h"', "interval must be"),
        ("depth: 0", "depth must be a number from 1 to 16"),
        ("depth: 1.5", "depth must be a number"),
        ("top: 100000", "top must be a number from 1 to 20000"),
        ("account: nobody", "there is no account nobody"),
        ("channel: E", "channel needs a streaming block"),
    ],
)
def test_invalidSection(section: str, why: str) -> None:
    """What makes no sense is refused by its name."""
    with pytest.raises(PluginError, match=why):
        Host(f"services {{ traffic {{ {section} }} }}")


def test_refusedChannel() -> None:
    """So is a channel that there cannot be."""
    with pytest.raises(PluginError, match="no channel can be called"):
        Host('services { traffic { channel: "a.>" } }, streaming {}')
