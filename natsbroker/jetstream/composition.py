"""
Composition of the JetStream service from the settings.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.advisories import Advisory, LameDuckStarted
from natsbroker.config.diff import Change
from natsbroker.config.model import GLOBAL_ACCOUNT, JetStream, Settings
from natsbroker.interfaces import IBrokerHost, ILeasedStore, IObserver, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.channels.channelstreams import ChannelStreams
from natsbroker.jetstream.cluster.leadership import ClusterLeadership
from natsbroker.jetstream.cluster.streamplaces import strayWorkers
from natsbroker.jetstream.cluster.workerstreams import WorkerStreams
from natsbroker.jetstream.figures import JetStreamFigures
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.jetstream.service import JetStreamService
from natsbroker.jetstream.totals import withTotals
from natsbroker.links.hostcluster import HostCluster
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.plugins import Plugins
from natsbroker.runtime.reload import Planner, Step, nothing
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.stores import storeOpener

if TYPE_CHECKING:
    from natsbroker.auth.operator.accountclaims import AccountClaims, OperatorLimits
    from natsbroker.auth.operator.directory import AccountDirectory

_log = Logger(namespace="natsbroker.jetstream")

CLUSTER = "natsbroker"
"""The name that infos show of a cluster without one."""


def jetStreamService(
    host: IBrokerHost,
    plugins: Plugins,
    locate: Callable[[str], object] = lambda account: None,
    channels: ChannelStreams | None = None,
    hostCluster: HostCluster | None = None,
) -> tuple[JetStreamService, JetStreamFigures]:
    """
    The service, and the figures for monitoring.

    @param locate: looks up an account that has streams.
    @param channels: the channels of NATS Streaming that are streams too.
    @param hostCluster: the workers of this host, each of which serves streams; C{None} without
        others.
    @raise natsbroker.errors.BrokerError: if there is no such store.
    """
    settings = host.settings
    jetstream: JetStream = settings.jetstream
    opener = storeOpener(jetstream.backend, plugins, settings.at("jetstream.backend"))
    section: dict[str, Any] = dict(jetstream.backend_options)
    if jetstream.backend == "lmdb":
        section.setdefault("dir", storeDirectory(jetstream))
        section.setdefault("sync_interval", jetstream.sync_interval)
        section.setdefault("encryption", encryptionOf(jetstream))
    directory = str(section["dir"]) if jetstream.backend == "lmdb" else ""
    folder = Path(directory)
    own, count = (1, 1) if hostCluster is None else (hostCluster.number, hostCluster.count)
    if own > 1 and directory:
        section["dir"] = os.path.join(directory, f"worker-{own}")
    effective = withTotals(jetstream, directory)

    def openFiles() -> Deferred[IStreamStore]:
        if jetstream.backend == "lmdb":
            _log.info('JetStream Store Directory: "{folder}"', folder=section["dir"])
            refuseStrays(folder, count)
        try:
            opening: Deferred[IStreamStore] = opener.openStore(host, section)
        except ValueError as error:
            raise StartError(f'store "{jetstream.backend}": {error}') from error
        return opening.addErrback(placed)

    def placed(failure: Failure) -> Failure:
        if failure.check(OSError, StoreError):
            text = failure.getErrorMessage()
            return Failure(StartError(settings.placed("jetstream.store_dir", text)))
        return failure

    def share(store: ILeasedStore, deadlines: Deadlines) -> ClusterLeadership:
        if settings.no_system_account:
            raise StartError(
                settings.placed("jetstream.backend", "a shared store needs a system account")
            )
        if channels is not None:
            text = "channels cannot be streams of a JetStream that brokers share"
            raise StartError(settings.placed("streaming.jetstream_accounts", text))
        cluster = "" if settings.cluster is None else settings.cluster.name or CLUSTER
        tags = settings.server_tags
        server = host.describe()["name"] if count == 1 else f"{host.describe()['name']}-{own}"
        bus = host.bus(settings.system_account)
        return ClusterLeadership(store, cluster, server, tags, bus, deadlines)

    def joinWorkers(deadlines: Deadlines) -> WorkerStreams:
        if settings.no_system_account:
            raise StartError(settings.placed("jetstream", "workers need a system account"))
        if channels is not None:
            text = "channels cannot be streams of a JetStream of several workers"
            raise StartError(settings.placed("streaming.jetstream_accounts", text))
        inThread = partial(deferToThreadPool, host.reactor, host.reactor.getThreadPool())
        bus = host.bus(settings.system_account)
        server = host.describe()["name"]
        return WorkerStreams(
            *(folder, own, count, server, bus, deadlines, inThread, locate),
            encryption=encryptionOf(jetstream),
        )

    join = joinWorkers if count > 1 and directory else None
    service = JetStreamService(host, effective, openFiles, share, locate, channels, join)
    for name, limits in limitsIn(settings).items():
        service.change(name, AccountAllowance(limits))
    host.observe(LeavingObserver(service))
    figures = JetStreamFigures(service.accounts, effective, directory, lambda: service.isRunning)
    figures.configure(effective, isSized(jetstream))
    figures.trouble = lambda: service.trouble
    figures.store = lambda: service.store
    return service, figures


def refuseStrays(folder: Path, count: int) -> None:
    """
    Raise L{StartError} if a folder has streams of workers beyond the first C{count}: they would be
    served by nobody.
    """
    strays = strayWorkers(folder, count)
    if strays:
        numbers = ", ".join(map(str, strays))
        raise StartError(
            f"{folder} has streams of worker {numbers}: start at least {strays[-1]} workers"
        )


def channelStreams(settings: Settings) -> ChannelStreams | None:
    """The channels' streams; C{None} if the configuration gives no channel to an account."""
    streaming = settings.streaming
    if streaming is None or not streaming.jetstream_accounts:
        return None
    return ChannelStreams(streaming.accountOf, streaming.store != "memory")


