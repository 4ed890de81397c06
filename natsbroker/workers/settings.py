"""The settings of each worker, and those that several workers cannot have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from natsbroker.config.model import Monitoring, Settings
from natsbroker.workers.channel import CLIENTS
from natsbroker.workers.listeners import withPorts

FIRST = 1
"""The number of the worker that has what cannot be shared, as NATS Streaming."""

SHARED = ("lmdb", "postgres", "postgresql")
"""The stores of JetStream whose streams workers share out; others are in the first one alone."""


def workerSettings(
    settings: Settings, number: int, addresses: Mapping[str, tuple[str, int]]
) -> Settings:
    """
    @param settings: of the server.
    @param addresses: at which the parent listens, by listener.
    """
    host, port = addresses[CLIENTS]
    own = replace(
        withPorts(settings, addresses),
        host=host,
        port=port,
        pidfile="",
        ports_file_dir="",
        monitoring=Monitoring(),
        workers=1,
    )
    if number == FIRST:
        return own
    if own.jetstream.backend in SHARED:
        return replace(own, streaming=None)
    return replace(own, streaming=None, jetstream=replace(own.jetstream, enabled=False))


def sharesRemotes(settings: Settings) -> bool:
    """Whether one worker dials the remotes of leafnodes for all; in a cluster each member does."""
    block = settings.leafnodes
    return block is not None and bool(block.remotes) and not settings.isMember


def refusals(settings: Settings) -> Iterator[str]:
    """The reasons against several workers, each with its place in the file if known."""
    for key, why in _reasons(settings):
        place = f"{settings.places[key]}: " if key in settings.places else ""
        yield f"{place}{key}: {why}"


def _reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    for key in ("cluster", "gateway"):
        block = getattr(settings, key)
        if block is not None and block.isOn:
            yield key, f"other servers reach one process yet; {_ONE}"
    streaming = settings.streaming
    if streaming is not None and streaming.nats_server:
        yield "streaming", f"a server beside another NATS server has no clients of its own; {_ONE}"
    if streaming is not None and streaming.jetstream_accounts:
        yield "streaming.jetstream_accounts", f"workers share streams, and no channels; {_ONE}"
    for key, isNamed in (
        ("authorization.plugin", settings.authorization.plugin),
        ("router.plugin", settings.router.plugin),
        ("services", settings.services),
        ("plugins", settings.plugins),
    ):
        if isNamed:
            yield key, f"a plugin runs in one process; {_ONE}"


_ONE = "use one worker"
