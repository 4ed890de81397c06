"""
The monitoring pages of a broker, without HTTP. They read figures that the broker keeps anyway. A
service adds a page, a health check or a member through attributes of L{MonitoringModel}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from html import escape
from typing import Any

from natsbroker.accounts.accountz import Accountz
from natsbroker.accounts.accstatz import Accstatz
from natsbroker.accounts.subsz import Subsz
from natsbroker.clients.connz import Connz, Namers
from natsbroker.config.model import Settings
from natsbroker.interfaces import IConnectionKind
from natsbroker.jetstream.health import jetStreamCheck
from natsbroker.jetstream.jsz import Jsz, accountsOf, storeOf, varzOf
from natsbroker.monitoring.answers import HTML, Answer, Page, jsonAnswer, textAnswer
from natsbroker.monitoring.healthz import HealthCheck, Healthz
from natsbroker.monitoring.livepage import liveFile, livePage
from natsbroker.monitoring.metrics import Metrics
from natsbroker.monitoring.queries import BadQuery, Query, flag
from natsbroker.monitoring.state import BrokerState
from natsbroker.monitoring.storemetrics import storeSeries
from natsbroker.monitoring.varz import Varz
from natsbroker.system.statsz import Statsz


class MonitoringModel:
    """
    The pages of one broker, whose clock is the reactor of the client connections. Services add to
    L{varz}, L{accountz}, L{metrics} and L{healthz}, and give their links to the pages in L{links}.

    @ivar state: what the pages read.
    @ivar links: the pages of connection kinds, by the kind's name.
    @ivar pages: by path, as C{/varz}; more may be added.
    @ivar stores: gives each store by what it is for, or C{None} while it is not open.
    """

    def __init__(
        self,
        state: BrokerState,
        healthChecks: Iterable[HealthCheck] = (),
        namers: Namers | None = None,
        kinds: Iterable[IConnectionKind] = (),
        jetstream: Callable[[], Any] = lambda: None,
    ) -> None:
        """
        @param jetstream: gives L{natsbroker.jetstream.figures.JetStreamFigures}, or C{None}.
        """
        self.state = state
        self.clock = state.context.reactor
        self.host = state.settings.monitoring.http_host
        self.requests: dict[str, int] = {}
        self.varz = Varz(self.state, self.requests)
        self.connz = Connz(state.context, namers or Namers())
        self.subsz = Subsz(state.context, state.accounts)
        self.healthz = Healthz([*healthChecks, jetStreamCheck(jetstream)])
        self.accountz = Accountz(self.state)
        self.accstatz = Accstatz(self.state)
        self.jsz = Jsz(self.state, jetstream)
        self.jetstream = jetstream
        self.varz.contributions["jetstream"] = lambda: varzOf(jetstream())
        self.statsz = Statsz(self.state, self.varz, lambda: varzOf(jetstream()))
        self.accountz.hasJetStream = lambda name: name in accountsOf(jetstream())
        self.stores: dict[str, Callable[[], Any]] = {"jetstream": lambda: storeOf(jetstream())}
        self.metrics = Metrics(self.state, self.varz, self.accstatz, jetstream)
        self.metrics.contributions.append(partial(storeSeries, self.stores))
        self.pages: dict[str, Page] = {
            "/": self._index,
            "/live": livePage,
            "/varz": self.varz,
            "/connz": self.connz,
            "/accountz": self.accountz,
            "/accstatz": self.accstatz,
            "/jsz": self.jsz,
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
        self.aliases = {"/subscriptionsz": "/subsz"}

    @property
    def basePath(self) -> str:
        return self.state.settings.monitoring.http_base_path.rstrip("/")

    @property
    def origins(self) -> Sequence[str]:
        """The origins of web pages that may read the pages."""
        return self.state.settings.monitoring.monitor_origins

    @property
    def tags(self) -> Sequence[str]:
        """The tags of the server."""
        return self.state.settings.server_tags

    @property
    def domain(self) -> str:
        """The JetStream domain; empty for none."""
        return self.state.settings.jetstream.domain

    def reloaded(self, settings: Settings) -> None:
        self.state.settings = settings
        self.state.configLoadTime = self.state.seconds()

    def answer(self, path: str, query: Query) -> Answer | None:
        """
        @param path: with the base path, as in the URL. Slashes may be doubled, as nats-server takes
            them, after a redirection.
        @return: C{None} for an unknown page.
        """
        base, given, path = self.basePath, path, re.sub("/{2,}", "/", path)
        name = path[len(base) :] if path.startswith(base) else ""
        name = "/" if path == base else self.aliases.get(name, name)
        page = self.pages.get(name)
        if page is None:
            return liveFile(name) if path == given else None
        self.requests[name] = self.requests.get(name, 0) + 1
        try:
            return page(query)
        except BadQuery as refusal:
            return textAnswer(400, str(refusal))

    def _index(self, query: Query) -> Answer:
        paths = [escape(self.basePath + path) for path in self.pages if path != "/"]
        links = "".join(f'<li><a href="{path}">{path}</a></li>\n' for path in paths)
        version = escape(self.state.context.info.natsbroker)
        page = (
            '<!DOCTYPE html>\n<html lang="en">\n<head><title>natsbroker</title></head>\n<body>\n'
            f"<h1>natsbroker {version}</h1>\n<ul>\n{links}</ul>\n</body>\n</html>\n"
        )
        return Answer(200, HTML, iter([page.encode("utf-8")]))


def _noQueues(query: Query) -> Answer:
    """There are no queues between the threads of a Go server."""
    flag(query, "all")
    return jsonAnswer({})


def _noGroups(query: Query) -> Answer:
    """There are no Raft groups."""
    return textAnswer(404, "No Raft nodes registered")
