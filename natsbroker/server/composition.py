"""
How the parts of a broker are made that depend on settings alone and on each other: what client
connections share, who asks outside, who tells of clients, and the pages.

Promises: what is made asks for the settings in force when it needs them, not for those of the
beginning.
Must never know: which parts there are, or their order; the broker does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from natsbroker import hot
from natsbroker.accounts.bus import Bus
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.advisories import Advisory
from natsbroker.auth.answering import Describe
from natsbroker.clients.context import REMEMBERED, ClientContext, Connections
from natsbroker.clients.events import ClientEvents
from natsbroker.clients.finding import closeExcess, sessionOf
from natsbroker.config.model import Settings
from natsbroker.interfaces import IAuthorizer
from natsbroker.server.derived import infoFrom, limitsFrom, tracingFrom
from natsbroker.server.identity import ServerKeys, identifying
from natsbroker.wire.values import Kind

if TYPE_CHECKING:
    from natsbroker.auth.callout.callouts import Callouts
    from natsbroker.auth.operator.service import OperatorService
    from natsbroker.connections.tls import TLSTerms
    from natsbroker.monitoring.model import MonitoringModel
    from natsbroker.monitoring.service import MonitoringService

__all__ = [
    "makeCallouts",
    "makeContext",
    "makeEvents",
    "makeMonitoring",
    "makeOperators",
    "makePages",
    "makeTerms",
    "withOperators",
]

#: Gives what client connections share, once there is such a thing.
Shared = Callable[[], ClientContext]


def makeContext(
    reactor: Any,
    settings: Settings,
    keys: ServerKeys,
    accounts: AccountRegistry,
    authorizer: IAuthorizer,
    turn: hot.Turn,
    notify: Callable[[Advisory], None],
    random: Random,
) -> ClientContext:
    """
    What client connections share. INFO names the address of the settings as long as nobody listens.

    @param notify: is told what happens.
    """
    required, place = authorizer.required, (settings.host, settings.port)
    context = ClientContext(
        reactor,
        accounts,
        authorizer,
        infoFrom(settings, keys.id, *place, required, keys.xkey),
        limitsFrom(settings),
        turn,
        notify,
        random,
        connections=Connections(settings.max_closed_clients or REMEMBERED),
    )
    context.tracing = tracingFrom(settings)
    context.fastLane = settings.fast_lane
    return context


def makeEvents(
    bus: Callable[[], Bus | None],
    shared: Shared,
    serverId: str,
    describe: Describe,
    seconds: Callable[[], float],
    random: Random,
) -> ClientEvents:
    """
    Who tells the system account of clients.

    @param bus: of that account; C{None} while there is none.
    """
    return ClientEvents(
        bus,
        lambda cid: sessionOf(shared().connections, cid),
        lambda: serverId,
        describe,
        seconds,
        random,
    )


def makeCallouts(
    reactor: Any,
    keys: ServerKeys,
    accounts: AccountRegistry,
    shared: Shared,
    settings: Callable[[], Settings],
) -> Callouts:
    """
    Who asks other programs about clients.
    """
    from natsbroker.auth.callout.callouts import Callouts

    identify = identifying(lambda: shared().info, settings)

    def timeout() -> float:
        return shared().limits.auth_timeout

    def busFor(account: str) -> Bus:
        return accounts[account].busFor(Kind.INTERNAL)

    return Callouts(keys.signer, keys.curve, identify, busFor, reactor, timeout)


def makeOperators(
    reactor: Any,
    settings: Settings,
    accounts: AccountRegistry,
    shared: Shared,
    inThread: Callable[..., Any],
    describe: Describe,
    callouts: Callable[[], Callouts],
    countNeighbours: Callable[[], float],
) -> OperatorService | None:
    """
    Who takes accounts from JWTs; C{None} where the settings name no operator.

    @param callouts: gives who asks other programs about clients.
    """
    if not settings.operator.isOn:
        return None
    from natsbroker.auth.operator.service import OperatorService

    return OperatorService(
        settings,
        accounts,
        reactor,
        inThread,
        describe,
        lambda account: closeExcess(shared(), accounts, account),
        callouts(),
        countNeighbours,
    )


def withOperators(settings: Settings) -> Settings:
    """
    Settings with the system account that their operators name.

    @raise ValueError: see L{natsbroker.auth.operator.operators.operatorsIn}.
    """
    if not settings.operator.isOn:
        return settings
    from natsbroker.auth.operator.operators import operatorsIn

    return replace(settings, system_account=operatorsIn(settings).systemAccount)


def makeTerms(settings: Settings) -> TLSTerms | None:
    """
    How client listeners do TLS; C{None} for not at all.

    @raise ValueError: if a certificate is no good.
    """
    if settings.tls is None:
        return None
    from natsbroker.connections.tlscontext import termsFrom

    return termsFrom(settings.tls, settings.allow_non_tls)


def makeMonitoring(
    context: ClientContext,
    accounts: AccountRegistry,
    settings: Settings,
    times: tuple[float, float],
    closed: Callable[[], list[str]],
    trouble: Callable[[], str],
    losses: Callable[[], Sequence[str]],
    pollerTrouble: Callable[[], str],
    nameOf: Callable[[str], str],
) -> MonitoringModel:
    """
    What is behind the monitoring pages.

    @param times: when the broker began, and when the settings were loaded.
    @param closed: see L{natsbroker.monitoring.healthz.listeningCheck}.
    @param trouble: see L{natsbroker.monitoring.healthz.storeCheck}.
    @param losses: see L{natsbroker.monitoring.healthz.lossCheck}.
    @param pollerTrouble: see L{natsbroker.monitoring.healthz.pollingCheck}.
    @param nameOf: how an account is called for people.
    """
    from natsbroker.auth.certificates import described
    from natsbroker.clients.connz import Namers
    from natsbroker.monitoring.healthz import listeningCheck, lossCheck, pollingCheck, storeCheck
    from natsbroker.monitoring.model import MonitoringModel

    start, loaded = times
    return MonitoringModel(
        context,
        accounts,
        settings,
        start,
        healthChecks=[
            listeningCheck(closed),
            pollingCheck(pollerTrouble),
            storeCheck(trouble),
            lossCheck(losses),
        ],
        namers=Namers(nameOf, described),
        loadTime=loaded,
    )


def makePages(
    reactor: Any, model: Callable[[], MonitoringModel], settings: Settings
) -> MonitoringService | None:
    """
    The monitoring port; C{None} where the settings name none.

    @param model: gives what is behind the pages.
    """
    if not (settings.monitoring.http_port or settings.monitoring.https_port):
        return None
    from natsbroker.connections.tlscontext import pagesCreatorFrom
    from natsbroker.monitoring.service import MonitoringService

    creator = None if settings.tls is None else pagesCreatorFrom(settings.tls)
    return MonitoringService(reactor, model(), settings, creator)
