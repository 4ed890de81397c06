"""
The kinds of logs that the data source reads, for tests that hold for all of them: streams of
nats-server, such with three replicas, and channels of our broker.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.logs.apis import StreamApi, StreamState
from natsbroker.spark.logs.planning import Logs, logsOf
from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from natsbroker.spark.nats.connection import connect
from tests.interop.servers import PATIENCE, REAL, Server
from tests.spark.support import BrokerStation, Station, Stream

__all__ = ["KEPT", "ChannelKind", "Cluster", "Kind", "StreamKind", "waitFor"]

#: How many messages a channel keeps that is made to lose some.
KEPT = 10

_CLUSTER = (
    "server_name: $NAME\n"
    "jetstream { store_dir: $DIR/js, max_memory_store: 64MB, max_file_store: 64MB }\n"
    "cluster { name: c, listen: 127.0.0.1:$PORT, routes: [ $ROUTES ] }\n"
)


def waitFor(isThere: Callable[[], bool]) -> None:
    """
    @raise TimeoutError: if the condition is not true within a minute.
    """
    deadline = time.monotonic() + 60
    while not isThere():
        if time.monotonic() > deadline:
            raise TimeoutError("it does not come")
        time.sleep(0.02)


class Kind:
    """
    The common part of all kinds.

    @ivar option: the option that names such a log.
    @ivar url: where the servers are.
    """

    option = ""
    url = ""
    _numbers = itertools.count(1)

    def make(self, payloads: Iterable[bytes] = (), isKept: bool = False) -> str:
        """
        A new log with messages in it.

        @param isKept: whether L{trim} will be asked for.
        """
        raise NotImplementedError

    def fill(self, name: str, payloads: Iterable[bytes]) -> None:
        """
        Store more.
        """
        raise NotImplementedError

    def trim(self, name: str, first: int) -> None:
        """Remove the messages before a sequence."""
        raise NotImplementedError

    def options(self, *names: str, **more: str) -> dict[str, str]:
        """
        The options that name some logs.
        """
        return {"servers": self.url, self.option: ",".join(names), **more}

    def logs(self, ask: Callable[[Logs], StreamState]) -> StreamState:
        """
        Ask over a connection of its own.
        """
        with connect(ServerAccess(readAddresses(self.url))) as connection:
            return ask(logsOf(connection, {"channel": self.option == "channel", **_SCOPE}))

    def state(self, name: str) -> StreamState:
        """
        The state of a log.
        """
        return self.logs(lambda logs: logs.state(name))


_SCOPE = {"clusterId": "test-cluster", "domain": ""}


class StreamKind(Kind):
    """
    Streams of nats-server.
    """

    option = "stream"

    def __init__(self, station: Station | Cluster, **config: Any) -> None:
        self.url = station.url
        self.connection = station.connection
        self._config = config

    def make(self, payloads: Iterable[bytes] = (), isKept: bool = False) -> str:
        name = f"K{next(self._numbers)}"
        self.again(name, payloads)
        return name

    def fill(self, name: str, payloads: Iterable[bytes]) -> None:
        given = list(payloads)
        if given:
            Stream(self.connection, name).fill(given)

    def trim(self, name: str, first: int) -> None:
        Stream(self.connection, name).api("PURGE", {"seq": first})

    def delete(self, name: str) -> None:
        """
        Delete a stream.
        """
        Stream(self.connection, name).api("DELETE")

    def again(self, name: str, payloads: Iterable[bytes]) -> None:
        """Create a log of the same name."""
        stream = Stream(self.connection, name)
        stream.make(**self._config)
        deadline = time.monotonic() + PATIENCE
        while not stream.isReached():
            assert time.monotonic() < deadline, f"nothing reaches {name}"
            time.sleep(0.01)
        self.fill(name, payloads)


class ChannelKind(Kind):
    """
    Channels of our broker.

    It must have the limits L{LIMITS}.
    """

    option = "channel"

    #: Of what L{make} calls C{kept}.
    LIMITS = f'store_limits {{ max_channels: 0, channels {{ "kept.>" {{ max_msgs: {KEPT} }} }} }}'

    def __init__(self, broker: BrokerStation) -> None:
        self.url = broker.url
        self._broker = broker

    def make(self, payloads: Iterable[bytes] = (), isKept: bool = False) -> str:
        return self._broker.channel(payloads, f"{'kept' if isKept else 'k'}.{next(self._numbers)}")

    def fill(self, name: str, payloads: Iterable[bytes]) -> None:
        self._broker.fill(name, payloads)

    def trim(self, name: str, first: int) -> None:
        """Trim the channel by publishing further messages."""
        stop = self.state(name).stop
        self.fill(name, [b"more"] * (first + KEPT - stop))


class Cluster:
    """
    Three nats-servers in a cluster.

    @ivar url: all of them.
    @ivar connection: for the test's own requests.
    """

    def __init__(self, directory: Path) -> None:
        ports = _freePorts(3)
        routes = ", ".join(f"nats://127.0.0.1:{portNumber}" for portNumber in ports)
        self.servers = []
        for place, port in enumerate(ports):
            own = directory / f"n{place}"
            own.mkdir()
            config = _CLUSTER.replace("$NAME", f"n{place}").replace("$PORT", str(port))
            self.servers.append(Server(REAL, own, config.replace("$ROUTES", routes)))
        try:
            starts = [threading.Thread(target=server.start) for server in self.servers]
            for start in starts:
                start.start()
            for start in starts:
                start.join()
            self.url = ",".join(server.url for server in self.servers)
            self.peer = ServerAccess(readAddresses(self.url), requestTimeout=1.0)
            self._waitForMeta()
            self.connection = connect(ServerAccess(readAddresses(self.url)))
        except BaseException:
            self.stop()
            raise

    def _waitForMeta(self) -> None:
        """
        Wait until a stream with three replicas can be made.
        """
        question = {"name": "R", "subjects": ["R.>"], "storage": "memory", "num_replicas": 3}
        answer: dict[str, Any] = {}
        for _ in range(int(PATIENCE * 5)):
            try:
                with connect(self.peer) as connection:
                    StreamApi(connection).call("STREAM.CREATE.R", question, "R")
                return
            except (ApiError, DataSourceError) as error:
                answer = {"error": str(error)}
            time.sleep(0.2)
        raise TimeoutError(f"the cluster does not begin: {answer}")

    def stop(self) -> None:
        """
        Stop them all.
        """
        for server in self.servers:
            server.stop()

    def close(self) -> None:
        """
        End.
        """
        self.connection.close()
        self.stop()


def _freePorts(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(peer.getsockname()[1]) for peer in sockets]
    for peer in sockets:
        peer.close()
    return ports
