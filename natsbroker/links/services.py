"""
The services of a broker's connection kinds. A kind that is not configured has no service, and its
modules are not loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import ensureDeferred
from zope.interface import implementer

from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.interfaces import (
    IBrokerHost,
    IConnectionKind,
    IConnectionService,
    ILinks,
    IPeerService,
)
from natsbroker.links.context import LinkDependencies
from natsbroker.runtime.reload import Planner, Step, nothing


@implementer(ILinks)
class Links:
    def __init__(
        self,
        host: IBrokerHost,
        dependencies: LinkDependencies,
        changed: Callable[[], None],
        kinds: Sequence[Any],
        others: Sequence[IConnectionKind] = (),
    ) -> None:
        """
        @param kinds: the broker's own, each an L{IConnectionKind}.
        @param others: those of services.
        @param changed: called when L{clientInfo} may have changed.
        @raise natsbroker.connections.tlscontext.TLSSettingsError: for a bad certificate.
        """
        self.kinds: tuple[Any, ...] = (*kinds, *others)
        self._others = others
        self.dependencies = dependencies
        self._host = host
        self._changed = changed
        self._poller: Any = None
        self._monitoring: Any = None
        self._services: dict[str, Any] = {}
        dependencies.accounts.location = self._location
        for kind in self.kinds:
            isBetweenNeighbours = kind.name == "route" and dependencies.hostCluster is not None
            if isBetweenNeighbours or kind.isConfigured(dependencies.settings):
                self._make(kind)

    def _make(self, kind: IConnectionKind) -> Any:
        try:
            made = kind.makeService(self._host, self)
        except ValueError as error:
            if kind not in self._others:
                raise
            key = f"services.{kind.key}"
            place = f"{key}.{getattr(error, 'option', '')}"
            settings = self.dependencies.settings
            at = place if place in settings.places else key
            text = f'connection kind "{kind.name}": {error}'
            raise ValueError(settings.placed(at, text)) from error
        service = IConnectionService(made)
        self._services[kind.name] = service
        return service

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._services.values()))

    def _peers(self) -> list[Any]:
        return [service for service in self._services.values() if IPeerService.providedBy(service)]

    def find(self, name: str) -> Any:
        return self._services.get(name)

    def changed(self) -> None:
        for service in self._peers():
            service.linksChanged()
        self._changed()

    def clientInfo(self) -> dict[str, Any]:
        return {
            key: value for service in self._peers() for key, value in service.clientInfo().items()
        }

    def countPeers(self) -> float:
        return math.fsum(service.neighbours() for service in self._peers())

    def addresses(self) -> dict[str, list[str]]:
        """The URLs at which each kind listens, by its configuration key."""
        servicesByKey = {kind.key: self._services.get(kind.name) for kind in self.kinds}
        return {
            key: [] if service is None else list(service.urls())
            for key, service in servicesByKey.items()
        }

    def _location(self) -> tuple[str, tuple[str, ...]]:
        for service in reversed(self._peers()):
            location = service.location()
            if location is not None:
                return location[0], tuple(location[1])
        return "", ()

    def show(self, monitoring: Any) -> None:
        self._monitoring = monitoring
        for kind in self.kinds:
            # A cluster of neighbours has no monitoring page.
            if kind.name in self._services and kind.isConfigured(self._host.settings):
                kind.contribute(self._services[kind.name], monitoring)

    def usePoller(self, poller: Any) -> None:
        self._poller = poller
        for service in self._peers():
            service.usePoller(poller)

    async def open(self, settings: Settings) -> None:
        """Open with settings in force and chosen ports; C{StartError} for an address in use."""
        for service in reversed(list(self)):
            await service.open(settings)
        for service in reversed(list(self)):
            service.connect()

    def announce(self) -> None:
        cluster = self.dependencies.hostCluster
        for name, service in reversed(list(self._services.items())):
            # Only for routes does each neighbour have its own listener.
            if cluster is None or cluster.announces or name == "route":
                service.announce()

    def reauthorize(self, account: str | None) -> None:
        for service in self._peers():
            service.reauthorize(account)

    def leave(self) -> None:
        for service in self._peers():
            service.leave()

    async def stopListening(self) -> None:
        for service in self:
            await service.stopListening()

    async def close(self) -> None:
        for service in self:
            await service.close()

    def planners(self) -> list[Planner]:
        """
        The owners of the kinds' settings. They plan after those of accounts and authorization.
        """
        return [partial(self._plan, kind) for kind in self.kinds]

    def _plan(self, kind: IConnectionKind, new: Settings, changes: Sequence[Change]) -> Step:
        service = self._services.get(kind.name)
        if service is None:
            if not kind.isConfigured(new):
                return nothing
            if kind.reloadError:
                raise ValueError(kind.reloadError)
            service = self._begin(kind)
        step: Step = service.plan(new, changes)
        return step

    def _begin(self, kind: IConnectionKind) -> Any:
        service = self._make(kind)
        self.usePoller(self._poller)
        if self._monitoring is not None:
            kind.contribute(service, self._monitoring)

        async def begin() -> None:
            await service.open(self._host.settings)
            service.connect()

        ensureDeferred(begin())
        return service
