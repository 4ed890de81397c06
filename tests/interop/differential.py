"""
The same bytes are sent to nats-server and to natsbroker, and their answers are compared::

    python -m tests.interop.differential --cases 100000 --seed 7
"""

from __future__ import annotations

import argparse
import re
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.transcripts import splitFrames
from tests.interop.allowances import Answer, allowed
from tests.interop.mutation import WORLDS, World, makeScript
from tests.interop.servers import ALL, OURS_FAST, PATIENCE, REAL, Flavour, Server

#: A difference must show every time, so that a server that is still busy forgetting the client
#: before is not taken for one.
ATTEMPTS = 4

PROBE = b"PING\r\n"

_SID = re.compile(rb"^(H?MSG [^ ]+) [^ ]+ ")


def ask(server: Server, script: bytes) -> Answer:
    """
    Send a script and a PING, close the sending side, and read to the end.
    """
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        output = []
        try:
            connection.sendall(script + PROBE)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has closed already; what it said can be read
        try:
            while data := connection.recv(65536):
                output.append(data)
        except ConnectionError:
            pass  # it has closed with bytes of ours unread
    return answerOf(b"".join(output))


def answerOf(output: bytes) -> Answer:
    """
    @return: a server's output without its random parts.
    """
    frames, rest = splitFrames(output)
    words = Counter(frame.split(b" ", 1)[0].strip() for frame in frames)
    return Answer(
        errors=tuple(frame[5:].strip() for frame in frames if frame.startswith(b"-ERR ")),
        deliveries=tuple(
            sorted(_SID.sub(rb"\1 ", f) for f in frames if f.startswith((b"MSG ", b"HMSG ")))
        ),
        pongs=words[b"PONG"],
        oks=words[b"+OK"],
        infos=words[b"INFO"] - 1,
        rest=rest,
    )


@dataclass(frozen=True)
class Difference:
    """A script that two servers answer differently."""

    world: str
    seed: int
    number: int
    flavour: str
    script: bytes
    theirs: Answer
    ours: Answer

    def __str__(self) -> str:
        again = (
            f"python -m tests.interop.differential --world {self.world} --seed {self.seed} "
            f"--only {self.number} --flavour {self.flavour}"
        )
        return f"{again}\n  sent   {self.script!r}\n  theirs {self.theirs}\n  ours   {self.ours}"


class Comparison:
    """
    Two servers with the configuration of a world.

    @ivar explained: the number of differences by the reason of their allowance.
    @ivar cases: the number of compared scripts.
    """

    def __init__(
        self, world: World, flavour: Flavour, directory: Path, config: str | None = None
    ) -> None:
        """
        @param flavour: the server to compare with nats-server.
        @param config: the configuration of that server, if it differs from the world's.
        """
        self.world = world
        self.flavour = flavour
        self.cases = 0
        self.explained: Counter[str] = Counter()
        self._servers: list[Server] = []
        ours = world.config if config is None else config
        for name, kind, text in (("theirs", REAL, world.config), ("ours", flavour, ours)):
            place = directory / f"{world.name}-{name}"
            place.mkdir()
            self._servers.append(Server(kind, place, text))

    def __enter__(self) -> Comparison:
        try:
            for server in self._servers:
                server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for server in self._servers:
            server.stop()

    def compare(self, seed: int, number: int) -> Difference | None:
        """
        @return: the difference for one script, if no allowance explains it.
        """
        script = makeScript(self.world, seed, number)
        self.cases += 1
        for _ in range(ATTEMPTS):
            theirs, ours = (ask(server, script) for server in self._servers)
            if theirs == ours:
                return None
            if allowances := allowed(script, theirs, ours):
                self.explained.update(allowance.reason for allowance in allowances)
                return None
        return Difference(self.world.name, seed, number, self.flavour.name, script, theirs, ours)

    def differences(self, seed: int, chosen: range) -> Iterator[Difference]:
        """
        @return: the differences for many scripts.
        """
        for number in chosen:
            if (difference := self.compare(seed, number)) is not None:
                yield difference


def main(arguments: list[str]) -> int:
    """
    The command line.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("::")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="scripts in each world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one script")
    parser.add_argument("--world", choices=sorted(WORLDS), action="append")
    parser.add_argument("--flavour", choices=[f.name for f in ALL], default=OURS_FAST.name)
    options = parser.parse_args(arguments)
    flavour = next(flavour for flavour in ALL if flavour.name == options.flavour)
    chosen = range(options.cases)
    if options.only is not None:
        chosen = range(options.only, options.only + 1)
    differing = total = 0
    with tempfile.TemporaryDirectory() as directory, ExitStack() as servers:
        for name in options.world or sorted(WORLDS):
            comparison = Comparison(WORLDS[name], flavour, Path(directory))
            servers.enter_context(comparison)
            for difference in comparison.differences(options.seed, chosen):
                differing += 1
                print(difference, flush=True)
            total += comparison.cases
            for reason, count in comparison.explained.items():
                print(f"{name}: {count} explained: {reason}")
    print(f"{total} scripts, {differing} differences")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
