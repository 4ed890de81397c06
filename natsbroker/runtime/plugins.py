"""Plugins that the settings name, and objects that an embedder gives instead."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from twisted.application.service import IService
from twisted.logger import Logger, LogLevel
from twisted.plugin import IPlugin, getPlugins
from twisted.python.modules import getModule
from zope.interface.interface import InterfaceClass

import twisted
from natsbroker.config.diff import Change
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
    IOptionsCheck,
    IReloadable,
    IRouterPlugin,
    ISubjectRouter,
    IWorkerPlugin,
)
from natsbroker.interfaces.providers import require
from natsbroker.runtime.pluginoptions import PluginOptionError
from natsbroker.runtime.reload import Planner, Step

_log = Logger(namespace="natsbroker")

Find = Callable[[Any], Iterable[Any]]

_Made = TypeVar("_Made")

_NOUNS: Mapping[InterfaceClass, str] = {
    IAuthorizerPlugin: "authorization plugin",
    IGatewayPolicyPlugin: "gateway policy",
    IRouterPlugin: "router plugin",
    IBrokerService: "service",
}
"""The names of plugins in errors, by interface."""


_log = Logger(namespace="natsbroker")


#: The folder of the plugins that Twisted brings.
_TWISTED = str(Path(twisted.__file__).parent / "plugins")


class InstalledPlugins:
    """C{broken} are the modules that cannot be imported, with the reason."""

    def __init__(
        self,
        find: Callable[[Any], Iterable[Any]] = getPlugins,
        package: str = "twisted.plugins",
    ) -> None:
        self.broken: dict[str, str] = {}
        self._find = find
        self._package = package
        self._modules: dict[str, Any] = {}
        self._hasLooked = False

    def __call__(self, interface: InterfaceClass) -> Iterable[Any]:
        if not self._hasLooked:
            self._hasLooked = True
            # The package itself adds the folders of other distributions to its path.
            import_module(self._package)
            for module in self._forgotten():
                self._load(module)
        if not self.broken:
            return self._find(interface)
        return self.live(interface)

    def live(self, interface: InterfaceClass) -> Iterator[Any]:
        """The plugins in their current form, whatever is cached about their modules."""
        for module in getModule(self._package).iterModules():
            if module.filePath.parent().path != _TWISTED:
                self._load(module)
        for module in self._modules.values():
            for value in vars(module).values():
                if all(interface_.providedBy(value) for interface_ in (IPlugin, interface)):
                    yield value

    def _forgotten(self) -> Iterator[Any]:
        """The modules that Twisted has not cached, or that have changed since."""
        caches: dict[Any, tuple[Any, float]] = {}
        for module in getModule(self._package).iterModules():
            folder = module.filePath.parent()
            if folder not in caches:
                caches[folder] = _remembered(folder.child("dropin.cache"))
            known, since = caches[folder]
            if module.name.rpartition(".")[2] not in known or _changed(module) >= since:
                yield module

    def _load(self, module: Any) -> None:
        if module.name in self._modules or module.name in self.broken:
            return
        try:
            self._modules[module.name] = module.load()
        except Exception as error:
            # The error is in a plugin of another package, which this broker may not need.
            why = self.broken[module.name] = f"{type(error).__name__}: {error}"
            path = module.filePath.path
            _log.warn("The plugin module {path} cannot be imported: {why}", path=path, why=why)
            _log.failure("The plugin module {path} failed", level=LogLevel.debug, path=path)


def _changed(module: Any) -> float:
    return float(module.filePath.getModificationTime())


def _remembered(path: Any) -> tuple[Any, float]:
    try:
        with path.open("r") as file:
            return pickle.load(file), float(path.getModificationTime())
    except Exception:
        # The cache is missing, or unreadable for Twisted too, so it is written again.
        return {}, 0.0


class PluginError(BrokerError):
    """A plugin that the settings name is missing, or makes an object without its interface."""


@dataclass(frozen=True)
class Plugins:
    """The plugins. C{builtIn} need no installation, and installed plugins do not replace them."""

    find: Find = field(default_factory=InstalledPlugins)
    builtIn: Mapping[InterfaceClass, Callable[[], Sequence[Any]]] = field(default_factory=dict)

    def named(self, interface: InterfaceClass, name: str, key: str = "") -> Any:
        known = {plugin.name: plugin for plugin in self.builtIn.get(interface, tuple)()}
        if name in known:
            return known[name]
        known.update(_byName(interface, self.find(interface)))
        if name not in known and isinstance(self.find, InstalledPlugins):
            known.update(_byName(interface, self.find.live(interface)))
        if name not in known:
            there = ", ".join(sorted({*known, *self._kindNames(interface)})) or "none"
            kind = interface.getName()  # type: ignore[no-untyped-call]
            where = f"{key}: " if key else ""
            broken = getattr(self.find, "broken", {})
            why = [f"{name_} cannot be imported: {broken[name_]}" for name_ in sorted(broken)]
            nameless = [plugin for plugin in self.find(interface) if not _nameIn(plugin)]
            why += sorted({_nameless(interface, plugin) for plugin in nameless})
            text = f'{where}there is no {kind} named "{name}" (there is {there})'
            raise PluginError("; ".join([text, *why]))
        return known[name]

    def _kindNames(self, interface: InterfaceClass) -> Iterable[str]:
        """The names of connection kinds, which are configured beside services."""
        if interface is not IBrokerService:
            return ()
        return _byName(IConnectionKind, self.find(IConnectionKind))

    def authorizer(
        self,
        host: IBrokerHost,
        settings: Settings,
        given: IAuthorizer | IAuthorizerPlugin | None = None,
    ) -> IAuthorizer | None:
        name, options = settings.authorization.plugin, settings.authorization.options
        if given is not None and not IAuthorizerPlugin.providedBy(given):
            return given
        if given is None and not name:
            return None
        plugin: Any = given
        if given is None:
            plugin = self._plugin(settings, IAuthorizerPlugin, "authorization", name)
        what, make = _what(IAuthorizerPlugin, plugin.name), plugin.makeAuthorizer
        return _made(what, IAuthorizer, "authorizer", make, host, options)

    def gatewayPolicy(
        self,
        host: IBrokerHost,
        settings: Settings,
        given: IGatewayInterestPolicy | IGatewayPolicyPlugin | None = None,
    ) -> IGatewayInterestPolicy:
        """C{given} wins over C{gateway { interest }}; the first built-in policy is the default."""
        if given is not None and not IGatewayPolicyPlugin.providedBy(given):
            require(IGatewayInterestPolicy, given)
            return given
        from natsbroker.config.settings.gateways import Gateway

        interest = (settings.gateway or Gateway()).interest
        plugin: Any = given
        if given is None:
            name = interest.plugin or self.builtIn[IGatewayPolicyPlugin]()[0].name
            plugin = self._plugin(settings, IGatewayPolicyPlugin, "gateway.interest", name)
        what, options = _what(IGatewayPolicyPlugin, plugin.name), interest.options
        make = plugin.makePolicy
        return _made(what, IGatewayInterestPolicy, "policy", make, host, options)

    def routerFactory(self, settings: Settings) -> Callable[[str], ISubjectRouter] | None:
        name, options = settings.router.plugin, settings.router.options
        if not name:
            return None
        plugin = self._plugin(settings, IRouterPlugin, "router", name)

        def make(account: str) -> ISubjectRouter:
            what, makeRouter = _what(IRouterPlugin, name), plugin.makeRouter
            return _made(what, ISubjectRouter, "router", makeRouter, account, options)

        return make

    def connectionKinds(
        self, settings: Settings, given: Sequence[IConnectionKind] = ()
    ) -> list[IConnectionKind]:
        for kind in given:
            try:
                require(IConnectionKind, kind)
            except TypeError as error:
                raise PluginError(f"not a connection kind: {error}") from error
        names = {*settings.plugins, *settings.services} - {kind.name for kind in given}
        installed = _byName(IConnectionKind, self.find(IConnectionKind)) if names else {}
        return [*given, *(kind for name, kind in installed.items() if name in names)]

    def services(
        self,
        host: IBrokerHost,
        settings: Settings,
        given: Sequence[IBrokerService],
        kinds: Container[str] = (),
    ) -> list[tuple[str, IService]]:
        """Given services have an empty section unless the settings have one of their name."""
        sections: dict[str, Mapping[str, object]] = {**settings.plugins, **settings.services}
        for plugin in given:
            require(IBrokerService, plugin, "makeService")
            if not _nameIn(plugin):
                raise PluginError(_nameless(IBrokerService, plugin))
        makers: dict[str, Any] = {service.name: service for service in given}
        if len(makers) < len(given):
            names = ", ".join(sorted(service.name for service in given))
            raise PluginError(f"services need names of their own: {names}")
        for name in sections:
            if name not in makers and name not in kinds:
                makers[name] = self._servicePlugin(settings, name)

        def make(name: str) -> IService:
            section = sections.get(name, {})
            what, makeService = _what(IBrokerService, name), makers[name].makeService
            return _made(what, IService, "service", makeService, host, section)

        return [(name, make(name)) for name in makers]

    def problems(self, settings: Settings) -> Iterator[tuple[str, PluginError]]:
        """Missing plugins and wrong options: the key and the error."""
        for interface, name, section, key, block in self._named(settings):
            try:
                plugin = self.named(interface, name, settings.at(key))
            except PluginError as error:
                yield key, error
            else:
                what, keyOf = _what(interface, name), f"{block}.{{}}".format
                yield from optionProblem(settings, what, plugin, section, key, keyOf)
        for kind in self.connectionKinds(settings):
            key = _sectionOf(settings, kind.name)
            section = settings.services.get(kind.name, settings.plugins.get(kind.name, {}))
            what, keyOf = f'connection kind "{kind.name}"', f"{key}.{{}}".format
            yield from optionProblem(settings, what, kind, section, key, keyOf)

    def unshared(self, settings: Settings) -> Iterator[tuple[str, str]]:
        """
        The plugins that do not declare that they run in several workers: the key and the kind of
        plugin. A missing plugin is not listed here, because the start reports it.
        """
        for interface, name, _, key, _ in self._named(settings):
            try:
                plugin = self.named(interface, name)
            except PluginError:
                continue
            if not _runsInWorkers(plugin):
                yield key, _what(interface, name)
        for kind in self.connectionKinds(settings):
            if not _runsInWorkers(kind):
                yield _sectionOf(settings, kind.name), f'connection kind "{kind.name}"'

    def _named(
        self, settings: Settings
    ) -> Iterator[tuple[InterfaceClass, str, Mapping[str, Any], str, str]]:
        """Named plugins: interface, name, section, the key of the name, and the section's path."""
        logins, router = settings.authorization, settings.router
        chosen = [
            (IAuthorizerPlugin, logins.plugin, logins.options, "authorization"),
            (IRouterPlugin, router.plugin, router.options, "router"),
        ]
        if settings.gateway is not None:
            interest = settings.gateway.interest
            row = IGatewayPolicyPlugin, interest.plugin, interest.options, "gateway.interest"
            chosen.insert(1, row)
        for interface, name, section, block in chosen:
            if name:
                yield interface, name, section, f"{block}.plugin", block
        kinds = {kind.name for kind in self.connectionKinds(settings)}
        for name, section in {**settings.plugins, **settings.services}.items():
            if name not in kinds:
                key = _sectionOf(settings, name)
                yield IBrokerService, name, section, key, key

    def _plugin(self, settings: Settings, interface: Any, block: str, name: str) -> Any:
        return self.named(interface, name, settings.at(f"{block}.plugin"))

    def _servicePlugin(self, settings: Settings, name: str) -> Any:
        return self.named(IBrokerService, name, settings.at(_sectionOf(settings, name)))


