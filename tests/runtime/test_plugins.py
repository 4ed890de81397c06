"""Finding the objects that are used beside, or instead of, our own parts."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from twisted.application.service import Service
from twisted.internet.testing import MemoryReactorClock
from twisted.plugin import getPlugins
from zope.interface import directlyProvides, implementer

from natsbroker.accounts.registry import BuiltInRouter
from natsbroker.broker import Broker
from natsbroker.config.model import Settings
from natsbroker.interfaces import (
    IAuthorizerPlugin,
    IBrokerHost,
    IBrokerService,
    IConnectionKind,
    IOptionsCheck,
    IReloadable,
    IRouterPlugin,
    ISubjectRouter,
    IWorkerPlugin,
)
from natsbroker.runtime.pluginoptions import PluginOptionError
from natsbroker.runtime.plugins import (
    InstalledPlugins,
    PluginError,
    Plugins,
    nameOf,
)
from natsbroker.runtime.reload import ReloadError
from natsbroker.server.builtin import BUILT_IN
from natsbroker.server.configuration.build import buildText
from tests.conftest import FlushLoggedErrors
from tests.server.support import Host, logLines, settingsOf
from tests.support import Doorkeeper

HOST: Any = object()


@implementer(IAuthorizerPlugin)
class AuthorizerPlugin:
    """A plugin that makes the given authorizer."""

    def __init__(self, name: str = "mine", made: Any = None) -> None:
        self.name = name
        self.made = made or Doorkeeper()
        self.given: list[Any] = []

    def makeAuthorizer(self, host: IBrokerHost, section: Mapping[str, Any]) -> Any:
        self.given.append((host, dict(section)))
        return self.made


@implementer(IRouterPlugin)
class RouterPlugin:
    """A plugin that makes ordinary routers, or refuses a bad section."""

    name = "mine"

    def makeRouter(self, account: str, section: Mapping[str, Any]) -> ISubjectRouter:
        if section.get("bad"):
            raise ValueError("bad makes no sense")
        return BuiltInRouter(int(section["shapes"]))


@implementer(IBrokerService)
class Maker:
    """A plugin that makes services, or gives the prepared one."""

    def __init__(self, name: str, service: Any = None) -> None:
        self.name = name
        self.service = service

    def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> Any:
        if "bad" in section:
            raise ValueError("bad is not known")
        service: Any = self.service or Service()
        service.section = dict(section)
        return service


def plugins(*those: Any, builtIn: Any = BUILT_IN) -> Plugins:
    """A collection of the given plugins."""

    def find(interface: Any) -> Iterable[Any]:
        return [plugin for plugin in those if interface.providedBy(plugin)]

    return Plugins(find, builtIn)


class TestNaming:
    """Looking up plugins by name."""

    def test_found(self) -> None:
        """A plugin is found by its name."""
        wanted = AuthorizerPlugin("b")
        plugin = plugins(AuthorizerPlugin("a"), wanted).named(IAuthorizerPlugin, "b")
        assert plugin is wanted

    def test_missing(self) -> None:
        """A missing plugin is named, with the existing ones."""
        known = plugins(AuthorizerPlugin("b"), AuthorizerPlugin("a"), builtIn={})
        with pytest.raises(PluginError, match=r'IAuthorizerPlugin named "x" \(there is a, b\)'):
            known.named(IAuthorizerPlugin, "x")
        with pytest.raises(PluginError, match=r"\(there is none\)"):
            plugins(builtIn={}).named(IAuthorizerPlugin, "x")

    def test_installed(self) -> None:
        """By default, Twisted's installed plugins are searched."""
        with pytest.raises(PluginError):
            Plugins().named(IRouterPlugin, "surely not installed")

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("authorization { plugin: x }", "x.conf:1:17: authorization.plugin"),
            ("router { plugin: x }", "x.conf:1:10: router.plugin"),
            ("services { x { } }", "x.conf:1:12: services.x"),
            ("plugins { x { } }", "x.conf:1:11: plugins.x"),
            ("streaming { store: x }", "x.conf:1:13: streaming.store"),
        ],
    )
    def test_missingPlugin(self, text: str, place: str) -> None:
        """The error about a missing plugin has the place of the key that names it."""
        settings = buildText(text, {}, "x.conf").settings
        with pytest.raises(PluginError, match=rf"^{place}: there is no I\w+ named \"x\""):
            Broker(settings, reactor=MemoryReactorClock())

    @pytest.mark.parametrize(
        ("given", "name"), [(None, "none"), (Doorkeeper(), "Doorkeeper"), (plugins, "plugins")]
    )
    def test_nameOf(self, given: object, name: str) -> None:
        """An object is named in the log by its own name or its class."""
        assert nameOf(given, "none") == name


