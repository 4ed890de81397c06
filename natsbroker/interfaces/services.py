"""
The contracts of services and plugins: what can be put beside, or instead of, our own parts.

A plugin is an object that provides one of the interfaces here with a C{name}, found through
Twisted's plugin system (a module in C{twisted/plugins} of any installed package) and named in the
configuration; or the same object given to C{Broker(...)} directly.

Promises: small interfaces. Must never know: any implementation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.application.service import IService
    from twisted.internet.defer import Deferred

    from natsbroker.advisories import Advisory
    from natsbroker.interfaces.auth import IAuthorizer
    from natsbroker.interfaces.bus import IMessageBus, IPublishFilter, ISubjectRouter


class IBrokerHost(Interface):
    """
    What a broker offers to the plugins that it hosts.
    """

    reactor = Attribute("The reactor, for timers and connections: no other may be used.")

    settings = Attribute("The settings in force, a L{natsbroker.config.model.Settings}.")

    monitoring = Attribute(
        "What is behind the monitoring pages, a L{natsbroker.monitoring.model.MonitoringModel}: "
        "figures of connections and links."
    )

    def describe() -> Mapping[str, Any]:
        """
        What names the broker: C{name}, C{id}, C{host}, C{version}, and C{tags} if there are any.
        """

    def bus(account: str = "$G", isLocal: bool = False) -> IMessageBus:
        """
        The door to an account, for a service inside the broker.

        @param isLocal: for a service that answers for this broker alone: other brokers are not told
            what it subscribes to, and what they send does not reach it, nor they what it publishes.
        @raise KeyError: if there is no such account.
        """

    def watchAccounts(watcher: Any) -> None:
        """
        Have a callable called with the door to every account that there is, and to every new one
        when it is made, for as long as the broker is there.
        """

    def addFilter(account: str, publishFilter: IPublishFilter) -> Any:
        """
        Have every message of an account decided upon.

        @return: a callable without arguments that takes the filter out again.
        @raise KeyError: if there is no such account.
        """

    def observe(observer: IObserver) -> Any:
        """
        Be told of every advisory.

        @return: a callable without arguments that ends it.
        """


class IObserver(Interface):
    """
    Somebody who is told what happens in the broker.
    """

    def observe(advisory: Advisory) -> None:
        """
        Something happened; L{natsbroker.advisories} lists what can. Must not raise or block.
        """


class IAuthorizerPlugin(Interface):
    """
    Makes authorizers; named by C{authorization { plugin: NAME }}.
    """

    name = Attribute("The name in the configuration.")

    def makeAuthorizer(host: IBrokerHost, section: Mapping[str, Any]) -> IAuthorizer:
        """
        @param section: the other keys of the C{authorization} block.
        @raise ValueError: if the section makes no sense; the text is shown with its place.
        """


class IRouterPlugin(Interface):
    """
    Makes subject routers, one for each account; named by C{router { plugin: NAME }}.
    """

    name = Attribute("The name in the configuration.")

    def makeRouter(account: str, section: Mapping[str, Any]) -> ISubjectRouter:
        """
        @param account: the name of the account that it routes for.
        @param section: the other keys of the C{router} block.
        @raise ValueError: if the section makes no sense.
        """


class IBrokerService(Interface):
    """
    A service beside ours; named by C{services { NAME { ... } }}.
    """

    name = Attribute("The name in the configuration.")

    def makeService(host: IBrokerHost, section: Mapping[str, Any]) -> IService:
        """
        @param section: the keys of the service's block.
        @return: a Twisted service; it is started after the accounts exist and before the first
            client is let in, and stopped after the last one has gone.
        @raise ValueError: if the section makes no sense.
        """


class IPrepared(Interface):
    """
    A service that needs time before it can serve. Clients are not let in before; a service that
    does not provide this is ready when it was started.
    """

    def whenPrepared() -> Deferred[None]:
        """
        Called after the service was started.

        @return: fires when it can serve. If it fails, the broker does not start, for that reason.
        """


class IReloadable(Interface):
    """
    What can take new settings without a restart. A service that provides it is asked when the
    configuration is reloaded; one that does not needs a restart for its section to change.
    """

    def planReload(section: Mapping[str, Any]) -> Any:
        """
        Check a new section without changing anything.

        @return: a callable without arguments that applies it and cannot fail.
        @raise ValueError: if the section makes no sense or needs a restart; nothing at all is
            reloaded then.
        """
