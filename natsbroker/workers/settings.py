"""
The settings of each worker, and the settings that several workers cannot have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from natsbroker.config.addresses import joined
from natsbroker.config.model import Monitoring, Settings
from natsbroker.config.settings.listeners import advertised
from natsbroker.config.settings.routes import Cluster
from natsbroker.runtime.plugins import Plugins
from natsbroker.server.builtin import withBuiltIn
from natsbroker.workers.listeners import withPorts
from natsbroker.workers.messages import (
    CLIENTS,
    FIRST,
)

SHARED = ("lmdb", "postgres", "postgresql")
"""The stores of JetStream whose streams workers share out; others are in the first one alone."""


def workerSettings(
    settings: Settings, number: int, addresses: Mapping[str, tuple[str, int]]
) -> Settings:
    """
    @param settings: the settings of the server.
    @param addresses: the addresses on which the parent listens, by listener.
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
        cluster=_clusterOf(settings.cluster, number),
    )
    if number == FIRST:
        return own
    if own.jetstream.backend in SHARED:
        return replace(own, streaming=None)
    return replace(own, streaming=None, jetstream=replace(own.jetstream, enabled=False))


def _clusterOf(cluster: Cluster | None, number: int) -> Cluster | None:
    """
    The cluster block of a worker, which is a member with its own port: the configured one for the
    first worker, and the next ports for the others.
    """
    if cluster is None or cluster.port <= 0:
        return cluster
    host, port = advertised(cluster.advertise, 0) if cluster.advertise else ("", 0)
    other = joined(host, port + number - FIRST) if port else cluster.advertise
    return replace(cluster, port=cluster.port + number - FIRST, advertise=other)


def sharesRemotes(settings: Settings) -> bool:
    """
    Whether one worker dials the remotes of leafnodes for all. In a cluster each member dials them.
    """
    block = settings.leafnodes
    return block is not None and bool(block.remotes) and not settings.isMember


def refusals(settings: Settings, plugins: Plugins | None = None) -> Iterator[str]:
    """
    The reasons against several workers, each with its position in the file if known.

    @param plugins: the plugins, by default those that are installed.
    """
    for key, why in _reasons(settings, withBuiltIn(plugins or Plugins())):
        place = f"{settings.places[key]}: " if key in settings.places else ""
        yield f"{place}{key}: {why}"


def _reasons(settings: Settings, plugins: Plugins) -> Iterator[tuple[str, str]]:
    if settings.cluster is not None and settings.cluster.dialect != "modern":
        yield "cluster.dialect", f"workers are members that speak the modern one alone; {_ONE}"
    streaming = settings.streaming
    if streaming is not None and streaming.nats_server:
        yield "streaming", f"a server beside another NATS server has no clients of its own; {_ONE}"
    if streaming is not None and streaming.jetstream_accounts:
        yield "streaming.jetstream_accounts", f"workers share streams, and no channels; {_ONE}"
    for key, what in plugins.unshared(settings):
        yield key, f"the {what} does not say that it runs in several processes; {_ONE}"


_ONE = "use one worker"
