"""
The checks of C{-t} beyond the text of the file, with the errors of a start. If there are no
certificates, folders or plugins, nothing is loaded, because C{-t} must be quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.errors import BrokerError
from natsbroker.server.kinds import KINDS

if TYPE_CHECKING:
    from natsbroker.runtime.plugins import Plugins

_STORES = ("memory", "lmdb", "postgres")
"""The stores that are no plugins."""


def referenceProblems(
    settings: Settings, isWrong: Callable[[str], bool] = lambda key: False
) -> Iterator[tuple[str, Exception]]:
    """
    The key and the error of each problem, whose text has the place in the file if known.

    @param isWrong: tells the keys that have errors already.
    """
    if settings.operator.isOn:
        yield from _attempted("operator", _readOperators, settings)
    yield from _certificateProblems(settings, isWrong)
    yield from _streamingFolderProblems(settings)
    yield from _pluginProblems(settings)


def _attempted(key: str, call: Callable[[Any], object], value: object) -> Iterator[Any]:
    try:
        call(value)
    except (BrokerError, ValueError) as error:
        yield key, error


def _readOperators(settings: Settings) -> None:
    from natsbroker.auth.operator.operators import operatorsIn

    operatorsIn(settings)


def _certificateProblems(
    settings: Settings, isWrong: Callable[[str], bool]
) -> Iterator[tuple[str, Exception]]:
    blocks = list(_tlsBlocks(settings))
    if not blocks:
        return
    from natsbroker.connections.tlscontext import contextFrom, diallingContextFrom

    for tls in blocks:
        key = tls.place.rpartition(": ")[2]
        if not isWrong(key):
            yield from _attempted(key, contextFrom if tls.certs else diallingContextFrom, tls)


def _tlsBlocks(settings: Settings) -> Iterator[TLSSettings]:
    for block in (settings, *(getattr(settings, kind.key) for kind in KINDS)):
        remotes = (*getattr(block, "remotes", ()), *getattr(block, "gateways", ()))
        for block_ in () if block is None else (block, *remotes):
            if block_.tls is not None:
                yield block_.tls


def _streamingFolderProblems(settings: Settings) -> Iterator[tuple[str, Exception]]:
    streaming = settings.streaming
    if streaming is None or streaming.store != "lmdb":
        return
    directory, key = streaming.storeSection.get("dir"), _streamingKey(settings, "dir")
    problem = folderProblem(directory) if directory and isinstance(directory, str) else ""
    if problem:
        yield key, ValueError(settings.placed(key, problem))


def folderProblem(path: str) -> str:
    absolute = Path(path).absolute()
    there = next(
        directory for directory in (absolute, *absolute.parents) if os.path.lexists(directory)
    )
    shown = Path(path) if there == absolute else there
    if not there.is_dir():
        return f"{shown} is not a folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{shown} cannot be written to"


@dataclass(frozen=True)
class _StoreBlock:
    nameKey: str
    name: str
    section: Mapping[str, Any]
    keyOf: Callable[[str], str]

    @property
    def isPlain(self) -> bool:
        """Whether only the folder of a store can be wrong."""
        return self.name in _STORES and self.section.keys() <= {"dir"}


def _storeBlocks(settings: Settings) -> Iterator[_StoreBlock]:
    streaming, jetstream = settings.streaming, settings.jetstream
    keyOf: Callable[[str], str]
    if streaming is not None:
        keyOf = partial(_streamingKey, settings)
        yield _StoreBlock("streaming.store", streaming.store, streaming.storeSection, keyOf)
    if jetstream.enabled:
        section = dict(jetstream.backend_options)
        if jetstream.backend == "lmdb":
            section.setdefault("dir", jetstream.store_dir or "jetstream")
        keyOf = "jetstream.backend_options.{}".format
        yield _StoreBlock("jetstream.backend", jetstream.backend, section, keyOf)


def _streamingKey(settings: Settings, option: str) -> str:
    blocks = ("streaming.store_options", "streaming.sql_options")
    keys = [f"{block}.{option}" for block in blocks]
    return next((key for key in keys if key in settings.places), f"streaming.{option}")


def _pluginProblems(settings: Settings) -> Iterator[tuple[str, Exception]]:
    gateway = settings.gateway
    stores = [storeBlock for storeBlock in _storeBlocks(settings) if not storeBlock.isPlain]
    named = (
        settings.authorization.plugin,
        settings.router.plugin,
        settings.plugins,
        settings.services,
        gateway is not None and gateway.interest.plugin,
        stores,
    )
    if not any(named):
        return
    from natsbroker.runtime.plugins import Plugins
    from natsbroker.server.builtin import withBuiltIn

    plugins = withBuiltIn(Plugins())
    yield from plugins.problems(settings)
    for store in stores:
        yield from _storeProblems(settings, store, plugins)


def _storeProblems(
    settings: Settings, block: _StoreBlock, plugins: Plugins
) -> Iterator[tuple[str, Exception]]:
    from natsbroker.runtime.plugins import PluginError, optionProblem
    from natsbroker.storage.stores import storeOpener

    try:
        opener = storeOpener(block.name, plugins, settings.at(block.nameKey))
    except PluginError as error:
        yield block.nameKey, error
        return
    what = f'store "{block.name}"'
    yield from optionProblem(settings, what, opener, block.section, block.nameKey, block.keyOf)
