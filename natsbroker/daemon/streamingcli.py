"""
C{natsbroker streaming import}, which makes a store from a data directory of nats-streaming-server;
and C{natsbroker streaming acknowledge}, which notes that a store's losses are known.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from natsbroker.config.errors import ConfigError
from natsbroker.config.goflags import FlagError, FlagType, takeFlags
from natsbroker.config.model import Settings
from natsbroker.config.settings.streaming import Streaming
from natsbroker.errors import BrokerError
from natsbroker.interfaces.records import StoreError
from natsbroker.runtime.plugins import Plugins
from natsbroker.server.configuration.commandline import CommandLineError, invocationFrom
from natsbroker.storage.lmdb.opening import STORE
from natsbroker.storage.lmdb.reports import acknowledge
from natsbroker.streaming.composition import storeMaker
from natsbroker.streaming.filestore.directory import SourceDirectory
from natsbroker.streaming.filestore.framing import Report, SourceError
from natsbroker.streaming.filestore.importer import (
    Importer,
    ImportInterrupted,
    ImportRefused,
    Plan,
    planImport,
)

DONE, NOT_DONE, USAGE, FAILED = 0, 1, 2, 3
"""Exit codes: done; refused, or damage was found; a wrong command line; the store failed."""

_HELP = """\
Usage: natsbroker streaming import DIR [OPTION ...]
       natsbroker streaming acknowledge DIR

import reads a data directory of nats-streaming-server 0.2 to 0.25 into an empty store. That server
must be stopped. Imported are channels with their sequences and timestamps, durable subscriptions
with their unacknowledged messages, and clients. DIR is only read. The store and the limits of its
channels are given as for the broker itself, by -c FILE or by flags:

    natsbroker streaming import /var/lib/stan --store file --dir /var/lib/natsbroker

    --check                 read and verify only; needs no store
    --skip_damaged          import what is intact although something is damaged
    --file_crc_poly <n>     the server's polynomial, if it is an unusual one
    --encryption_key <key>  the server's key; or NATS_STREAMING_ENCRYPTION_KEY in the environment

Progress and findings go to standard error. The last line on standard output is JSON. An import that
was interrupted is finished by running it again. The exit code is 0; 1 if DIR or the store is
refused, or something is damaged (nothing is imported then); 2 for a wrong command line; 3 if the
store failed.

acknowledge prints what the store in DIR has lost, and notes in DIR that the loss is known. Without
this note, /healthz reports the loss after each start. The broker may be running. The reports stay
in DIR. The exit code is 0; 2 for a wrong command line; 3 if the note cannot be written.
"""

_FLAGS = {
    "check": FlagType.BOOLEAN,
    "skip_damaged": FlagType.BOOLEAN,
    "file_crc_poly": FlagType.INTEGER,
    "encryption_key": FlagType.STRING,
}

_KEY_VARIABLE = "NATS_STREAMING_ENCRYPTION_KEY"


class _UsageError(Exception):
    """The command line is wrong."""


@dataclass(frozen=True)
class _ImportCommand:
    directory: Path
    isCheck: bool
    skipsDamaged: bool
    polynomial: int
    key: str
    settings: Settings
    streaming: Streaming


def main(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    reactor: Any = None,
) -> int:
    """Run the command. C{reactor} is by default the global one; it is run and stopped."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        stdout.write(_HELP)
        return DONE if arguments else USAGE
    if arguments[0] == "acknowledge":
        return _acknowledge(arguments[1:], stdout, stderr)
    try:
        request = _requestFrom(arguments, environment)
    except (_UsageError, FlagError, ConfigError) as error:
        print(f"natsbroker streaming: {error}", file=stderr)
        return USAGE
    if request is None:
        stdout.write(_HELP)
        return DONE
    try:
        return _perform(request, stdout, stderr, reactor)
    except (SourceError, ImportRefused, ImportInterrupted) as error:
        print(f"natsbroker streaming: {error}", file=stderr)
        return NOT_DONE
    except (StoreError, BrokerError, OSError) as error:
        print(f"natsbroker streaming: {error}", file=stderr)
        return FAILED


