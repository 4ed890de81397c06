"""
Reloads of limits, logins and TLS of clients. New limits and permissions hold for present
connections, and clients that are no longer admitted are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from natsbroker import errors
from natsbroker.accounts.exchanges import checkImports
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.clients.context import ClientContext
from natsbroker.clients.finding import closeExcess, sessionsOf
from natsbroker.clients.listeners import Listeners
from natsbroker.config.diff import Change
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.interfaces import IAuthorizer, IReloadable
from natsbroker.runtime.reload import Planner, Step, below, nothing

if TYPE_CHECKING:
    from natsbroker.auth.operator.service import OperatorService
    from natsbroker.monitoring.service import MonitoringService


def limitsPlanner(context: ClientContext) -> Planner:
    def plan(new: Settings, changes: Sequence[Change]) -> Step:
        def apply() -> None:
            context.settings = new
            for session in sessionsOf(context.connections):
                session.limitsChanged()
                session.tracingChanged()
            if new.max_connections > 0:
                for session in sessionsOf(context.connections)[new.max_connections :]:
                    session.close(errors.MAX_CONNECTIONS)

        return apply

    return plan


def authorizationPlanner(
    context: ClientContext,
    accounts: AccountRegistry,
    makeAuthorizer: Callable[[Settings], IAuthorizer] | None,
) -> Planner:
    paths = (
        *("authorization", "accounts", "mappings", "no_auth_user", "tls.verify_and_map"),
        "proxies",
    )

    def plan(new: Settings, changes: Sequence[Change]) -> Step:
        checkImports(new)
        concerned = below(changes, *paths, "max_payload", "max_subscriptions")
        authorizer = context.authorizer
        plugin = nothing
        if makeAuthorizer is None:
            plugin = _planPlugin(authorizer, new, changes)
        else:
            authorizer = makeAuthorizer(new)

        def apply() -> None:
            if not concerned:
                return
            plugin()
            accounts.configure(new)
            context.authorizer = authorizer
            context.proxies.use(new.proxies)
            for session in sessionsOf(context.connections):
                session.reauthorize()
            for account in new.accounts:
                closeExcess(context, accounts, account)

        return apply

    return plan


def operatorPlanner(context: ClientContext, operators: OperatorService) -> Planner:
    """Operator mode, and limits that hold for its users. JWTs are looked up again."""

    def plan(new: Settings, changes: Sequence[Change]) -> Step:
        if not new.operator.isOn:
            raise ValueError("config reload does not support moving to or from operators")
        step = operators.planReload(new)

        def apply() -> None:
            step()
            for session in sessionsOf(context.connections):
                session.reauthorize()

        return apply

    return plan


def _planPlugin(authorizer: Any, new: Settings, changes: Sequence[Change]) -> Step:
    if not below(changes, "authorization.plugin", "authorization.options"):
        return nothing
    if below(changes, "authorization.plugin") or not IReloadable.providedBy(authorizer):
        raise ValueError("config reload not supported for authorization plugin")
    step: Step = authorizer.planReload(new.authorization.options)
    return step


def tlsPlanner(
    context: ClientContext, listeners: Listeners, monitoring: MonitoringService | None
) -> Planner:
    """
    The C{tls} block for new connections; its files are always read again. Present connections stay,
    except those whose key is no longer pinned.
    """

    def plan(new: Settings, changes: Sequence[Change]) -> Step:
        from natsbroker.clients.tls import TLSClientProtocol
        from natsbroker.connections.tlscontext import pagesCreatorFrom, termsFrom

        terms = None if new.tls is None else termsFrom(new.tls, new.allow_non_tls)
        if terms is None and monitoring is not None and monitoring.scheme == "https":
            raise ValueError("config reload not supported for TLS: the monitoring pages need it")
        use = listeners.planTerms(terms, new.tls or TLSSettings())
        pages = None if new.tls is None or monitoring is None else pagesCreatorFrom(new.tls)

        def apply() -> None:
            use()
            if pages is not None and monitoring is not None:
                monitoring.useCreator(pages)
            for session in sessionsOf(context.connections):
                peer = session.peer
                if isinstance(peer, TLSClientProtocol):
                    peer.termsChanged()

        return apply

    return plan
