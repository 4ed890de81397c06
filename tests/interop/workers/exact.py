"""
Clients of linked servers that each must get every message once, or for a queue group one of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from tests.interop.plainclients import Client
from tests.interop.servers import PATIENCE, Server

PAUSE = 0.05

EACH = 20
"""The messages of each client."""


def waitUntil(isSo: Callable[[], object], show: Callable[[], object] = lambda: None) -> None:
    """
    Wait for something to be so, for as long as a busy machine may need.

    @param show: gives what is shown of a failure.
    """
    deadline = time.monotonic() + PATIENCE
    while not isSo():
        assert time.monotonic() < deadline, show()
        time.sleep(PAUSE)


class Crowd:
    """
    Clients of several servers.

    @ivar clients: all clients, those of each server in a row.
    """

    def __init__(self, places: Sequence[tuple[Server, int]]) -> None:
        """
        @param places: servers, each with the number of its clients.
        """
        self.clients = [Client(server) for server, count in places for _ in range(count)]
        self._plain = [client.subscribe(b"all.>") for client in self.clients]
        self._grouped = [client.subscribe(b"one.>", b"q") for client in self.clients]
        self._round = 0

    def meet(self) -> None:
        """Wait until a message of each client reaches every other one."""
        self._round += 1
        missing = {(sender, place) for sender in self._places for place in self._places}

        def isMet() -> bool:
            for place, bodies in self._arrived(self._plain).items():
                missing.difference_update((int(body), place) for body in bodies if b" " not in body)
            for sender in {sender for sender, _ in missing}:
                self.clients[sender].publish(b"all.%d" % self._round, b"%d" % sender)
            return not missing

        waitUntil(isMet, lambda: f"these do not hear each other: {sorted(missing)}")
        # Take messages until no more come.
        waitUntil(lambda: not self._come())

    @property
    def _places(self) -> range:
        return range(len(self.clients))

    def _arrived(self, sids: Sequence[bytes]) -> dict[int, list[bytes]]:
        return {
            place: client.arrived(sid)
            for place, (client, sid) in enumerate(zip(self.clients, sids, strict=True))
        }

    def _come(self) -> list[bytes]:
        """Everything that has come since the last call."""
        arrived = [*self._arrived(self._plain).values(), *self._arrived(self._grouped).values()]
        return [body for bodies in arrived for body in bodies]

    def check(self) -> None:
        """
        Publish from each client, and check that all get everything once, and one member of a group
        each message.
        """
        expected = sorted(
            b"%d %d" % (place, number) for place in self._places for number in range(EACH)
        )
        for number in range(EACH):
            for place, client in enumerate(self.clients):
                client.publish(b"all.x", b"%d %d" % (place, number))
                client.publish(b"one.x", b"%d %d" % (place, number))
        for client in self.clients:
            client.flush()
        plain: dict[int, list[bytes]] = {place: [] for place in self._places}
        grouped: list[bytes] = []

        def haveCome() -> bool:
            for place, bodies in self._arrived(self._plain).items():
                plain[place] += bodies
            grouped.extend(body for some in self._arrived(self._grouped).values() for body in some)
            counts = [len(grouped), *map(len, plain.values())]
            return min(counts) >= len(expected)

        waitUntil(haveCome, lambda: f"the group got {len(grouped)}, others {plain}")
        # Duplicates would come soon.
        time.sleep(4 * PAUSE)
        haveCome()
        for place in self._places:
            assert sorted(plain[place]) == expected, f"client {place}"
        assert sorted(grouped) == expected

    def close(self) -> None:
        for client in self.clients:
            client.close()


@contextlib.contextmanager
def crowd(*places: tuple[Server, int]) -> Iterator[Crowd]:
    """Clients that receive each other's messages."""
    made = Crowd(places)
    try:
        made.meet()
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def running(*servers: Server) -> Iterator[None]:
    """Start servers one by one, and stop them in the opposite order."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            server.start()
            stack.callback(server.stop)
        yield