class TestAuthorizer:
    """Authorization plugins."""

    def test_noName(self) -> None:
        """Without a name there is no authorizer."""
        assert plugins().authorizer(HOST, settingsOf("port: 1")) is None

    def test_namedPlugin(self) -> None:
        """The named plugin gets the host and the other keys of its block."""
        plugin = AuthorizerPlugin()
        settings = settingsOf("authorization { plugin: mine, colour: red }")
        assert plugins(plugin).authorizer(HOST, settings) is plugin.made
        assert plugin.given == [(HOST, {"colour": "red"})]

    def test_noAuthorizer(self) -> None:
        """An object that is no authorizer is refused."""
        settings = settingsOf("authorization { plugin: mine }")
        with pytest.raises(PluginError, match='"mine" makes no authorizer'):
            plugins(AuthorizerPlugin(made=object())).authorizer(HOST, settings)

    def test_givenAuthorizer(self) -> None:
        """A given authorizer takes precedence over the one of the settings."""
        settings = settingsOf("authorization { plugin: missing }")
        given = Doorkeeper()
        assert plugins().authorizer(HOST, settings, given) is given

    def test_givenPlugin(self) -> None:
        """A plugin object that is passed in is used instead of the configured one."""
        given = AuthorizerPlugin()
        settings = settingsOf("authorization { colour: red, plugin: other }")
        assert plugins().authorizer(HOST, settings, given) is given.made
        assert given.given == [(HOST, {"colour": "red"})]

    def test_readyMade(self) -> None:
        """Built-in plugins precede installed ones of the same name."""
        own, installed = AuthorizerPlugin(), AuthorizerPlugin()
        settings = settingsOf("authorization { plugin: mine }")
        installedPlugins = plugins(installed, builtIn={IAuthorizerPlugin: lambda: [own]})
        assert installedPlugins.authorizer(HOST, settings) is own.made
        assert plugins(installed).authorizer(HOST, settings) is installed.made
        missing = settingsOf("authorization { plugin: x }")
        with pytest.raises(PluginError, match=r"\(there is a, mine\)"):
            other = {IAuthorizerPlugin: lambda: [AuthorizerPlugin("a")]}
            plugins(installed, builtIn=other).authorizer(HOST, missing)


class TestRouter:
    """Router plugins."""

    def test_noName(self) -> None:
        """Without a name there is no router."""
        assert plugins().routerFactory(settingsOf("port: 1")) is None

    def test_routerForEachAccount(self) -> None:
        """Each account gets a router of its own."""
        make = plugins(RouterPlugin()).routerFactory(settingsOf("router {plugin: mine, shapes: 5}"))
        assert make is not None
        assert make("A") is not make("A")

    def test_refuses(self) -> None:
        """A router plugin's error about its section names the plugin."""
        settings = settingsOf("router { plugin: mine, bad: true }")
        make = plugins(RouterPlugin()).routerFactory(settings)
        assert make is not None
        with pytest.raises(PluginError, match='router plugin "mine": bad makes no sense'):
            make("A")


class TestServices:
    """Services beside ours."""

    def test_namedServices(self) -> None:
        """Each service in the settings gets its section."""
        settings = settingsOf("services { a { x: 1 }, b {} }\nplugins { c { y: 2 } }")
        made = plugins(Maker("a"), Maker("b"), Maker("c"), Maker("d")).services(HOST, settings, [])
        services: dict[str, Any] = dict(made)
        assert {name: service.section for name, service in services.items()} == {
            "a": {"x": 1},
            "b": {},
            "c": {"y": 2},
        }

    def test_givenObject(self) -> None:
        """A service plugin that is passed in gets the section of its name, or an empty one."""
        settings = settingsOf("services { a { x: 1 } }")
        services: dict[str, Any] = dict(
            plugins().services(HOST, settings, [Maker("a"), Maker("z")])
        )
        assert services["a"].section == {"x": 1}
        assert services["z"].section == {}

    def test_refuses(self) -> None:
        """A service plugin's error about its section names the service."""
        settings = settingsOf("services { a { bad: 1 } }")
        with pytest.raises(PluginError, match='service "a": bad is not known'):
            plugins(Maker("a")).services(HOST, settings, [])

    def test_missing(self) -> None:
        """A service without a plugin is refused."""
        with pytest.raises(PluginError, match="IBrokerService"):
            plugins().services(HOST, settingsOf("services { a {} }"), [])