def _runsInWorkers(plugin: Any) -> bool:
    return IWorkerPlugin.providedBy(plugin) and bool(plugin.runsInWorkers)


def _sectionOf(settings: Settings, name: str) -> str:
    return f"{'services' if name in settings.services else 'plugins'}.{name}"


def _what(interface: InterfaceClass, name: str) -> str:
    return f'{_NOUNS[interface]} "{name}"'


def optionProblem(
    settings: Settings,
    what: str,
    plugin: object,
    section: Mapping[str, Any],
    key: str,
    keyOf: Callable[[str], str],
) -> Iterator[tuple[str, PluginError]]:
    """
    The problem of an option. C{key} is that of the plugin's name; C{keyOf} gives that of an option.
    """
    if not IOptionsCheck.providedBy(plugin):
        return
    checked: Any = plugin
    try:
        checked.checkOptions(section, settings)
    except ValueError as error:
        option = error.option if isinstance(error, PluginOptionError) else ""
        at = keyOf(option) if option in section else key
        yield at, PluginError(settings.placed(at, f"{what}: {error}"))


def _byName(interface: InterfaceClass, plugins: Iterable[Any]) -> dict[str, Any]:
    byName = {}
    for plugin in plugins:
        name = _nameIn(plugin)
        if name:
            byName[name] = plugin
        else:
            _log.warn("{text}", text=_nameless(interface, plugin))
    return byName


