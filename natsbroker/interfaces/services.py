"""
The contracts of services and plugins.

A plugin is an object with a C{name} that provides one of these interfaces. The configuration names
it, and Twisted's plugin system finds it (a module in C{twisted/plugins} of any installed package);
or an application passes it to C{Broker(...)}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.application.service import IService
    from twisted.internet.defer import Deferred

    from natsbroker.advisories import Advisory
    from natsbroker.interfaces.auth import IAuthorizer
    from natsbroker.interfaces.bus import IMessageBus, IPublishFilter, ISubjectRouter
    from natsbroker.interfaces.clients import IClientDialect, IClientFactory, IClientSession


class IBrokerHost(Interface):
    """The broker as its plugins see it."""

    reactor = Attribute("The reactor, for timers and connections. Plugins use no other.")

    settings = Attribute("The settings in force, a L{natsbroker.config.model.Settings}.")

    turns = Attribute(
        "The scheduler of long work: its C{of} takes the name of an account and returns an"
        " L{ITurns}."
    )

    monitoring = Attribute("The monitoring pages, a L{natsbroker.system.pages.ServerPages}.")

    def describe() -> Mapping[str, Any]:
        """The broker's C{name}, C{id}, C{host} and C{version}, and C{tags} if it has any."""

    def bus(account: str = "$G", isLocal: bool = False) -> IMessageBus:
        """
        The bus of an account, for a service inside the broker.

        @param isLocal: for a service that answers for this broker alone: its interest is not sent
            to other brokers, and messages pass between it and other brokers in neither direction.
        @raise KeyError: for an unknown account.
        """

    def watchAccounts(watcher: Any) -> None:
        """Call a callable with the bus of every account, now and whenever an account is created."""

    def addFilter(account: str, publishFilter: IPublishFilter) -> Any:
        """
        Filter every message that is published in an account.

        @return: a callable without arguments that removes the filter.
        @raise KeyError: for an unknown account.
        """

    def observe(observer: IObserver) -> Any:
        """
        Register an observer of advisories.

        @return: a callable without arguments that removes it.
        """

    def clientFactory(
        makeDialect: Callable[[IClientSession], IClientDialect],
        connectionType: str,
        overlay: Callable[[Any], Any] | None = None,
        tls: Any = None,
    ) -> IClientFactory:
        """
        A factory for the connections of a kind whose peers are clients that log in. Each of them
        is one of the broker's clients: it is admitted by the authorizer, has the account, the
        permissions and the limits of its user on every path, and whatever concerns clients
        concerns it (reloads, expiry, kicks, lame duck mode, the shutdown).

        @param makeDialect: called once for each connection.
        @param connectionType: the kind as in users' C{allowed_connection_types}, in upper case. For
            a third party, that is the name of its section in C{services}.
        @param overlay: gives the L{natsbroker.config.model.Settings} of these clients for those of
            all, where they differ: C{ping_interval}, C{max_payload}, the C{timeout} or the users of
            C{authorization}, C{no_auth_user}.
        @param tls: the L{natsbroker.config.tls.TLSSettings} of the kind, which begins with the
            first byte; C{None} without.
        @raise ValueError: for wrong files, or if the overlay leaves open who may connect.
        """


class ITurns(Interface):
    """
    The turns of the long work of an account. The broker has one thread. Work that may keep it for
    more than some hundred microseconds is done in slices. In each iteration of the reactor some
    slices are done, of accounts in turn, and of the connections of each in turn.
    """

    isSpent = Attribute("Whether a slice would have to wait.")
    waiting = Attribute("The number of waiting tasks of the account.")

    def begin(work: Any, origin: Any = None, isWanted: Any = None) -> Deferred[Any]:
        """
        Run a coroutine, and what it awaits, as a task.

        @param origin: of the request, as in L{natsbroker.wire.values.Message}; C{None} for the
            broker's own work.
        @param isWanted: called before each slice; see L{queue}.
        """

    def queue(begin: Any, origin: Any = None, isWanted: Any = None, cost: int = 4096) -> None:
        """
        Begin a task when its turn comes; at once if a slice need not wait.

        @param begin: begins the task.
        @param isWanted: called before each slice. If it returns false the task is cancelled, or
            does not begin.
        """

    def take(cost: int = 4096) -> Deferred[None]:
        """
        Wait for a slice. It begins at once if nobody waits and there is time.

        @param cost: of the slice, in tenths of a microsecond.
        """

    def turn(cost: int = 4096) -> Deferred[None]:
        """Wait for a slice in a later turn of the reactor."""

    def spend(cost: int) -> None:
        """Count work that exceeded its slice."""