@implementer(IOptionsCheck)
class CheckingMaker(Maker):
    """A plugin that checks its section before it makes a service."""

    def checkOptions(self, section: Any, settings: Any) -> None:
        """Refuse everything that is bad."""
        if "bad" in section:
            raise PluginOptionError("bad", "bad is not good")
        if not section:
            raise ValueError("nothing to do")


@implementer(IWorkerPlugin)
class SharedMaker(Maker):
    """A plugin that states whether its service may run in several workers."""

    def __init__(self, name: str, runsInWorkers: bool = True) -> None:
        super().__init__(name)
        self.runsInWorkers = runsInWorkers


class TestUnshared:
    """Plugins that cannot run in several workers."""

    @pytest.mark.parametrize(
        ("made", "expected"),
        [
            (SharedMaker("a"), []),
            (SharedMaker("a", runsInWorkers=False), [("services.a", 'service "a"')]),
            (Maker("a"), [("services.a", 'service "a"')]),
            (Maker("b"), []),
        ],
    )
    def test_services(self, made: Maker, expected: list[tuple[str, str]]) -> None:
        """
        A service without a statement about workers counts as unable. A missing one is not reported.
        """
        assert list(plugins(made).unshared(settingsOf("services { a { good: 1 } }"))) == expected

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("authorization { plugin: cred, checkers: [anonymous] }", ""),
            ("authorization { plugin: htpasswd, file: f }", ""),
            ("authorization { plugin: http, url: 'https://h' }", ""),
            ("gateway { name: A, port: 1, interest { plugin: optimistic } }", ""),
            ("services { opentelemetry {} }", ""),
            ("services { traffic {} }", "services.traffic"),
        ],
    )
    def test_builtIn(self, text: str, key: str) -> None:
        """The broker's own services state whether they can run in several workers."""
        unshared = Plugins(builtIn=BUILT_IN).unshared(settingsOf(text))
        assert [named for named, _ in unshared] == ([key] if key else [])


def placed(text: str) -> Settings:
    """Settings that know the places of their keys."""
    return buildText(text, {}, "x.conf").settings