def _nameIn(plugin: object) -> str:
    name = getattr(plugin, "name", "")
    return name if isinstance(name, str) else ""


def _nameless(interface: InterfaceClass, plugin: object) -> str:
    kind = interface.getName()  # type: ignore[no-untyped-call]
    made = type(plugin)
    return (
        f"the {kind} {made.__module__}.{made.__name__} has no name, so no configuration can ask for"
        ' it: give it an attribute such as name = "mine"'
    )


def nameOf(given: object, default: str) -> str:
    if given is None:
        return default
    name = getattr(given, "__name__", "")
    return name or type(given).__name__


def _made(
    what: str, interface: type[_Made], noun: str, make: Callable[..., _Made], *arguments: object
) -> _Made:
    try:
        made = make(*arguments)
    except ValueError as error:
        raise PluginError(f"{what}: {error}") from error
    except BrokerError:
        raise
    except Exception as error:
        # The error is in a plugin: the traceback is for its author, the sentence for the operator.
        _log.failure("{what} failed", what=what)
        text = f"{type(error).__name__}: {error}"
        raise PluginError(f"{what} failed to make the {noun}: {text}") from error
    try:
        require(interface, made)
    except TypeError as error:
        raise PluginError(f"{what} makes no {noun}: {error}") from error
    return made


def sectionsPlanner(services: Mapping[str, IService], others: Collection[str] = ()) -> Planner:
    def plan(new: Settings, changes: Sequence[Change]) -> Step:
        steps: list[Step] = []
        parts = [change.path.split(".") for change in changes]
        sections = {part[1] for part in parts if part[1:] and part[0] in ("services", "plugins")}
        for name in sorted(sections.difference(others)):
            service = services.get(name)
            section = {**new.plugins, **new.services}.get(name)
            if service is None or section is None or not IReloadable.providedBy(service):
                raise ValueError(f"config reload not supported for service {name}")
            steps.append(IReloadable(service).planReload(section))

        def apply() -> None:
            for step in steps:
                step()

        return apply

    return plan
