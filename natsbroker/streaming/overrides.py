"""The flags of nats-streaming-server, any of which turns NATS Streaming on."""

from __future__ import annotations

from collections.abc import Mapping

from natsbroker.config.flags import STREAMING_FLAGS, flagNamed
from natsbroker.config.goflags import FlagValue
from natsbroker.config.model import Settings, changed

_DEBUG = ("SD", "SV", "SDV")

_ASKING = {flag.names[0] for flag in STREAMING_FLAGS}


def withStreaming(settings: Settings, given: Mapping[str, FlagValue]) -> Settings:
    if given.get("streaming") is False:
        return changed(settings, "streaming", None)
    if any(given.get(name) for name in _DEBUG):
        settings = changed(settings, "logging.debug", True)
    if not _ASKING & set(given):
        return settings
    from natsbroker.config.settings.streaming import Streaming
    from natsbroker.streaming.reading import storeNamed

    settings = changed(settings, "streaming", settings.streaming or Streaming())
    for name, value in given.items():
        setting = flagNamed(name).setting
        if setting == "streaming.store":
            value = storeNamed(str(value))
        if setting.startswith("streaming."):
            settings = changed(settings, setting, value)
    return settings