class TestProblems:
    """Problems that plugins report without making anything."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("services { a { good: 1 } }", []),
            (
                "services { a { bad: 1 } }",
                [("services.a.bad", 'x.conf:1:16: services.a.bad: service "a": bad is not good')],
            ),
            (
                "plugins { a { } }",
                [("plugins.a", 'x.conf:1:11: plugins.a: service "a": nothing to do')],
            ),
        ],
    )
    def test_options(self, text: str, expected: list[tuple[str, str]]) -> None:
        """
        The plugin checks its options. The error has the option's place, or that of the section.
        """
        known = plugins(CheckingMaker("a"))
        problems = [(key, str(error)) for key, error in known.problems(placed(text))]
        assert problems == expected

    def test_pluginThatCannotCheck(self) -> None:
        """For a plugin that cannot check its section, only its existence is checked."""
        known = plugins(Maker("a"))
        assert list(known.problems(settingsOf("services { a { bad: 1 } }"))) == []


class TestMistakes:
    """Mistakes of plugin authors."""

    def test_raises(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """If a plugin raises, the error names the exception, and the log has the traceback."""

        @implementer(IAuthorizerPlugin)
        class Broken:
            name = "mine"

            def makeAuthorizer(self, host: IBrokerHost, section: Mapping[str, Any]) -> Any:
                raise KeyError("colour")

        settings = settingsOf("authorization { plugin: mine }")
        text = "authorization plugin \"mine\" failed to make the authorizer: KeyError: 'colour'"
        with pytest.raises(PluginError, match=text):
            plugins(Broken()).authorizer(HOST, settings)
        assert len(flushLoggedErrors(KeyError)) == 1

    def test_nameless(self) -> None:
        """
        A service plugin without a name is refused if it is passed in, and skipped with a warning if
        it is installed.
        """

        class Nameless:
            def makeService(self, host: IBrokerHost, section: Mapping[str, Any]) -> Any:
                return Service()

        nameless: Any = Nameless()
        directlyProvides(nameless, IBrokerService)
        text = "the IBrokerService tests.runtime.test_plugins.Nameless has no name"
        with pytest.raises(PluginError, match=text):
            plugins().services(HOST, settingsOf("port: 1"), [nameless])
        with logLines() as lines:
            plugin = plugins(nameless, Maker("mine")).named(IBrokerService, "mine")
        assert (plugin.name, text in lines[0]) == ("mine", True)

    def test_sameName(self) -> None:
        """Two services with one name are refused, because one would be lost."""
        text = "services need names of their own: mine, mine"
        with pytest.raises(PluginError, match=text):
            plugins().services(HOST, settingsOf("port: 1"), [Maker("mine"), Maker("mine")])

    def test_kindsAreListed(self) -> None:
        """The error about an unknown service also lists the names of connection kinds."""
        kind: Any = type("Kind", (), {"name": "lines"})()
        directlyProvides(kind, IConnectionKind)
        with pytest.raises(PluginError, match=r'named "liens" \(there is lines, mine\)'):
            plugins(kind, Maker("mine"), builtIn={}).named(IBrokerService, "liens")

    def test_kindOptions(self) -> None:
        """An error in the options of a connection kind has their place."""
        kind: Any = type("Kind", (), {"name": "lines", "key": "lines"})()

        def checkOptions(section: Mapping[str, Any], settings: Settings) -> None:
            raise PluginOptionError("port", "port must be a number")

        kind.checkOptions = checkOptions
        directlyProvides(kind, IConnectionKind, IOptionsCheck)
        settings = buildText("services { lines { port: x } }", {}, "x.conf").settings
        [(key, error)] = plugins(kind, builtIn={}).problems(settings)
        assert key == "services.lines.port"
        assert str(error) == (
            'x.conf:1:20: services.lines.port: connection kind "lines": port must be a number'
        )


@implementer(IReloadable)
class Changing(Service):
    """A service that accepts new sections, except invalid ones."""

    def __init__(self) -> None:
        self.sections: list[Any] = []

    def planReload(self, section: Mapping[str, Any]) -> Callable[[], None]:
        if "bad" in section:
            raise ValueError("bad is not known")
        return lambda: self.sections.append(dict(section))


class TestSections:
    """Changes of services' sections by a reload."""

    def test_newSection(self) -> None:
        """A service that supports reloads gets its new section."""
        service = Changing()
        host = Host("services { a { x: 1 } }", services=[Maker("a", service)]).start()
        host.reload("services { a { x: 2 } }")
        assert service.sections == [{"x": 2}]

    def test_refusedWhole(self) -> None:
        """If the plugin refuses, no change is made."""
        service = Changing()
        host = Host("services { a { x: 1 } }", services=[Maker("a", service)]).start()
        with pytest.raises(ReloadError, match="bad is not known"):
            host.reload("max_payload: 5\nservices { a { bad: 2 } }")
        assert host.broker.settings.max_payload == 1 << 20

    @pytest.mark.parametrize("text", ["services { a { x: 2 } }", "port: 1", "services { b {} }"])
    def test_cannot(self, text: str) -> None:
        """For a service that does not support reloads, a changed section is refused."""
        host = Host("port: 1\nservices { a { x: 1 } }", services=[Maker("a")]).start()
        with pytest.raises(ReloadError, match="not supported for service"):
            host.reload(text)


PLUGIN = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from natsbroker.interfaces import IBrokerService
@implementer(IPlugin, IBrokerService)
class Service:
    name = "mine"
    def makeService(self, host, section): ...
plugin = Service()
"""

Make = Callable[..., InstalledPlugins]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a package of plugins out of the texts of its modules."""
    name = f"pluginsof{os.getpid()}x{abs(hash(tmp_path))}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(**modules: str) -> InstalledPlugins:
        for key, text in modules.items():
            (folder / f"{key}.py").write_text(text)
        importlib.invalidate_caches()
        package: ModuleType = importlib.import_module(name)
        find = partial(getPlugins, package=package)
        return InstalledPlugins(find, name)

    yield made
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