@implementer(IObserver)
class LeavingObserver:
    """Hands over a service's streams when its broker enters lame duck mode."""

    def __init__(self, service: JetStreamService) -> None:
        self._service = service

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, LameDuckStarted):
            self._service.leave().addErrback(_notLeft)


def _notLeft(failure: Failure) -> None:
    _log.failure("JetStream did not hand over its streams", failure)


def storeDirectory(jetstream: JetStream) -> str:
    """The folder of streams in files; without C{store_dir} a temporary one, as in nats-server."""
    parent = jetstream.store_dir or os.path.join(tempfile.gettempdir(), "natsbroker")
    return os.path.join(parent, "jetstream")


def reconfigure(service: JetStreamService, figures: JetStreamFigures, block: JetStream) -> None:
    effective = withTotals(block, figures.directory)
    service.configure(effective)
    figures.configure(effective, isSized(block))


def streamsPlanner(
    services: Mapping[str, IService], inForce: Callable[[], Settings], figures: Callable[[], Any]
) -> Planner:
    """
    The step that changes the limits of JetStream, the accounts that have it, and their limits. An
    account without JetStream keeps its streams in the store for later.

    @param inForce: gives the settings before the reload while it is planned.
    @param figures: gives what monitoring shows of JetStream.
    """

    def plan(new: Settings, changes: Sequence[Change]) -> Step:
        old = inForce()
        if not old.jetstream.enabled:
            return nothing
        service: Any = services["jetstream"]
        before, after = limitsIn(old), limitsIn(new)

        def apply() -> None:
            if old.jetstream != new.jetstream:
                reconfigure(service, figures(), new.jetstream)
            for name in before.keys() | after.keys():
                limits = after.get(name)
                if limits != before.get(name):
                    service.change(name, None if limits is None else AccountAllowance(limits))

        return apply

    return plan


def isSized(block: JetStream) -> bool:
    """Whether the configuration names both totals, which nats-server shows as C{compress_ok}."""
    return min(block.max_memory_store, block.max_file_store) >= 0


def encryptionOf(jetstream: JetStream) -> Encryption | None:
    if not jetstream.encryption_key:
        return None
    previous = jetstream.prev_encryption_key
    return Encryption(jetstream.encryption_key, jetstream.cipher, previous)


def limitsIn(settings: Settings) -> Mapping[str, JetStreamLimits]:
    """
    The accounts that have JetStream: those whose block enables it; without accounts, the global
    one. In operator mode their JWTs decide.
    """
    if settings.operator.isOn:
        return {}
    others = settings.accounts.keys() - {settings.system_account}
    if not others:
        return {GLOBAL_ACCOUNT: JetStreamLimits()}
    return {
        name: _limitsFrom(account.jetstreamLimits)
        for name, account in settings.accounts.items()
        if account.jetstream and name != settings.system_account
    }


def allowanceOf(terms: OperatorLimits) -> AccountAllowance | None:
    """The allowance from the limits in an account's JWT; C{None} if they give it no JetStream."""
    if not terms.jetstream:
        return None
    tiers = {name: _limitsFrom(limits) for name, limits in terms.jetstreamTiers.items()}
    return AccountAllowance(_limitsFrom(terms.jetstreamLimits), tiers)


def grantJetStream(directory: AccountDirectory, service: JetStreamService) -> None:
    """Give each account the JetStream of its JWT, now and when that changes."""

    def changed(claims: AccountClaims) -> None:
        service.change(claims.token.subject, allowanceOf(claims.terms))

    directory.watch(changed, lambda account: service.change(account, None))
    for claims in directory:
        changed(claims)


_KEYS = {"max_store": "max_storage", "disk_max_stream_bytes": "storage_max_stream_bytes"}
"""The keys of an account's block that infos show under another name."""


def _limitsFrom(block: Mapping[str, Any]) -> JetStreamLimits:
    known = {field.name for field in fields(JetStreamLimits)}
    given = {_KEYS.get(name, name): value for name, value in block.items()}
    return JetStreamLimits(**{name: given[name] for name in known & given.keys()})
