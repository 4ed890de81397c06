"""
The plugin that starts traffic events::

    services { traffic { interval: "10s", depth: 2, top: 1000, channel: "NB_EVENTS" } }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.application.service import IService
from zope.interface import implementer

from natsbroker.interfaces import IBrokerHost, IBrokerService
from natsbroker.monitoring.trafficservice import TrafficService
from natsbroker.streaming.channelwriter import ChannelWriter
from natsbroker.wire.durations import secondsFrom

_KNOWN = ("account", "channel", "depth", "interval", "top")

#: The ranges of the numbers. Rows are made in one step of the reactor, so C{top} is bounded.
_INTERVAL = (0.1, 3600.0)
_DEPTH = (1, 16)
_TOP = (1, 20_000)


@implementer(IBrokerService)
class TrafficPlugin:
    name = "traffic"

    def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> IService:
        for key in section:
            if key not in _KNOWN:
                raise ValueError(f'unknown field "{key}"')
        writer = _writerFrom(host, section.get("channel"))
        service: IService = TrafficService(
            host,
            _busFrom(host, section.get("account")),
            _intervalFrom(section.get("interval", 10)),
            _countFrom("depth", section.get("depth", 2), *_DEPTH),
            _countFrom("top", section.get("top", 1000), *_TOP),
            None if writer is None else writer.write,
            lambda: None if writer is None else writer.close(),
        )
        return service


READY_MADE = (TrafficPlugin(),)


def _busFrom(host: IBrokerHost, name: object) -> Any:
    settings = host.settings
    if name is None:
        return None if settings.no_system_account else host.bus(settings.system_account)
    try:
        return host.bus(str(name))
    except KeyError:
        raise ValueError(f"there is no account {name}") from None


def _writerFrom(host: IBrokerHost, channel: object) -> ChannelWriter | None:
    if channel is None:
        return None
    streaming = host.settings.streaming
    if streaming is None:
        raise ValueError("channel needs a streaming block")
    bus, prefix = host.bus(streaming.account), streaming.discover_prefix
    return ChannelWriter(bus, host.reactor, str(channel), streaming.cluster_id, prefix)


def _intervalFrom(value: object) -> float:
    try:
        seconds = secondsFrom(value) if isinstance(value, str) else float(str(value))
    except ValueError:
        seconds = -1.0
    low, high = _INTERVAL
    if isinstance(value, bool) or not low <= seconds <= high:
        raise ValueError(f"interval must be {low:g} to {high:g} seconds")
    return seconds


def _countFrom(name: str, value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} must be a number from {low} to {high}")
    return value
