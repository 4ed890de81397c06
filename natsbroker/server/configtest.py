"""
The checks of C{-t} beyond the text of the configuration file, with the errors of a start. A file
that names no certificates, folders or plugins loads nothing, because C{-t} has to be quick.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from natsbroker.config.model import Settings, TLSSettings
from natsbroker.links.kinds import KINDS

_STORES = ("memory", "lmdb", "postgres")
"""The stores that are no plugins."""


def checkReferences(settings: Settings) -> None:
    _checkCertificates(settings)
    _checkStreamingFolder(settings)
    _checkPlugins(settings)


def _checkCertificates(settings: Settings) -> None:
    blocks = list(_tlsBlocks(settings))
    if not blocks:
        return
    from natsbroker.connections.tlscontext import contextFrom, diallingContextFrom

    for tls in blocks:
        (contextFrom if tls.certs else diallingContextFrom)(tls)


def _tlsBlocks(settings: Settings) -> Iterator[TLSSettings]:
    for block in (settings, *(getattr(settings, kind.key) for kind in KINDS)):
        remotes = (*getattr(block, "remotes", ()), *getattr(block, "gateways", ()))
        for each in () if block is None else (block, *remotes):
            if each.tls is not None:
                yield each.tls


def _checkStreamingFolder(settings: Settings) -> None:
    streaming = settings.streaming
    if streaming is None or streaming.store != "lmdb":
        return
    path = Path(streaming.dir)
    there = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    problem = ""
    if not there.is_dir():
        problem = "is not a folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        problem = "cannot be written to"
    if problem:
        raise ValueError(settings.placed("streaming.dir", f"{there} {problem}"))


def _checkPlugins(settings: Settings) -> None:
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
    plugins.require(settings)
    if streaming is not None and ownStore:
        from natsbroker.storage.stores import storeOpener

        storeOpener(streaming.store, plugins, settings.at("streaming.store"))