def test_found(make: Make) -> None:
    """Plugins are found by their interface, also from Twisted's cache."""
    for _ in range(2):
        load = make(one=PLUGIN)
        assert [plugin.name for plugin in load(IBrokerService)] == ["mine"]
        assert list(load(IRouterPlugin)) == []


def test_broken(make: Make, flushLoggedErrors: FlushLoggedErrors) -> None:
    """A module that cannot be imported causes one warning, and hides no other plugin."""
    load = make(one=PLUGIN, two="import nothing_of_that_name")
    with logLines(debug=False) as lines:
        for interface in (IBrokerService, IRouterPlugin, IBrokerService):
            names = [plugin.name for plugin in load(interface)]
            assert names == (["mine"] if interface is IBrokerService else [])
    assert len(flushLoggedErrors(ModuleNotFoundError)) == 1
    assert len(lines) == 1
    assert "two.py cannot be imported: ModuleNotFoundError: No module named" in lines[0]
    with pytest.raises(PluginError, match=r"\(there is mine\); .*two cannot be imported: Module"):
        Plugins(load, {}).named(IBrokerService, "other")


def test_brokenLater(make: Make, tmp_path: Path, flushLoggedErrors: FlushLoggedErrors) -> None:
    """A module that was fine and cannot be imported any more causes one warning, too."""
    assert [plugin.name for plugin in make(one=PLUGIN, two="")(IBrokerService)] == ["mine"]
    load = make(two="import nothing_of_that_name")
    (module,) = tmp_path.rglob("two.py")
    os.utime(module, (2**31, 2**31))
    sys.modules.pop(f"{load._package}.two")
    with logLines(debug=False) as lines:
        assert [plugin.name for plugin in load(IBrokerService)] == ["mine"]
    assert len(flushLoggedErrors(ModuleNotFoundError)) == 1
    assert [line[:5] for line in lines] == ["[WRN]"]


def test_untouched(make: Make, tmp_path: Path, flushLoggedErrors: FlushLoggedErrors) -> None:
    """
    A broken module in an additional folder of the plugins' package causes a warning, and no fatal
    error.
    """
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "broken.py").write_text("import nothing_of_that_name")
    find = make(__init__=f"__path__.append({str(tmp_path / 'elsewhere')!r})")
    name = find._package
    del sys.modules[name]
    sys.modules.pop(f"{name}.broken", None)

    def getAll(interface: Any) -> Iterable[Any]:
        return getPlugins(interface, importlib.import_module(name))

    with logLines(debug=True) as lines:
        assert list(InstalledPlugins(getAll, name)(IBrokerService)) == []
    assert len(flushLoggedErrors(ModuleNotFoundError)) == 1
    assert [line[:5] for line in lines if "cannot be imported" in line] == ["[WRN]"]
    assert not [line for line in lines if "[FTL]" in line or "Unhandled" in line]
    assert any("Traceback" in line for line in lines)


def test_mended(make: Make, tmp_path: Path) -> None:
    """
    A plugin whose definition in another module is repaired is found, although Twisted has cached
    its absence.
    """
    (tmp_path / "definesit.py").write_text(PLUGIN.replace("IPlugin, IBrokerService", "IPlugin"))
    text = "from definesit import plugin"
    assert list(make(one=text)(IBrokerService)) == []
    (tmp_path / "definesit.py").write_text(PLUGIN)
    for name in [module for module in sys.modules if module.endswith(("definesit", ".one"))]:
        del sys.modules[name]
    load = make()
    assert list(load(IBrokerService)) == []
    assert Plugins(load, {}).named(IBrokerService, "mine").name == "mine"
    del sys.modules["definesit"]


def test_nameless(make: Make) -> None:
    """A plugin without a name earns a warning with the remedy, and hides no other."""
    load = make(one=PLUGIN, two=PLUGIN.replace('name = "mine"', ""))
    with logLines() as lines:
        assert Plugins(load, {}).named(IBrokerService, "mine").name == "mine"
    assert "two.Service has no name" in lines[0]
    assert 'give it an attribute such as name = "mine"' in lines[0]
    with pytest.raises(PluginError, match=r"\(there is mine\); the IBrokerService .* has no name"):
        Plugins(load, {}).named(IBrokerService, "other")
