"""
Plugins that are installed: objects in the modules of the package C{twisted.plugins}.

Twisted remembers in a file, C{dropin.cache}, what each module provides. It logs a module that
cannot be imported as a fatal error at each look-up, and does not notice a class that was mended in
another module than the plugin's. So modules that it does not remember are loaded here first, and
what is not found is looked for in all of them once more, except in Twisted's own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from twisted.logger import Logger, LogLevel
from twisted.plugin import IPlugin, getPlugins
from twisted.python.modules import getModule
from zope.interface.interface import InterfaceClass

import twisted

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
            for each in self._forgotten():
                self._load(each)
        if not self.broken:
            return self._find(interface)
        return self.live(interface)

    def live(self, interface: InterfaceClass) -> Iterator[Any]:
        """The plugins as they are now, whatever is remembered of their modules."""
        for each in getModule(self._package).iterModules():
            if each.filePath.parent().path != _TWISTED:
                self._load(each)
        for module in self._modules.values():
            for value in vars(module).values():
                if all(each.providedBy(value) for each in (IPlugin, interface)):
                    yield value

    def _forgotten(self) -> Iterator[Any]:
        """The modules of which Twisted remembers nothing, or that have changed since."""
        caches: dict[Any, tuple[Any, float]] = {}
        for each in getModule(self._package).iterModules():
            folder = each.filePath.parent()
            if folder not in caches:
                caches[folder] = _remembered(folder.child("dropin.cache"))
            known, since = caches[folder]
            if each.name.rpartition(".")[2] not in known or _changed(each) >= since:
                yield each

    def _load(self, module: Any) -> None:
        if module.name in self._modules or module.name in self.broken:
            return
        try:
            self._modules[module.name] = module.load()
        except Exception as error:
            # Somebody else's code, which this broker may have no use for.
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
        # None, or one that Twisted cannot read either: it is written again.
        return {}, 0.0
