"""
Plugins that the settings name, and objects that an embedder gives instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.application.service import IService
from twisted.plugin import getPlugins
from zope.interface.exceptions import Invalid
from zope.interface.interface import InterfaceClass
from zope.interface.verify import verifyObject

from natsbroker.config.model import Settings
from natsbroker.errors import BrokerError
from natsbroker.interfaces import (
    IAuthorizer,
    IAuthorizerPlugin,
    IBrokerHost,
    IBrokerService,
    IConnectionKind,
    IGatewayInterestPolicy,
    IGatewayPolicyPlugin,
    IRouterPlugin,
    ISubjectRouter,
)

if TYPE_CHECKING:
    from natsbroker.interfaces import IAuthorizerPlugin, IBrokerService, IGatewayPolicyPlugin

__all__ = [
    "PluginError",
    "Plugins",
    "builtInAuthorizers",
    "builtInPolicies",
    "builtInServices",
    "nameOf",
]


Find = Callable[[Any], Iterable[Any]]

_Plugin = TypeVar("_Plugin")

ReadyMade = Callable[[], Sequence[_Plugin]]
"""Returns the plugins that come with the broker, whose modules load only when they are looked
up."""


def builtInAuthorizers() -> Sequence[IAuthorizerPlugin]:
    """
    The authorizers that C{authorization { plugin: NAME }} finds without an installation.
    """
    from natsbroker.auth.plugins import READY_MADE

    return READY_MADE


def builtInPolicies() -> Sequence[IGatewayPolicyPlugin]:
    """
    The policies that C{gateway { interest { plugin: NAME } }} finds without an installation.
    """
    from natsbroker.gateways.policyplugins import READY_MADE

    return READY_MADE


def builtInServices() -> Sequence[IBrokerService]:
    """
    The services that C{services { NAME { ... } }} finds without an installation.
    """
    from natsbroker.monitoring.trafficplugin import TrafficPlugin

    return (TrafficPlugin(),)


class PluginError(BrokerError):
    """
    A plugin that the settings name is missing, or makes an object without its interface.
    """


class Plugins:
    """
    The installed plugins, and those that come with the broker.
    """

    def __init__(self, find: Find = getPlugins) -> None:
        """
        @param find: returns all plugins of an interface.
        """
        self._find = find

    def named(
        self,
        interface: InterfaceClass,
        name: str,
        readyMade: ReadyMade[Any] = tuple,
        key: str = "",
    ) -> Any:
        """
        @param readyMade: an installed plugin does not hide one of these.
        @param key: the key that names it, for the error; see L{Settings.at}.
        @raise PluginError: if there is none of that name.
        """
        known = {each.name: each for each in readyMade()}
        if name in known:
            return known[name]
        known.update((each.name, each) for each in self._find(interface))
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            kind = interface.getName()  # type: ignore[no-untyped-call]
            where = f"{key}: " if key else ""
            raise PluginError(f'{where}there is no {kind} named "{name}" (there is {there})')
        return known[name]

    def authorizer(
        self,
        host: IBrokerHost,
        settings: Settings,
        given: IAuthorizer | IAuthorizerPlugin | None = None,
        readyMade: ReadyMade[IAuthorizerPlugin] = builtInAuthorizers,
    ) -> IAuthorizer | None:
        """
        @param given: an authorizer or its plugin, which wins over the C{authorization} block.
        @return: C{None} if neither names one.
        @raise PluginError: if it cannot be made, or is no authorizer.
        """
        authorization = settings.authorization
        if given is not None and not IAuthorizerPlugin.providedBy(given):
            return given
        if given is None and not authorization.plugin:
            return None
        plugin: Any = given
        if given is None:
            plugin = self._authorizerPlugin(settings, readyMade)
        what = f'authorization plugin "{plugin.name}"'
        made: IAuthorizer = _made(what, lambda: plugin.makeAuthorizer(host, authorization.options))
        try:
            verifyObject(IAuthorizer, made)
        except Invalid as error:
            raise PluginError(f"{what} makes no authorizer: {error}") from error
        return made

    def gatewayPolicy(
        self,
        host: IBrokerHost,
        settings: Settings,
        given: IGatewayInterestPolicy | IGatewayPolicyPlugin | None = None,
        readyMade: ReadyMade[IGatewayPolicyPlugin] = builtInPolicies,
    ) -> IGatewayInterestPolicy:
        """
        @param given: a policy or its plugin, which wins over C{gateway { interest }}.
        @param readyMade: the first one is the default.
        @raise PluginError: if it cannot be made, or is no policy.
        """
        if given is not None and not IGatewayPolicyPlugin.providedBy(given):
            verifyObject(IGatewayInterestPolicy, given)
            return given
        from natsbroker.gateways.settings import Gateway

        interest = (settings.gateway or Gateway()).interest
        plugin: Any = given
        if given is None:
            plugin = self._policyPlugin(settings, interest.plugin or readyMade()[0].name, readyMade)
        what = f'gateway policy "{plugin.name}"'
        made: IGatewayInterestPolicy = _made(
            what, lambda: plugin.makePolicy(host, interest.options)
        )
        try:
            verifyObject(IGatewayInterestPolicy, made)
        except Invalid as error:
            raise PluginError(f"{what} makes no policy: {error}") from error
        return made

    def routerFactory(self, settings: Settings) -> Callable[[str], ISubjectRouter] | None:
        """
        @return: C{None} if there is no C{router} block.
        """
        router = settings.router
        if not router.plugin:
            return None
        plugin = self._routerPlugin(settings)

        def make(account: str) -> ISubjectRouter:
            made: ISubjectRouter = _made(
                f'router plugin "{router.plugin}"',
                lambda: plugin.makeRouter(account, router.options),
            )
            verifyObject(ISubjectRouter, made)
            return made

        return make

    def connectionKinds(
        self, settings: Settings, given: Sequence[IConnectionKind] = ()
    ) -> list[IConnectionKind]:
        """
        The connection kinds that were given, and those installed ones that the C{services} and
        C{plugins} blocks name.

        @raise PluginError: if one that was given is none.
        """
        for each in given:
            try:
                verifyObject(IConnectionKind, each)
            except Invalid as error:
                raise PluginError(f"not a connection kind: {error}") from error
        names = {*settings.plugins, *settings.services} - {each.name for each in given}
        installed = self._find(IConnectionKind) if names else ()
        return [*given, *(each for each in installed if each.name in names)]

    def services(
        self,
        host: IBrokerHost,
        settings: Settings,
        given: Sequence[IBrokerService],
        kinds: Container[str] = (),
        readyMade: ReadyMade[IBrokerService] = builtInServices,
    ) -> list[tuple[str, IService]]:
        """
        Make the services of the C{services} and C{plugins} blocks, and those that were given.

        @param given: each with an empty section unless the settings have one of its name.
        @param kinds: the names of sections that are those of connection kinds.
        """
        sections: dict[str, Mapping[str, object]] = {**settings.plugins, **settings.services}
        byName = {service.name: service for service in given}
        makers = [(service.name, service) for service in given]
        makers += [
            (name, self._servicePlugin(settings, name, readyMade))
            for name in sections
            if name not in byName and name not in kinds
        ]
        return [
            (name, _service(name, maker, host, sections.get(name, {}))) for name, maker in makers
        ]

    def require(
        self,
        settings: Settings,
        authorizers: ReadyMade[IAuthorizerPlugin] = builtInAuthorizers,
        policies: ReadyMade[IGatewayPolicyPlugin] = builtInPolicies,
        services: ReadyMade[IBrokerService] = builtInServices,
    ) -> None:
        """
        Look up what the settings name, as a start does, and make nothing of it.

        @raise PluginError: for the first that is not installed.
        """
        if settings.authorization.plugin:
            self._authorizerPlugin(settings, authorizers)
        if settings.gateway is not None and settings.gateway.interest.plugin:
            self._policyPlugin(settings, settings.gateway.interest.plugin, policies)
        if settings.router.plugin:
            self._routerPlugin(settings)
        kinds = {each.name for each in self.connectionKinds(settings)}
        for name in {**settings.plugins, **settings.services}:
            if name not in kinds:
                self._servicePlugin(settings, name, services)

    def _authorizerPlugin(self, settings: Settings, readyMade: ReadyMade[IAuthorizerPlugin]) -> Any:
        key = settings.at("authorization.plugin")
        return self.named(IAuthorizerPlugin, settings.authorization.plugin, readyMade, key)

    def _policyPlugin(
        self, settings: Settings, name: str, readyMade: ReadyMade[IGatewayPolicyPlugin]
    ) -> Any:
        key = settings.at("gateway.interest.plugin")
        return self.named(IGatewayPolicyPlugin, name, readyMade, key)

    def _routerPlugin(self, settings: Settings) -> Any:
        key = settings.at("router.plugin")
        return self.named(IRouterPlugin, settings.router.plugin, key=key)

    def _servicePlugin(
        self, settings: Settings, name: str, readyMade: ReadyMade[IBrokerService]
    ) -> Any:
        block = "services" if name in settings.services else "plugins"
        return self.named(IBrokerService, name, readyMade, settings.at(f"{block}.{name}"))


def nameOf(given: object, default: str) -> str:
    """
    @param given: an object of an embedder, or C{None}.
    @return: its name for the log.
    """
    if given is None:
        return default
    name = getattr(given, "__name__", "")
    return name or type(given).__name__


def _service(
    name: str, maker: IBrokerService, host: IBrokerHost, section: Mapping[str, object]
) -> IService:
    made: IService = _made(f'service "{name}"', lambda: maker.makeService(host, section))
    verifyObject(IService, made)
    return made


def _made(what: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ValueError as error:
        raise PluginError(f"{what}: {error}") from error
