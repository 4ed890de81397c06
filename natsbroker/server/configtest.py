"""
The checks of C{-t} beyond the text of the configuration file, with the errors of a start. A file
that names no certificates, folders or plugins loads nothing, because C{-t} has to be quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.errors import BrokerError
from natsbroker.links.kinds import KINDS

_STORES = ("memory", "lmdb", "postgres")
"""The stores that are no plugins."""


def referenceProblems(
    settings: Settings, isWrong: Callable[[str], bool] = lambda key: False
) -> Iterator[tuple[str, Exception]]:
    """
    @param isWrong: says which keys have errors already, so that nothing can be made of them.
    @return: the key of each problem, and the error of a start, whose text has the place in the
        file where it is known.
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
        for each in () if block is None else (block, *remotes):
            if each.tls is not None:
                yield each.tls


def _streamingFolderProblems(settings: Settings) -> Iterator[tuple[str, Exception]]:
    streaming = settings.streaming
    problem = ""
    if streaming is not None and streaming.store == "lmdb":
        problem = folderProblem(streaming.dir)
    if problem:
        yield "streaming.dir", ValueError(settings.placed("streaming.dir", problem))


def folderProblem(path: str) -> str:
    """
    @return: why a folder cannot be written to, or made; empty if it can.
    """
    absolute = Path(path).absolute()
    there = next(each for each in (absolute, *absolute.parents) if os.path.lexists(each))
    shown = Path(path) if there == absolute else there
    if not there.is_dir():
        return f"{shown} is not a folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{shown} cannot be written to"


def _pluginProblems(settings: Settings) -> Iterator[tuple[str, Exception]]:
    gateway, streaming = settings.gateway, settings.streaming
    ownStore = streaming is not None and streaming.store not in _STORES
    named = (
        settings.authorization.plugin,
        settings.router.plugin,
        settings.plugins,
        settings.services,
        gateway is not None and gateway.interest.plugin,
        ownStore,
    )
    if not any(named):
        return
    from natsbroker.server.plugins import Plugins

    plugins = Plugins()
    yield from plugins.missing(settings)
    if streaming is not None and ownStore:
        from natsbroker.storage.stores import storeOpener

        key = "streaming.store"
        find = partial(storeOpener, plugins=plugins, key=settings.at(key))
        yield from _attempted(key, find, streaming.store)