class IObserver(Interface):
    """Receives the advisories of a broker."""

    def observe(advisory: Advisory) -> None:
        """Receive an advisory; L{natsbroker.advisories} lists them. It must not raise or block."""


class IAuthorizerPlugin(Interface):
    """Creates authorizers; named by C{authorization { plugin: NAME }}."""

    name = Attribute("The name in the configuration.")

    def makeAuthorizer(host: IBrokerHost, section: Mapping[str, Any]) -> IAuthorizer:
        """
        @param section: the other keys of the C{authorization} block.
        @raise ValueError: for wrong keys or values; the error message shows the text with the line.
        """


class IRouterPlugin(Interface):
    """Creates subject routers, one for each account; named by C{router { plugin: NAME }}."""

    name = Attribute("The name in the configuration.")

    def makeRouter(account: str, section: Mapping[str, Any]) -> ISubjectRouter:
        """
        @param account: the account's name.
        @param section: the other keys of the C{router} block.
        @raise ValueError: for wrong keys or values.
        """


class IBrokerService(Interface):
    """Creates a service; named by C{services { NAME { ... } }}."""

    name = Attribute("The name in the configuration.")

    def makeService(host: IBrokerHost, section: Mapping[str, Any]) -> IService:
        """
        @param section: the keys of the service's block.
        @return: a Twisted service. It starts when the accounts exist, before the first client
            connects, and stops after the last client has left.
        @raise ValueError: for wrong keys or values.
        """


class IOptionsCheck(Interface):
    """
    A plugin of any kind, or an opener of stores, that can say what is wrong with its section before
    something is made of it. C{natsbroker check} and C{-t} ask those that have this interface; of
    others they only find out whether they are installed.
    """

    def checkOptions(section: Mapping[str, Any], settings: Any) -> None:
        """
        Must have no effect: nothing is started, opened for writing, or connected to.

        @param section: as the plugin gets it when it makes something.
        @param settings: the L{natsbroker.config.model.Settings} that the section is part of.
        @raise ValueError: for wrong keys or values, or for files that are missing. A
            L{natsbroker.runtime.pluginoptions.PluginOptionError} is reported with the place of its
            option.
        """


class IWorkerPlugin(Interface):
    """
    A plugin of any kind that says whether it can be in several processes of one server. A server
    with C{workers} refuses a plugin without this interface.
    """

    runsInWorkers = Attribute(
        "Whether each worker may make an object of its own, for the same section. The objects know "
        "nothing of each other: a subscription of each gets every message, unless they are a queue "
        "group, and an advisory comes to the worker that it concerns alone."
    )


class IReadiness(Interface):
    """
    A service that is not ready at once. Clients can connect when all services are ready; a service
    without this interface is ready when it has started.
    """

    def whenPrepared() -> Deferred[None]:
        """
        Called after C{startService}.

        @return: fires when the service is ready. If it fails, the broker does not start.
        """


class IReloadable(Interface):
    """
    A service that takes new settings at a reload. For other services a changed section needs a
    restart.
    """

    def planReload(section: Mapping[str, Any]) -> Any:
        """
        Check a new section without changing anything.

        @return: a callable without arguments that applies it and cannot fail.
        @raise ValueError: for a wrong section, or one that needs a restart. Nothing of the
            configuration is reloaded then.
        """
