"""
One measurement of one server: what is run against it and which figures that yields.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from benchmarks.generator import Generator, GeneratorFailed
from benchmarks.machine import syncedWrite
from benchmarks.operationrows import LISTED
from benchmarks.processes import peakMemory, settledMemory, settledWork
from benchmarks.processes import work as workOf
from benchmarks.rows import Row
from benchmarks.servers import Server
from benchmarks.settings import MAX_PENDING, SETTINGS

__all__ = ["KINDS", "Sample", "measure"]

WARMING = 0.2
"""Seconds of requests that are not counted."""

FEW = 10
"""The number of other streams that are few."""


@dataclass(frozen=True)
class Sample:
    """
    The result of one measurement.

    @ivar figures: by L{benchmarks.rows.Figure.key}.
    @ivar notes: how many processors' worth of work the generator, its busiest thread and the server
        did, and the microseconds of a synced write to the disk; only what is known.
    """

    figures: Mapping[str, float]
    notes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """
    The terms of a measurement.

    @ivar load: the row's arguments for the generator and the setting's credentials.
    @ivar seconds: how long to load the server.
    @ivar wanted: the keys of the row's figures.
    """

    generator: Generator
    server: Server
    load: tuple[str, ...]
    seconds: float
    wanted: frozenset[str] = frozenset()


def notesOf(report: Mapping[str, float]) -> dict[str, float]:
    """
    @return: the report's figures of processor use that are known.
    """
    names = ("generator_cores", "busiest_thread", "server_cores")
    return {name: report[name] for name in names if report.get(name, -1) >= 0}


def argument(load: tuple[str, ...], name: str) -> int:
    """
    @return: the number that stands after C{name}.
    """
    return int(load[load.index(name) + 1])


def measureTraffic(work: Work) -> Sample:
    """
    @return: messages a second: received, or published where nobody subscribes.
    """
    server = work.server
    report = work.generator.run("traffic", server.port, server.pid, work.load, work.seconds)
    lost = int(report["lost"])
    if report["disconnected"]:
        raise GeneratorFailed(f"a subscriber was disconnected, {lost:,} messages missing")
    if lost:
        raise GeneratorFailed(f"{abs(lost):,} messages {'lost' if lost > 0 else 'too many'}")
    rate = report["receive_rate"] if "--subscribers" in work.load else report["publish_rate"]
    return Sample({"rate": rate}, notesOf(report))


def measureRequests(work: Work) -> Sample:
    """
    @return: the latency of round trips, in microseconds.
    """
    load = (*work.load, "--warmup", str(WARMING))
    server = work.server
    report = work.generator.run("request", server.port, server.pid, load, work.seconds)
    return Sample({"p50": report["p50_us"], "p99": report["p99_us"]}, notesOf(report))


def growth(work: Work, mode: str) -> int:
    """
    @return: how many bytes the server's memory grew when the generator reached its state.
    """
    server = work.server
    before = settledMemory(server.pid)
    with work.generator.hold(mode, server.port, server.pid, work.load):
        return settledMemory(server.pid) - before


def measureIdle(work: Work) -> Sample:
    """
    @return: KiB of resident memory for each idle connection.
    """
    connections = argument(work.load, "--connections")
    return Sample({"memory": growth(work, "idle") / connections / (1 << 10)})


def measureSubscriptions(work: Work) -> Sample:
    """
    @return: MiB of resident memory for 100,000 subscriptions, with the connections they came by.
    """
    scale = 100_000 / argument(work.load, "--count")
    return Sample({"memory": growth(work, "subscriptions") * scale / (1 << 20)})


def measureInterest(work: Work) -> Sample:
    """
    @return: the milliseconds of processor time in which the second server takes the interest of
        subscriptions at the first one.
    """
    server, far = work.server, work.server.far
    if far is None:
        raise GeneratorFailed("there is no second server")
    before = settledWork(far.pid)
    with work.generator.hold("subscriptions", server.port, server.pid, work.load):
        spent = settledWork(far.pid) - before
    if not spent:
        raise GeneratorFailed("the second server was told of nothing")
    return Sample({"work": spent * 1e3})


def measureStorm(work: Work) -> Sample:
    """
    @return: connections a second, how many of them answer at the end, and the 99th percentile of
        PING for established clients in milliseconds.
    """
    server = work.server
    report = work.generator.run("storm", server.port, server.pid, work.load, work.seconds)
    figures = {
        "rate": report["rate"],
        "answering": report["answering"],
        "ping_p99": report["ping_p99_us"] / 1e3,
    }
    return Sample(figures, notesOf(report))


def measureStalled(work: Work) -> Sample:
    """
    @return: peak memory over the sum of what all stalled subscribers may hold, and how a subscriber
        that reads fared meanwhile.
    """
    server = work.server
    limits = MAX_PENDING * argument(work.load, "--connections")
    before = settledMemory(server.pid)
    seconds = max(4 * work.seconds, 4.0)
    with work.generator.hold("stalled", server.port, server.pid, work.load, seconds) as report:
        peak = peakMemory(server.pid)
    figures = {
        "limits": (peak - before) / limits,
        "gap": report["longest_gap"] * 1e3,
        "healthy": report["healthy"] / report["seconds"],
    }
    return Sample(figures)


def measureStore(work: Work) -> Sample:
    """
    Write first the data that other servers wrote before and left unsynced: a file system that keeps
    data in order makes the next sync wait for all of it.

    @return: acknowledged messages a second, and the 99th percentile of PING for another client
        meanwhile, in milliseconds.
    """
    server = work.server
    os.sync()
    report = work.generator.run("store", server.port, server.pid, work.load, work.seconds)
    figures = {"rate": report["rate"], "ping_p99": report["ping_p99_us"] / 1e3}
    return Sample(figures, notesOf(report))


def measureReplay(work: Work) -> Sample:
    """
    @return: stored messages a second that one subscriber is delivered and acknowledges.
    """
    server = work.server
    report = work.generator.run("replay", server.port, server.pid, work.load, work.seconds)
    figures = {"rate": report["rate"]}
    if "ping_p99" in work.wanted:
        figures["ping_p99"] = report["ping_p99_us"] / 1e3
    return Sample(figures, notesOf(report))


def measureRequested(work: Work, mode: str) -> Sample:
    """
    @return: what C{mode} of the generator does a second, and its latency in microseconds; of these
        what the row wants.
    """
    server = work.server
    os.sync()
    report = work.generator.run(mode, server.port, server.pid, work.load, work.seconds)
    figures = {"rate": report["rate"], "p50": report["p50_us"]}
    return Sample({key: figures[key] for key in figures if key in work.wanted}, notesOf(report))


def measureOrdered(work: Work) -> Sample:
    """
    @return: stored messages a second that an ordered consumer is delivered, and the 99th percentile
        of PING for another client meanwhile, in milliseconds.
    """
    server = work.server
    report = work.generator.run("ordered", server.port, server.pid, work.load, work.seconds)
    figures = {"rate": report["rate"], "ping_p99": report["ping_p99_us"] / 1e3}
    return Sample(figures, notesOf(report))


def measureAssets(work: Work) -> Sample:
    """
    @return: the processors that streams and consumers keep busy while nobody uses them, and by how
        many MiB the server's own memory grew for them.
    """
    server = work.server
    before = settledMemory(server.pid, "RssAnon")
    with work.generator.hold("assets", server.port, server.pid, work.load):
        grown = settledMemory(server.pid, "RssAnon") - before
        spent, seconds = settledWork(server.pid), max(4 * work.seconds, 2.0)
        time.sleep(seconds)
        cores = (workOf(server.pid) - spent) / seconds
    return Sample({"cores": max(cores, 1e-4), "memory": max(grown, 1 << 16) / (1 << 20)})


def costOf(work: Work, mode: str) -> dict[str, float]:
    """
    @return: the report of operations, whose cost to the server is known.
    """
    server = work.server
    os.sync()
    report = work.generator.run(mode, server.port, server.pid, work.load, work.seconds)
    if report["cost_us"] <= 0:
        raise GeneratorFailed(f"process {server.pid} did nothing: it is not the server")
    return report


def measureOperations(work: Work, mode: str) -> Sample:
    """
    @return: the microseconds of the server's processor time for each operation, all threads, and
        how many were done a second; of these what the row wants.
    """
    report = costOf(work, mode)
    known = {"cost": report["cost_us"], "rate": report["rate"]}
    return Sample({key: known[key] for key in known if key in work.wanted}, notesOf(report))


def measureLists(work: Work) -> Sample:
    """
    @return: the microseconds of processor time of operations beside many other streams, and by how
        much more that is than beside few.
    """
    server = work.server
    figures: dict[str, float] = {}
    for others in (FEW, argument(work.load, "--others")):
        streams = ("--connections", str(others), "--count", "1")
        with work.generator.hold("assets", server.port, server.pid, streams):
            pass
        for name, count in LISTED.items():
            load = ("--operation", name, "--count", str(count), "--others", str(others))
            cost = costOf(replace(work, load=(*work.load, *load)), "operate")["cost_us"]
            figures[f"{name}_growth"] = cost / figures.get(name, cost)
            figures[name] = cost
    return Sample(figures)


def measureLength(work: Work) -> Sample:
    """
    @return: by how many MiB the server's own memory grows while a stream becomes ten times as long.
        What is mapped from files does not count: the kernel takes it back when it wants to. Less
        than 64 KiB counts as so much.
    """
    server = work.server
    count = argument(work.load, "--count")
    place = work.load.index("--count")
    before = 0
    for share in (count // 10, count - count // 10):
        load = (*work.load[:place], "--count", str(share), *work.load[place + 2 :])
        work.generator.run("store", server.port, server.pid, load, work.seconds)
        after = settledMemory(server.pid, "RssAnon")
        before = before or after
    return Sample({"memory": max(after - before, 1 << 16) / (1 << 20)})


def measureRestart(work: Work) -> Sample:
    """
    @return: seconds from starting a server that was killed until it serves what it has stored.
    """
    server = work.server
    if server.restart is None:
        raise GeneratorFailed("the server cannot be started again")
    work.generator.run("store", server.port, server.pid, work.load, work.seconds)
    began = time.monotonic()
    again = server.restart()
    work.generator.run("answer", again.port, again.pid, (), work.seconds)
    return Sample({"seconds": time.monotonic() - began})


KINDS: Mapping[str, Callable[[Work], Sample]] = {
    "traffic": measureTraffic,
    "request": measureRequests,
    "idle": measureIdle,
    "subscriptions": measureSubscriptions,
    "interest": measureInterest,
    "storm": measureStorm,
    "stalled": measureStalled,
    "store": measureStore,
    "replay": measureReplay,
    "keys": lambda work: measureRequested(work, "put"),
    "gets": lambda work: measureRequested(work, "get"),
    "batches": lambda work: measureRequested(work, "batch"),
    "ordered": measureOrdered,
    "assets": measureAssets,
    "operate": lambda work: measureOperations(work, "operate"),
    "sparse": lambda work: measureOperations(work, "sparse"),
    "lists": measureLists,
    "length": measureLength,
    "restart": measureRestart,
}


def measure(generator: Generator, server: Server, row: Row, setting: str, seconds: float) -> Sample:
    """
    @param setting: the name of the configuration that the server runs with.
    @param seconds: how long to load the server, where the row does that.
    @return: the row's figures.
    @raise GeneratorFailed: if they cannot be had.
    """
    load = (*row.load, *SETTINGS[setting].load, *server.farLoad)
    wanted = frozenset(figure.key for figure in row.figures)
    disk = {"synced_write": syncedWrite()} if SETTINGS[setting].stores else {}
    sample = KINDS[row.kind](Work(generator, server, load, seconds, wanted))
    return replace(sample, notes={**sample.notes, **disk})
