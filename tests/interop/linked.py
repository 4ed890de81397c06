"""
Servers that are linked with others, as real processes, and clients that exchange messages through
them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from tests.interop.plainclients import Client
from tests.interop.servers import OURS, PATIENCE, Flavour, Server

__all__ = ["Circle", "LinkedServer", "filled"]


BUSY = ("Readloop processing time", "took too long")
"""Complaints of nats-server about itself on a machine that lets it wait for a processor."""


def filled(text: str, **values: object) -> str:
    """A configuration in which the values replace each C{$NAME}."""
    for key, value in values.items():
        text = text.replace(f"${key}", str(value))
    return text


class LinkedServer(Server):
    """
    A server that is linked with others.

    @cvar EXPECTED: lines that it may log besides notices.
    @ivar name: its name.
    """

    EXPECTED: tuple[str, ...] = ("Plaintext passwords detected",)

    def __init__(self, flavour: Flavour, directory: Path, name: str) -> None:
        super().__init__(flavour, directory)
        self.name = name
        self._before = ""

    def halt(self) -> None:
        """Stop the server, which may be started again later."""
        self._before += self.log()
        self.stop()
        self._lines.clear()

    def restart(self) -> None:
        self.halt()
        self.start()

    def complaints(self, allowed: Sequence[str] = ()) -> list[str]:
        """
        @return: the lines of the log that are neither notices nor expected.
        """
        known = (*self.EXPECTED, *allowed, *(() if self.flavour in OURS else BUSY))
        log = self._before + self.log()
        lines = [line for line in log.splitlines() if re.search(r"\[(ERR|WRN|FTL)\]", line)]
        return [line for line in lines if not any(text in line for text in known)]


class Circle:
    """
    Servers that messages pass between, with a client of each.

    @ivar clients: the clients, at the indexes of their servers.
    """

    def __init__(self, servers: Sequence[tuple[Server, str]]) -> None:
        """
        @param servers: the servers, each with the user of its client.
        """
        self.clients: list[Client] = []
        self._servers = list(servers)
        self._inboxes: list[bytes] = []
        self._round = 0

    def connect(self, place: int) -> None:
        """Connect a client to a server, in place of an earlier one."""
        client = Client(*self._servers[place])
        inbox = client.subscribe(b"sync")
        if place < len(self.clients):
            self.clients[place].close()
            self.clients[place], self._inboxes[place] = client, inbox
        else:
            self.clients.append(client)
            self._inboxes.append(inbox)

    def form(self) -> None:
        """
        Wait until all clients receive each other's messages.

        @raise TimeoutError: if that does not happen in time.
        """
        deadline = time.monotonic() + PATIENCE
        self._round += 1
        missing = {
            (one, other) for one in range(len(self.clients)) for other in range(len(self.clients))
        }
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no message passes from and to {sorted(missing)}")
            for place, client in enumerate(self.clients):
                client.publish(b"sync", b"%d %d" % (self._round, place))
                client.flush()
            time.sleep(0.02)
            for place, client in enumerate(self.clients):
                for body in client.arrived(self._inboxes[place]):
                    number, sender = map(int, body.split())
                    if number == self._round:
                        missing.discard((sender, place))
        self.sync()

    def sync(self) -> None:
        """Wait until every member has handled the earlier lines of every other one."""
        self._round += 1
        for place, client in enumerate(self.clients):
            client.flush()
            client.publish(b"sync", b"%d %d" % (self._round, place))
        for place, client in enumerate(self.clients):
            wanted = {b"%d %d" % (self._round, sender) for sender in range(len(self.clients))}
            while wanted:
                (body,) = client.take(self._inboxes[place], 1)
                wanted.discard(body)

    def close(self) -> None:
        """Close all clients."""
        for client in self.clients:
            client.close()
