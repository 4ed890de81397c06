"""
nats-server and natsbroker with the same configurations, one after the other.

A difference that no allowance explains is reported with the attempt, both answers, and a command
that repeats it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop.allowances import explained
from tests.interop.auth.differential.attempts import Change, Matter, Script, conversation
from tests.interop.auth.differential.caller import converse
from tests.interop.servers import REAL, Flavour, Server

__all__ = ["Comparison", "Difference"]

#: A difference must show every time: a server may be busy forgetting the clients before.
_TIMES = 4

_NOTHING = "# nothing\n"

#: What is logged after a reload, and the reason if it is refused.
_RELOADED = r"Reloaded server configuration|Failed to reload server configuration: (.*)"


def _reload(server: Server, text: str) -> str:
    """
    @return: the reason why a server refuses a configuration at a reload; empty if it does not.
    """
    length = server.logLength()
    server.writeConfig(text)
    server.signal("HUP")
    return server.waitForLog(_RELOADED, length)[1] or ""


@dataclass(frozen=True)
class Difference:
    """A conversation with different output of the two servers."""

    matter: str
    seed: int
    number: int
    flavour: str
    conversation: Script
    theirs: list[list[bytes]]
    ours: list[list[bytes]]

    def __str__(self) -> str:
        again = (
            f"python -m tests.interop.auth.differential --only {self.matter} --seed {self.seed} "
            f"--number {self.number} --flavour {self.flavour}"
        )
        lines = [again, *(f"  login {login}" for login in self.conversation.logins)]
        lines += [f"  {attempt.who}: {attempt.data!r}" for attempt in self.conversation.tries]
        for place, (theirs, ours) in enumerate(zip(self.theirs, self.ours, strict=False)):
            mark = "  " if theirs == ours else "! "
            lines.append(f"{mark}{place} theirs {theirs}")
            if theirs != ours:
                lines.append(f"{mark}{place} ours   {ours}")
        return "\n".join(lines)


class Comparison:
    """
    Two servers. nats-server is restarted with each configuration, and natsbroker reloads it if
    possible.

    @ivar attempts: the number of compared logins, publishes and subscriptions.
    @ivar explained: the number of differences by the reason of their allowance.
    """

    def __init__(self, flavour: Flavour, directory: Path) -> None:
        """
        @param flavour: the server to compare with nats-server.
        """
        self.flavour = flavour
        self.attempts = 0
        self.explained: Counter[str] = Counter()
        self._places = [directory / name for name in ("theirs", "ours")]
        for place in self._places:
            place.mkdir()
        self._theirs: Server | None = None
        self._ours = Server(flavour, self._places[1], _NOTHING)

    def __enter__(self) -> Comparison:
        self._ours.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopTheirs()
        self._ours.stop()

    def _stopTheirs(self) -> None:
        if self._theirs is not None:
            self._theirs.stop()
            self._theirs = None

    def theirsRefuses(self, text: str) -> str:
        """
        Start nats-server with a configuration.

        @return: its error if it does not start, or else empty.
        """
        self._stopTheirs()
        server = Server(REAL, self._places[0], text)
        try:
            self._theirs = server.start()
        except RuntimeError as error:
            return str(error)
        return ""

    def oursRefuses(self, text: str) -> str:
        """
        Let natsbroker apply a configuration.

        @return: the reason if it refuses, or else empty.
        """
        return _reload(self._ours, text)

    def differences(self, matter: Matter, seed: int, indexes: range) -> Iterator[Difference]:
        """
        @return: the differences in some conversations that no allowance explains.
        @raise AssertionError: if a server refuses the configuration.
        """
        text = matter.path.read_text("utf-8")
        if matter.isAlone:
            self._restart(text)
        refusals = [self.theirsRefuses(text), self.oursRefuses(text)]
        assert refusals == ["", ""], matter.name
        yield from self.again(matter, seed, indexes)
        if matter.isAlone:
            self._restart(_NOTHING)

    def again(self, matter: Matter, seed: int, indexes: range) -> Iterator[Difference]:
        """Compare conversations with the present configuration of both servers."""
        for number in indexes:
            difference = self._difference(matter, seed, number)
            if difference is not None:
                yield difference

    def _restart(self, text: str) -> None:
        """Restart natsbroker."""
        self._ours.stop()
        self._ours = Server(self.flavour, self._places[1], text).start()

    def changed(self, change: Change, seed: int, indexes: range) -> Iterator[Difference]:
        """
        Compare conversations during which both servers reload another configuration.

        @raise AssertionError: if a server refuses the reload.
        """
        for number in indexes:
            difference = self._difference(change.matter, seed, number, change)
            if difference is not None:
                yield difference

    def _difference(
        self, matter: Matter, seed: int, number: int, change: Change | None = None
    ) -> Difference | None:
        tried = conversation(matter, seed, number)
        self.attempts += tried.attempts
        for _ in range(_TIMES):
            if self._theirs is None or (change is not None and matter.isFresh):
                assert self.theirsRefuses(_NOTHING) == ""
            assert self._theirs is not None
            theirs, ours = (
                _heard(outcome, tried, change) for outcome in (self._theirs, self._ours)
            )
            if theirs == ours:
                return None
            if reason := explained(matter.name, tried.script, theirs, ours):
                self.explained[reason] += 1
                return None
        return Difference(matter.name, seed, number, self.flavour.name, tried, theirs, ours)


def _heard(server: Server, tried: Script, change: Change | None) -> list[list[bytes]]:
    if change is None:
        return converse(server.port, tried)

    def take(text: str) -> None:
        assert _reload(server, text) == "", text

    take(change.before)
    return converse(server.port, tried, lambda: take(change.after))
