"""
Plugins that are installed, in packages that the tests make.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from twisted.plugin import getPlugins

from natsbroker.interfaces import IBrokerService, IRouterPlugin
from natsbroker.runtime.installedplugins import InstalledPlugins
from natsbroker.runtime.plugins import PluginError, Plugins
from tests.conftest import FlushLoggedErrors
from tests.server.support import logLines

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
        for each, text in modules.items():
            (folder / f"{each}.py").write_text(text)
        importlib.invalidate_caches()
        package: ModuleType = importlib.import_module(name)
        find = partial(getPlugins, package=package)
        return InstalledPlugins(find, name)

    yield made
    for each in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[each]


def test_found(make: Make) -> None:
    """Plugins are found by their interface, at the second time in what Twisted remembers."""
    for _ in range(2):
        found = make(one=PLUGIN)
        assert [each.name for each in found(IBrokerService)] == ["mine"]
        assert list(found(IRouterPlugin)) == []


def test_broken(make: Make, flushLoggedErrors: FlushLoggedErrors) -> None:
    """A module that cannot be imported is one warning, and hides no other plugin."""
    found = make(one=PLUGIN, two="import nothing_of_that_name")
    with logLines(debug=False) as lines:
        for interface in (IBrokerService, IRouterPlugin, IBrokerService):
            names = [each.name for each in found(interface)]
            assert names == (["mine"] if interface is IBrokerService else [])
    assert len(flushLoggedErrors(ModuleNotFoundError)) == 1
    assert len(lines) == 1
    assert "two.py cannot be imported: ModuleNotFoundError: No module named" in lines[0]
    with pytest.raises(PluginError, match=r"\(there is mine\); .*two cannot be imported: Module"):
        Plugins(found, {}).named(IBrokerService, "other")


def test_untouched(make: Make, tmp_path: Path, flushLoggedErrors: FlushLoggedErrors) -> None:
    """The folders that a package adds to its path are looked at before Twisted logs what is broken
    in them as a fatal error."""
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
    """A class that was mended where it is defined is found, whatever Twisted remembers."""
    (tmp_path / "definesit.py").write_text(PLUGIN.replace("IPlugin, IBrokerService", "IPlugin"))
    text = "from definesit import plugin"
    assert list(make(one=text)(IBrokerService)) == []
    (tmp_path / "definesit.py").write_text(PLUGIN)
    for name in [each for each in sys.modules if each.endswith(("definesit", ".one"))]:
        del sys.modules[name]
    found = make()
    assert list(found(IBrokerService)) == []
    assert Plugins(found, {}).named(IBrokerService, "mine").name == "mine"
    del sys.modules["definesit"]


def test_nameless(make: Make) -> None:
    """A plugin without a name is a warning that says what to do, and hides no other."""
    found = make(one=PLUGIN, two=PLUGIN.replace('name = "mine"', ""))
    with logLines() as lines:
        assert Plugins(found, {}).named(IBrokerService, "mine").name == "mine"
    assert "two.Service has no name" in lines[0]
    assert 'give it an attribute such as name = "mine"' in lines[0]
    with pytest.raises(PluginError, match=r"\(there is mine\); the IBrokerService .* has no name"):
        Plugins(found, {}).named(IBrokerService, "other")
