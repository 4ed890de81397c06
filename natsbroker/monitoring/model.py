"""
The model behind the monitoring pages.

Promises: every page by its path, from figures that the broker keeps anyway: nobody who does not ask
pays. Whoever has more to tell (links, streams, a third party's service) adds a page, a health check
or what a key of a page says, through the public attributes.
Must never know: HTTP, sockets, or what other services there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.interfaces import IReactorTime

from natsbroker.accounts.accountz import Accountz
from natsbroker.accounts.subsz import Subsz
from natsbroker.clients.connz import Connz
from natsbroker.gateways.gatewayz import Gatewayz
from natsbroker.leafnodes.leafz import Leafz
from natsbroker.monitoring.answers import Answer, Page, textAnswer
from natsbroker.monitoring.healthz import HealthCheck, Healthz
from natsbroker.monitoring.index import Index
from natsbroker.monitoring.process import ProcessUsage
from natsbroker.monitoring.queries import BadQuery, Query
from natsbroker.monitoring.rows import Namers
from natsbroker.monitoring.state import BrokerState
from natsbroker.monitoring.varz import Varz
from natsbroker.monitoring.views import AccountView, ContextView, SettingsView
from natsbroker.routes.routez import Routez

__all__ = ["MonitoringModel"]


class MonitoringModel:
    """
    The pages of one broker.

    @ivar pages: by path, as C{/varz}; more may be added.
    @ivar requests: how often each page was asked for.
    @ivar varz: the page, for its contributions.
    @ivar connz: the page.
    @ivar subsz: the page.
    @ivar leafz: the page, for whose leafnodes it shows.
    @ivar routez: the page, for whose routes it shows.
    @ivar healthz: the page, for its checks.
    @ivar accountz: the page, for its contributions.
    @ivar gatewayz: the page, for what it is to tell.
    """

    def __init__(
        self,
        context: ContextView,
        accounts: Iterable[AccountView],
        settings: SettingsView,
        startTime: float,
        healthChecks: Iterable[HealthCheck] = (),
        process: ProcessUsage | None = None,
        namers: Namers | None = None,
        loadTime: float | None = None,
    ) -> None:
        """
        @param context: what client connections share; its reactor tells the time.
        @param accounts: all accounts, every time that they are gone through.
        @param settings: the settings in force.
        @param startTime: when the broker began, in seconds since the epoch.
        @param healthChecks: what C{/healthz} asks.
        @param process: what the process uses; by default this process.
        @param namers: how accounts and certificates are called.
        @param loadTime: when the settings were loaded; by default when the broker began.
        """
        loaded = startTime if loadTime is None else loadTime
        process = process or ProcessUsage(context.reactor.seconds)
        self._state = BrokerState(context, accounts, settings, startTime, loaded, process)
        self.requests: dict[str, int] = {}
        self.varz = Varz(self._state, self.requests)
        self.connz = Connz(context, namers)
        self.subsz = Subsz(context, accounts)
        self.routez = Routez(self._state)
        self.healthz = Healthz(healthChecks)
        self.accountz = Accountz(self._state)
        self.gatewayz = Gatewayz(self._state)
        self.leafz = Leafz(self._state)
        self.pages: dict[str, Page] = {
            "/": Index(context.info.natsbroker, self._paths),
            "/varz": self.varz,
            "/connz": self.connz,
            "/gatewayz": self.gatewayz,
            "/leafz": self.leafz,
            "/accountz": self.accountz,
            "/subsz": self.subsz,
            "/routez": self.routez,
            "/healthz": self.healthz,
        }
        self.aliases = {"/subscriptionsz": "/subsz"}

    @property
    def clock(self) -> IReactorTime:
        """
        For time and timers.
        """
        return self._state.context.reactor

    @property
    def host(self) -> str:
        """
        Where the pages are to be listened for.
        """
        return self._state.settings.monitoring.http_host

    @property
    def basePath(self) -> str:
        """
        What stands before the path of every page; empty or with a leading slash.
        """
        return self._state.settings.monitoring.http_base_path.rstrip("/")

    def reloaded(self, settings: SettingsView) -> None:
        """
        Other settings are in force from now on.
        """
        self._state.settings = settings
        self._state.configLoadTime = self._state.seconds()

    def answer(self, path: str, query: Query) -> Answer | None:
        """
        Ask for a page.

        @param path: with the base path, as in the address.
        @param query: the parameters, each with its first value.
        @return: C{None} if there is no such page.
        """
        base = self.basePath
        name = path[len(base) :] if path.startswith(base) else ""
        name = "/" if path == base else self.aliases.get(name, name)
        page = self.pages.get(name)
        if page is None:
            return None
        self.requests[name] = self.requests.get(name, 0) + 1
        try:
            return page(query)
        except BadQuery as refusal:
            return textAnswer(400, str(refusal))

    def _paths(self) -> Iterable[str]:
        return [self.basePath + path for path in self.pages if path != "/"]
