"""
The table of a broker's monitoring pages. They read existing figures. A service adds a page, a
health check or a member through attributes of L{ServerPages}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from natsbroker.clients.connz import Connz, Namers
from natsbroker.clients.state import BrokerState
from natsbroker.config.model import Settings
from natsbroker.interfaces import IConnectionKind
from natsbroker.monitoring.answers import Answer, jsonAnswer, textAnswer
from natsbroker.monitoring.healthz import HealthCheck, Healthz
from natsbroker.monitoring.livepage import livePage
from natsbroker.monitoring.metrics import Metrics
from natsbroker.monitoring.model import MonitoringModel
from natsbroker.monitoring.queries import Query, flag
from natsbroker.monitoring.storemetrics import storeSeries
from natsbroker.system.accountz import Accountz
from natsbroker.system.accstatz import Accstatz
from natsbroker.system.metrics import ServerMetrics
from natsbroker.system.statsz import Statsz
from natsbroker.system.subsz import Subsz
from natsbroker.system.varz import Varz


class ServerPages(MonitoringModel):
    """
    The pages of one broker, whose clock is the reactor of the client connections. Services add to
    L{varz}, L{accountz}, L{metrics} and L{healthz}, and give their links to the pages in L{links}.

    @ivar state: the parts of the broker that the pages read.
    @ivar links: the pages of connection kinds, by the kind's name.
    @ivar jsz: the page of JetStream, which adds it.
    @ivar stores: gives each store by what it is for, or C{None} while it is not open.
    """

    def __init__(
        self,
        state: BrokerState,
        healthChecks: Iterable[HealthCheck] = (),
        namers: Namers | None = None,
        kinds: Iterable[IConnectionKind] = (),
    ) -> None:
        version = state.context.info.natsbroker
        super().__init__(lambda: state.settings.monitoring, state.context.reactor, version)
        self.state = state
        self.varz = Varz(self.state, self.requests)
        self.connz = Connz(state.context, namers or Namers())
        self.subsz = Subsz(state.context, state.accounts)
        self.healthz = Healthz(healthChecks)
        self.accountz = Accountz(self.state)
        self.accstatz = Accstatz(self.state)
        self.jsz: Any = None
        self.statsz = Statsz(self.state, self.varz)
        self.stores: dict[str, Callable[[], Any]] = {}
        self.figures = ServerMetrics(self.state, self.varz, self.accstatz)
        self.metrics = Metrics()
        self.metrics.contributions += (self.figures.series, partial(storeSeries, self.stores))
        self.pages |= {
            "/live": livePage,
            "/varz": self.varz,
            "/connz": self.connz,
            "/accountz": self.accountz,
            "/accstatz": self.accstatz,
            "/metrics": self.metrics,
            "/subsz": self.subsz,
            "/healthz": self.healthz,
            "/ipqueuesz": _noQueues,
            "/raftz": _noGroups,
        }
        self.links: dict[str, Any] = {}
        for kind in kinds:
            if kind.page:
                self.pages[kind.page] = self.links[kind.name] = kind.makePage(self.state)
        self.aliases["/subscriptionsz"] = "/subsz"

    @property
    def tags(self) -> Sequence[str]:
        return self.state.settings.server_tags

    @property
    def domain(self) -> str:
        return self.state.settings.jetstream.domain

    def reloaded(self, settings: Settings) -> None:
        self.state.settings = settings
        self.state.configLoadTime = self.state.seconds()


def _noQueues(query: Query) -> Answer:
    flag(query, "all")
    return jsonAnswer({})


def _noGroups(query: Query) -> Answer:
    return textAnswer(404, "No Raft nodes registered")
