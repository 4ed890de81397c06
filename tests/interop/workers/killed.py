"""
Clients of a server whose workers are killed under load, one after another. JetStream and NATS
Streaming keep what they acknowledged, only clients of the killed worker lose their connections, and
each connection is served or closed.

C{python -m tests.interop.workers.killed DIRECTORY KILLS SEED WORKERS} does any number of kills.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from natsbroker.jetstream.cluster.streamplaces import FOLDER, TABLE
from tests.interop.jetstream.killed import STORAGE, Api, Lost, Unserved, Work
from tests.interop.jetstream.killedqueues import Queues
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, PATIENCE, Server
from tests.interop.workers.support import Workers
from tests.storage.brokers import Journal, compare, load

__all__ = ["Kill", "KilledWorkers", "killWorkers"]

STREAMING = 'streaming { store: file, dir: "$DIR/channels" }'

FRESH = 20
"""The kills of one server."""

LISTENERS = 8
"""The clients with a subscription to what one of them publishes."""

STREAMS = ("LIMITS", "QUEUE", "INTEREST", "JOBS", "VALUES", "PURGED")
"""Those that are there all the time."""

GLANCE = 0.01

STANDING = 0.1
"""The seconds that a worker stands still before it is killed."""

ASKING = 0.05
"""The seconds after which a question is repeated."""

_CLOSED = (ConnectionError, TimeoutError, OSError)

_DISCOVER = "_STAN.discover.test-cluster"


@dataclass(frozen=True)
class Kill:
    """
    @ivar isStopped: whether the worker was paused first, so that connections were in transit.
    @ivar pause: the seconds that the parent waited before it started the next worker.
    @ivar ready: the seconds until the next worker was ready.
    @ivar waited: the seconds of these in which it waited for a processor.
    @ivar served: the seconds until all streams and NATS Streaming answered.
    @ivar lost: the number of clients that lost their connections.
    @ivar greeted: the connections in this time that were served.
    @ivar closed: the connections in this time that were closed.
    """

    worker: int
    isStopped: bool
    pause: float
    ready: float
    waited: float
    served: float
    lost: int
    greeted: int
    closed: int


class Callers:
    """
    Clients that connect and disconnect all the time. Each is served, or its connection is closed.
    """

    def __init__(self, port: int, count: int = 2) -> None:
        self.outcomes: Counter[str] = Counter()
        self._port = port
        self._isOver = False
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._isOver:
            self.outcomes[self._call()] += 1
            time.sleep(GLANCE)

    def _call(self) -> str:
        with socket.create_connection(("127.0.0.1", self._port), PATIENCE) as connection:
            try:
                connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
                answer = b""
                while data := connection.recv(1 << 16):
                    answer += data
                    if answer.endswith(b"PONG\r\n"):
                        return "served"
            except TimeoutError:
                return "forgotten"
            except ConnectionError:
                pass  # As good as an orderly end.
            return "closed"

    def stop(self) -> None:
        """
        @raise Lost: if a connection was neither served nor closed.
        """
        self._isOver = True
        for thread in self._threads:
            thread.join()
        if self.outcomes["forgotten"]:
            raise Lost(f"connections were neither served nor closed: {self.outcomes}")


class Crowd:
    """
    Subscribers, one of which publishes. Those at running workers receive every message in order.
    """

    def __init__(self, server: Server) -> None:
        self.clients = [Client(server) for _ in range(LISTENERS)]
        self._sids = [client.subscribe(b"crowd") for client in self.clients]
        self._number = 0

    def publish(self, count: int) -> None:
        # The publisher's worker may be the one that was killed.
        with contextlib.suppress(ConnectionError):
            for _ in range(count):
                self._number += 1
                self.clients[0].publish(b"crowd", b"%d" % self._number)

    def compare(self, living: list[Client]) -> None:
        """
        @param living: clients whose workers are running, including the publisher.
        @raise Lost: if one of them has lost its connection or a message.
        """
        wanted = [b"%d" % number for number in range(1, self._number + 1)]
        for client, sid in zip(self.clients, self._sids, strict=True):
            if client not in living:
                continue
            try:
                received = client.take(sid, self._number)
            except _CLOSED as error:
                raise Lost(f"a client of another worker is in trouble: {error!r}") from error
            if received != wanted:
                raise Lost("a client of another worker has not all messages, or in another order")

    def close(self) -> None:
        for client in self.clients:
            client.close()


class StreamingLoad:
    """
    Clients of NATS Streaming, in a thread.
    """

    def __init__(self, port: int, journal: Journal) -> None:
        self._loop = asyncio.new_event_loop()
        self._work = self._loop.create_task(load(port, journal, None, 10 * PATIENCE))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        # Its connection may end with the worker; what was acknowledged is compared later.
        with contextlib.suppress(asyncio.CancelledError, Exception):
            self._loop.run_until_complete(self._work)
        self._loop.close()

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # It has ended by itself.
            self._loop.call_soon_threadsafe(self._work.cancel)
        self._thread.join()


@dataclass
class KilledWorkers(Queues):
    """
    @ivar kills: the figures of each kill.
    @ivar journal: the knowledge of clients of NATS Streaming.
    """

    kills: list[Kill] = field(default_factory=list)
    journal: Journal = field(default_factory=Journal)
    _apis: list[Api] = field(default_factory=list)
    _unserved: list[str] = field(default_factory=list)
    _cut: list[Client] = field(default_factory=list)
    _isOver: bool = False

    def round(self, seconds: float) -> None:
        """Work for some time, then kill a worker, wait for the next one, and compare."""
        self._isOver = False
        self._apis, self._unserved, self._cut = [], [], []
        threads = self._begin()
        streaming = StreamingLoad(self.server.port, self.journal)
        crowd = Crowd(self.server)
        callers = Callers(self.server.port)
        try:
            self._work(seconds, crowd, len(threads))
            self._kill(crowd, callers)
        finally:
            self._isOver = True
            for api in self._apis:
                api.client.hangUp()
            streaming.stop()
            callers.stop()
            crowd.close()
            self._join(threads)
        self._present.clear()
        self._settle()
        self.compare()
        asyncio.run(compare(self.server.port, self.journal))

    def _run(self, work: Work, random: Random) -> None:
        try:
            api = Api(self.server)
            self._apis.append(api)
            while True:
                work(api, random)
        except Unserved as error:
            self._unserved.append(str(error))
        except _CLOSED:
            if not self._isOver:
                self._cut.append(api.client)
        except BaseException as error:
            self.problems.append(error)

    def _work(self, seconds: float, crowd: Crowd, clients: int) -> None:
        began = time.monotonic()
        acknowledged = self.journal.count
        while (
            time.monotonic() < began + seconds
            or self.journal.count == acknowledged
            or len(self._apis) < clients
        ):
            crowd.publish(1)
            time.sleep(GLANCE)
            if self.problems:
                raise self.problems[0]
            if self._unserved or self._cut:
                raise Lost(f"no worker was killed, and there is trouble: {self._unserved}")
            if time.monotonic() > began + PATIENCE:
                raise Lost("there is no load")

    def _kill(self, crowd: Crowd, callers: Callers) -> None:
        workers = Workers(self.server)
        clients = [*crowd.clients, *(api.client for api in self._apis)]
        places = workers.placesOf([client.port for client in clients])
        pids = workers.pids()
        victim = self.random.choice(pids)
        since, before = self.server.logLength(), Counter(callers.outcomes)
        isStopped = self.random.random() < 0.5
        if isStopped:
            os.kill(victim, signal.SIGSTOP)
            crowd.publish(10)
            time.sleep(STANDING)
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        crowd.publish(100)
        ended = self.server.waitForLog(rf"Worker (\d+) \(pid {victim}\) .*in ([\d.]+)s", since)
        number = int(ended[1])
        homes = self._homes()
        self._serve(stream for stream in STREAMS if homes[stream] != number)
        self.server.waitForLog(rf"Worker {number} is ready", since)
        ready = time.monotonic()
        (other,) = set(workers.pids()) - set(pids)
        waited = int(Path(f"/proc/{other}/schedstat").read_text().split()[1]) / 1e9
        self._serve(STREAMS, [_DISCOVER])
        served = time.monotonic()
        living = [client for client, place in zip(clients, places, strict=True) if place != victim]
        if crowd.clients[0] in living:
            crowd.compare(living)
        if cut := [client for client in self._cut if client in living]:
            raise Lost(f"{len(cut)} clients of other workers lost their connections")
        for subject in self._unserved:
            if homes.get(_streamOf(subject)) != number:
                raise Lost(f"{subject} was served by nobody, and its worker lives")
        outcomes = callers.outcomes - before
        self.kills.append(
            Kill(
                number,
                isStopped,
                float(ended[2]),
                ready - killed,
                waited,
                served - killed,
                len(clients) - len(living),
                outcomes["served"],
                outcomes["closed"],
            )
        )

    def _settle(self) -> None:
        """Wait for changes of streams that clients have requested without waiting."""
        api = Api(self.server)
        api.ask("STREAM.CREATE.SETTLED", name="SETTLED", subjects=["SETTLED"])
        api.client.close()

    def _homes(self) -> dict[str, int]:
        """The worker of each stream."""
        table = self.server.directory / "js" / "jetstream" / FOLDER / TABLE
        with closing(sqlite3.connect(table)) as connection:
            rows = connection.execute("SELECT config, worker FROM stream").fetchall()
        return {json.loads(config)["config"]["name"]: worker for config, worker in rows}

    def _serve(self, streams: Iterable[str], subjects: Iterable[str] = ()) -> None:
        """
        Send requests until all streams and NATS Streaming have answered.

        @raise Lost: if one does not.
        """
        client = Client(self.server)
        for subject in (*(f"$JS.API.STREAM.INFO.{stream}" for stream in streams), *subjects):
            reply = b"_INBOX.probe.%b" % subject.encode()
            sid, end = client.subscribe(reply), time.monotonic() + PATIENCE
            while not _isAnswered(client, subject, reply, sid):
                if time.monotonic() > end:
                    raise Lost(f"{subject} has no answer")
        client.close()


def _isAnswered(client: Client, subject: str, reply: bytes, sid: bytes) -> bool:
    client.publish(subject.encode(), b"", reply)
    try:
        [(_, headers, _)] = client.messages(sid, 1, ASKING)
    except TimeoutError:
        return False
    time.sleep(GLANCE if headers else 0)
    return not headers


def _streamOf(subject: str) -> str:
    """The stream of a message or an acknowledgement."""
    words = subject.split(".")
    return words[2] if words[0] == "$JS" else words[0]


def killWorkers(directory: Path, kills: int, seed: int, count: int) -> list[Kill]:
    """
    Kill workers of one server after another.

    @param count: the number of workers.
    @return: the figures of all kills.
    """
    done: list[Kill] = []
    config = STORAGE.replace("$INTERVAL", "always") + "\n" + STREAMING
    while len(done) < kills:
        folder = directory / str(len(done))
        folder.mkdir(parents=True)
        server = Server(OURS_FAST, folder, config, ["--workers", str(count)]).start()
        try:
            workload = KilledWorkers(server, Random(f"{seed}/{len(done)}"))
            workload.prepare()
            for _ in range(min(FRESH, kills - len(done))):
                workload.round(workload.random.uniform(0.05, 1.0))
                print(workload.kills[-1], flush=True)
            workload.finish()
        except BaseException:
            print(server.log(), flush=True)
            raise
        finally:
            status = server.stop()
        if status:
            raise Lost(f"the server ended with status {status}")
        done += workload.kills
        shutil.rmtree(folder)
    return done


def _report(kills: list[Kill]) -> None:
    for title, times in (
        ("ready", [kill.ready for kill in kills]),
        ("ready, but for waits for a processor", [kill.ready - kill.waited for kill in kills]),
        ("all served", [kill.served for kill in kills]),
    ):
        times.sort()
        shown = ", ".join(
            f"{name} {times[int(share * (len(times) - 1))]:.2f}"
            for name, share in (("median", 0.5), ("90 %", 0.9), ("most", 1))
        )
        print(f"seconds until {title}: {shown}")
    print(f"{len(kills)} kills, {sum(kill.ready <= 2 for kill in kills)} ready within 2 seconds")
    print(f"clients that lost their connection: {sum(kill.lost for kill in kills)}")
    greeted, closed = sum(kill.greeted for kill in kills), sum(kill.closed for kill in kills)
    print(f"connections meanwhile: {greeted} served, {closed} closed, none forgotten")


if __name__ == "__main__":
    _report(killWorkers(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
