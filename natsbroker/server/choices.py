"""The replaceable parts of a broker, chosen by its settings or by the program that embeds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.interfaces import IStreamServerEndpoint

from natsbroker.config.model import Settings
from natsbroker.connections.listener import Opened
from natsbroker.links.hostcluster import HostCluster
from natsbroker.runtime.plugins import nameOf


@dataclass(frozen=True)
class Replacements:
    """The parts that the embedding program passes to L{natsbroker.broker.Broker}."""

    authorizer: Any = None
    accountResolver: Any = None
    routerFactory: Callable[[str], Any] | None = None
    services: Sequence[Any] = ()
    observers: Sequence[Any] = ()
    endpoints: Sequence[str | IStreamServerEndpoint] | None = None
    gatewayPolicy: Any = None
    connectionKinds: Sequence[Any] = ()
    sockets: Mapping[str, Opened] = field(default_factory=dict)
    hostCluster: HostCluster | None = None


def choicesIn(
    settings: Settings, given: Replacements, services: Iterable[str]
) -> Mapping[str, str]:
    """The parts that the log names when the broker starts."""
    named = settings.authorization.plugin or "settings"
    return {
        "authorizer": nameOf(given.authorizer, named),
        "router": settings.router.plugin or nameOf(given.routerFactory, "built-in"),
        "services": ",".join(services) or "none",
    }


def pluginsIn(
    settings: Settings, given: Replacements, services: Iterable[str], kinds: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """The kind and the name of each part, for the metrics."""
    choices = choicesIn(settings, given, services)
    yield from (("authorizer", choices["authorizer"]), ("router", choices["router"]))
    yield from (("service", service) for service in services)
    yield from (("observer", type(observer).__name__) for observer in given.observers)
    yield from (("connection kind", kind) for kind in sorted(kinds))
    if settings.gateway is not None:
        named = settings.gateway.interest.plugin or "built-in"
        yield "gateway policy", nameOf(given.gatewayPolicy, named)
    if settings.streaming is not None:
        yield "streaming store", settings.streaming.store
    if settings.jetstream.enabled:
        yield "jetstream store", settings.jetstream.backend
