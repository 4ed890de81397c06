"""
NATS Streaming, as the settings want it.

Promises: the service that the C{streaming} block describes, over the store that it names, and what
serves jobs over the same logs.
Must never know: how the service works.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker.config.streaming import ChannelLimits as ChannelSettings
from natsbroker.config.streaming import Streaming
from natsbroker.errors import BrokerError
from natsbroker.hosting.plugins import Plugins
from natsbroker.hosting.start import StartError
from natsbroker.hosting.stores import monotonicOf, storeOpener, wallClockOf
from natsbroker.interfaces import IBrokerHost, IStreamStore
from natsbroker.pipeline.service import PipelineService
from natsbroker.stan.limits import ChannelLimits, ChannelOverrides, Limits
from natsbroker.stan.options import Heartbeats, StreamingOptions
from natsbroker.stan.service import StreamingService

__all__ = ["optionsFrom", "storeMaker", "streamingService"]


def optionsFrom(streaming: Streaming) -> StreamingOptions:
    """
    What the settings say, as the service wants it.
    """
    everywhere = ChannelLimits(
        streaming.max_subs,
        streaming.max_msgs,
        streaming.max_bytes,
        streaming.max_age,
        streaming.max_inactivity,
    )
    channels = {name: _overrides(each) for name, each in streaming.channels.items()}
    return StreamingOptions(
        streaming.cluster_id,
        streaming.discover_prefix,
        Limits(streaming.max_channels, everywhere, channels),
        Heartbeats(streaming.hb_interval, streaming.hb_timeout, streaming.hb_fail_count),
        streaming.replace_durable,
        streaming.store.upper(),
    )


def _overrides(limits: ChannelSettings) -> ChannelOverrides:
    said = {each.name: getattr(limits, each.name) for each in fields(limits)}
    return ChannelOverrides(said.pop("max_subs"), **said)


def storeMaker(
    host: IBrokerHost, streaming: Streaming, plugins: Plugins
) -> Callable[[], Deferred[IStreamStore]]:
    """
    What opens the store that the settings describe.

    @return: a callable that raises L{StartError} if the store's options make no sense.
    @raise BrokerError: if there is no such store.
    """
    opener = storeOpener(streaming.store, plugins)
    section: dict[str, Any] = {"dir": streaming.dir} if streaming.dir else {}
    section.update(streaming.store_options)

    def openStore() -> Deferred[IStreamStore]:
        try:
            opening: Deferred[IStreamStore] = opener.openStore(host, section)
        except ValueError as error:
            raise StartError(f'store "{streaming.store}": {error}') from error
        return opening

    return openStore


def streamingService(host: IBrokerHost, streaming: Streaming, plugins: Plugins) -> StreamingService:
    """
    Make the service, with jobs that read what it stores served beside it.

    @raise BrokerError: if there is no such store or account.
    @raise ValueError: if the settings make no sense.
    """
    openStore = storeMaker(host, streaming, plugins)
    try:
        bus = host.bus(streaming.account)
    except KeyError:
        raise BrokerError(f'"streaming" names an unknown account: {streaming.account}') from None
    monotonic, now = monotonicOf(host.reactor), wallClockOf(host.reactor)
    # What jobs take is counted in the processor's time, so that a busy machine does not slow them.
    worked = time.process_time if host.reactor.seconds is time.time else monotonic
    pipeline = PipelineService(
        bus, host.reactor, worked, now, lambda: int(host.settings.max_payload)
    )
    return StreamingService(
        bus,
        host.reactor,
        openStore,
        optionsFrom(streaming),
        monotonic,
        now,
        logUsers=(pipeline,),
    )