def _acknowledge(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("natsbroker streaming: acknowledge needs the store's directory", file=stderr)
        return USAGE
    directory = Path(arguments[0])
    if not (directory / STORE).exists():
        print(f"natsbroker streaming: there is no store in {directory}", file=stderr)
        return USAGE
    try:
        texts = acknowledge(directory)
    except OSError as error:
        print(f"natsbroker streaming: {error}", file=stderr)
        return FAILED
    print("\n".join(texts) or f"{directory}: nothing to acknowledge", file=stdout)
    return DONE


def _requestFrom(arguments: Sequence[str], environment: Mapping[str, str]) -> _ImportCommand | None:
    command, *rest = arguments
    if command != "import":
        raise _UsageError(f"there is no command {command!r}, only 'import' and 'acknowledge'")
    if any(argument in ("-h", "--help") for argument in rest):
        return None
    if not rest or rest[0].startswith("-"):
        raise _UsageError("import needs the directory first")
    directory, *flags = rest
    given, others = takeFlags(flags, _FLAGS)
    try:
        settings = invocationFrom(others, environment).settings
    except CommandLineError as error:
        raise _UsageError(str(error)) from None
    if settings is None:
        raise _UsageError(f"not understood: {' '.join(others)}")
    isCheck = bool(given.get("check"))
    streaming = settings.streaming
    if streaming is None or streaming.store == "memory":
        if not isCheck:
            raise _UsageError(
                "the import needs a store that is not in memory: --store file --dir DIR, or -c FILE"
            )
        streaming = streaming or Streaming()
    key = str(given.get("encryption_key") or environment.get(_KEY_VARIABLE, ""))
    return _ImportCommand(
        Path(directory),
        isCheck,
        bool(given.get("skip_damaged")),
        int(given.get("file_crc_poly") or 0),
        key,
        settings,
        streaming,
    )


def _perform(request: _ImportCommand, stdout: TextIO, stderr: TextIO, reactor: Any) -> int:
    report = Report(lambda text: print(text, file=stderr))
    source = SourceDirectory(request.directory, report, request.polynomial, request.key)
    try:
        clusterId = request.streaming.cluster_id
        if source.clusterID and source.clusterID != clusterId and not request.isCheck:
            raise SourceError(
                f"{request.directory} is of cluster {source.clusterID}, not {clusterId}: "
                f"import it with -cid {source.clusterID}, and start the broker with the same id"
            )
        plan = planImport(source, request.streaming, time.time_ns(), report)
        for channel in plan.channels:
            subscriptions = len(plan.subscriptionsOf(channel))
            print(
                f"{channel.source.name}: {channel.count} messages, {channel.first} to"
                f" {channel.last}, {subscriptions} subscriptions",
                file=stderr,
            )
        isStopped = bool(report.damaged) and not request.skipsDamaged
        result = {"imported": False, "already": False, "written": 0, **_figures(plan)}
        if not request.isCheck and not isStopped:
            result |= _write(request, plan, reactor)
        print(json.dumps(result), file=stdout)
        if isStopped:
            print(
                f"natsbroker streaming: {len(report.damaged)} damaged: nothing was imported "
                "(--skip_damaged imports the rest)",
                file=stderr,
            )
        return NOT_DONE if isStopped else DONE
    finally:
        source.close()


def _figures(plan: Plan) -> dict[str, Any]:
    return {
        "channels": len(plan.channels),
        "messages": plan.messages,
        "subscriptions": sum(len(plan.subscriptionsOf(channel)) for channel in plan.channels),
        "clients": len(plan.clients),
        "damaged": len(plan.report.damaged),
    }


def _write(request: _ImportCommand, plan: Plan, reactor: Any) -> dict[str, Any]:
    if reactor is None:
        from twisted.internet import reactor
    outcome: list[Any] = []
    ended: Deferred[None] = Deferred()
    signalled: list[bool] = []

    def begin() -> None:
        trigger = reactor.addSystemEventTrigger("before", "shutdown", stop)
        running = ensureDeferred(_imported(request, plan, reactor, lambda: bool(signalled)))
        running.addBoth(done, trigger)

    def stop() -> Deferred[None]:
        # A signal calls this. The threads of the store must end before the process can.
        signalled.append(True)
        return ended

    def done(result: Any, trigger: Any) -> None:
        outcome.append(result)
        ended.callback(None)
        if not signalled:
            reactor.removeSystemEventTrigger(trigger)
            reactor.stop()

    reactor.callWhenRunning(begin)
    reactor.run()
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    answer: dict[str, Any] = outcome[0]
    return answer


async def _imported(
    request: _ImportCommand, plan: Plan, reactor: Any, isStopped: Callable[[], bool]
) -> dict[str, Any]:
    # No broker runs. This has only the attributes of an IBrokerHost that open the store.
    host: Any = SimpleNamespace(reactor=reactor, settings=request.settings)
    store = await storeMaker(host, request.streaming, Plugins())()
    try:
        importer = Importer(store, request.streaming.cluster_id, isStopped)
        isNew = await importer.run(plan)
        return {"imported": True, "already": not isNew, "written": importer.written}
    finally:
        await store.close()
