"""
The contracts of connection kinds: routes, leafnodes, gateways, and those of third parties.

A kind is one object. The broker iterates its kinds to read and check settings, to make, open,
announce, reload and close services, and to build monitoring pages. Third parties pass a kind to
C{Broker(connectionKinds=...)}, or install it as a plugin (a module in C{twisted/plugins} of any
installed package) and name it in the configuration: C{services { NAME { ... } }}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from natsbroker.interfaces.services import IBrokerHost

__all__ = ["IConnectionKind", "IConnectionService", "ILinks", "IPeerService"]


class ILinks(Interface):
    """The links of a broker, as its kinds and their services see them."""

    def find(name: str) -> Any:
        """
        @param name: the C{name} of a kind.
        @return: its service, an L{IConnectionService}; C{None} if the settings ask for none.
        """

    def changed() -> None:
        """
        Something has changed that L{IPeerService.clientInfo} or another service reads. The broker
        calls L{IPeerService.linksChanged} of each service and updates INFO.
        """


class IConnectionKind(Interface):
    """A kind of connection with other programs."""

    name = Attribute("The name in lower case, such as C{route}; unique among the kinds.")

    key = Attribute(
        "The configuration key of the settings: C{cluster}, C{leafnodes} or C{gateway}; for a kind "
        "of a third party, the name of its section in C{services}. "
        "L{natsbroker.broker.Broker.addresses} has the addresses of the kind under this key."
    )

    dialect = Attribute("The name of the wire protocol, the scheme of its URLs: C{nats-route}.")

    page = Attribute("The path of the monitoring page, such as C{/routez}; empty for none.")

    reloadError = Attribute(
        "The error of a reload that configures the kind on a broker that runs without it. Empty if"
        " a running broker can start the kind. Its service then begins with the settings in force,"
        " and L{IConnectionService.plan} gets the new ones."
    )

    def isConfigured(settings: Any) -> bool:
        """
        @param settings: a L{natsbroker.config.model.Settings}.
        @return: whether the settings ask for connections of this kind. An object that was passed to
            the broker may return C{True} whatever they contain.
        """

    def accounts(settings: Any) -> Iterable[str]:
        """
        @return: the accounts that the settings of the kind name, which operators' brokers fetch. An
            empty name is the global account.
        """

    def makePage(state: Any) -> Any:
        """
        Called once, if C{page} is not empty, when monitoring is set up; the page exists whether or
        not the kind is configured.

        @param state: a L{natsbroker.clients.state.BrokerState}.
        @return: a callable that takes the parameters of a request, a mapping, and returns a
            L{natsbroker.monitoring.answers.Answer}.
        """

    def makeService(host: IBrokerHost, links: ILinks) -> IConnectionService:
        """
        Called once, while the broker is made, if the settings ask for the kind.

        @param host: the broker. Its accounts exist; its monitoring pages do not yet.
        @param links: gives the services of other kinds, once the broker has started.
        @raise ValueError: for wrong settings or a bad certificate; the broker is not made.
        """

    def contribute(service: Any, monitoring: Any) -> None:
        """
        Have the monitoring pages show the service of the kind. Called once, if monitoring is used.

        @param monitoring: a L{natsbroker.system.pages.ServerPages}; its attribute C{links}
            has what L{makePage} returned, by the kind's name.
        """


class IConnectionService(Interface):
    """
    The connections of one kind in one broker. L{natsbroker.links.service.ConnectionService} is a
    base class of this interface and of L{IPeerService} whose methods do nothing.

    The broker calls, in this order: L{open} of all services, L{connect} of all, L{announce} of all;
    at the end L{stopListening} of all, and, when the clients have left, L{close} of all.
    """

    children = Attribute("Twisted services that start and stop with the broker, a sequence.")

    def open(settings: Any) -> Awaitable[None]:
        """
        Listen.

        @param settings: the settings in force, with the ports of the clients' listeners.
        @return: a Deferred or another awaitable.
        @raise natsbroker.runtime.failures.StartError: if an address is in use; the broker does not
            start.
        """

    def connect() -> None:
        """Begin to dial. All services listen."""

    def announce() -> None:
        """Log the addresses."""

    def urls() -> Sequence[str]:
        """The URLs at which it listens; empty while it does not."""

    def plan(settings: Any, changes: Sequence[Any]) -> Callable[[], None]:
        """
        Check the settings of a reload without changing anything.

        @param changes: each is a L{natsbroker.config.diff.Change}.
        @return: applies them, and cannot fail.
        @raise ValueError: if they cannot be taken. Nothing of the configuration is reloaded then.
        """

    def stopListening() -> Awaitable[None]:
        """Stop listening and dialling. Connections stay open."""

    def close() -> Awaitable[None]:
        """
        Close all connections.

        @return: fires when all are closed.
        """


class IPeerService(Interface):
    """
    A connection service whose peers are other brokers. Optional, beside L{IConnectionService}.
    """

    def usePoller(poller: Any) -> None:
        """
        Use a L{natsbroker.connections.poller.SocketPoller} for connections over plain TCP. Without
        it the transports are the reactor's.
        """

    def clientInfo() -> Mapping[str, Any]:
        """Members of the INFO that clients receive. Call L{ILinks.changed} when they change."""

    def location() -> tuple[str, Sequence[str]] | None:
        """
        @return: the name of the broker's cluster and those of the clusters that are joined to it,
            nearest first; C{None} if the kind does not determine them.
        """

    def neighbours() -> float:
        """
        @return: how many other brokers can be reached over these connections; infinity if unknown.
        """

    def linksChanged() -> None:
        """Another service has changed; see L{ILinks.changed}."""

    def reauthorize(account: str | None) -> None:
        """
        Ask the authorizer again about each connection that it admitted.

        @param account: for connections of this account; C{None} for all.
        """

    def leave() -> None:
        """The broker is a lame duck: tell the peers that it will stop."""
