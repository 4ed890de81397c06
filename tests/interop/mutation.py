"""
Scripts of client bytes, mutated from those of the conformance table.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.conformance.rows import CON, HEADERS, PEDANTIC, Row, allRows
from tests.conformance.tables.logins import GUEST, ONE_USER, TOKEN
from tests.conformance.tables.permissions import USERS
from tests.conformance.transcripts import Send


@dataclass(frozen=True)
class World:
    """
    A server configuration, and the scripts that are useful with it.

    @ivar seeds: the scripts that are mutated.
    """

    name: str
    config: str
    seeds: tuple[bytes, ...]


def scriptOf(row: Row) -> bytes:
    """
    @return: all bytes that the first client of a row sends.
    """
    return b"".join(step.data for step in row.steps if isinstance(step, Send) and step.on == "a")


def _scripts(*configs: str) -> tuple[bytes, ...]:
    rows = [row for row in allRows() if row.config in configs and not row.needs]
    scripts = {script for row in rows if 0 < len(script := scriptOf(row)) <= 1500}
    return tuple(sorted(scripts))


PLAIN = _scripts("")

WORLDS = {
    world.name: world
    for world in (
        World("plain", "", PLAIN),
        World("login", USERS, _scripts(USERS)),
        World("closed", ONE_USER, _scripts(ONE_USER, TOKEN)),
        World("guest", GUEST, (*PLAIN, *_scripts(ONE_USER, GUEST))),
        World(
            "small",
            "max_payload: 64\nmax_control_line: 64\nmax_subscriptions: 3\nmax_sub_tokens: 3\n",
            PLAIN,
        ),
    )
}

WORDS = (
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b".",
    b"*",
    b">",
    b"PUB ",
    b"HPUB ",
    b"SUB ",
    b"UNSUB ",
    b"MSG ",
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
    b"INFO {}\r\n",
    b"CONNECT {}\r\n",
    CON,
    HEADERS,
    PEDANTIC,
    b'"verbose":true',
    b'"echo":false',
    b'"headers":true,"no_responders":true',
    b'"protocol":1',
    b"null",
    b"{",
    b"}",
    b'"',
    b"SUB foo 1\r\n",
    b"SUB foo q 2\r\n",
    b"SUB foo.> 3\r\n",
    b"SUB _INBOX.* 4\r\n",
    b"UNSUB 1\r\n",
    b"UNSUB 1 2\r\n",
    b"PUB foo 2\r\nhi\r\n",
    b"PUB foo.bar _INBOX.a 2\r\nhi\r\n",
    b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"0",
    b"1",
    b"2",
    b"-1",
    b"00",
    b"65",
    b"999999999",
    b"9999999999",
    b"$SYS.",
    b"_GR_.",
    b"$JS.ACK.",
    b"_R_.",
    b"_sys_",
    b"\x00",
    b"\x7f",
    b"\xff",
    "é".encode(),
)


def _place(random: Random, script: bytes) -> int:
    """
    @return: an offset, in most cases at the edge of a word.
    """
    edges = [at for at, byte in enumerate(script) if byte in b' \t\r\n.{}:,"']
    return (
        random.choice(edges) if edges and random.random() < 0.6 else random.randint(0, len(script))
    )


def _lines(script: bytes) -> list[bytes]:
    return script.splitlines(keepends=True)


def _insert(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    at = _place(random, script)
    return script[:at] + random.choice(WORDS) + script[at:]


def _remove(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    at = _place(random, script)
    return script[:at] + script[at + random.choice((1, 1, 1, 2, 5, 20)) :]


def _replace(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    at = _place(random, script)
    word = random.choice(WORDS)
    return script[:at] + word + script[at + len(word) :]


def _byte(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    at = _place(random, script)
    return script[:at] + bytes([random.randrange(256)]) + script[at + 1 :]


def _repeatLine(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    lines = _lines(script) or [b"\r\n"]
    lines.insert(random.randint(0, len(lines)), random.choice(lines))
    return b"".join(lines)


def _moveLine(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    lines = _lines(script) or [b"\r\n"]
    line = lines.pop(random.randrange(len(lines)))
    lines.insert(random.randint(0, len(lines)), line)
    return b"".join(lines)


def _splice(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    other = random.choice(seeds)
    return script[: _place(random, script)] + other[_place(random, other) :]


def _append(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    lines = _lines(random.choice(seeds))
    return script + b"".join(lines[random.randint(0, 1) :])


def _case(random: Random, script: bytes, seeds: tuple[bytes, ...]) -> bytes:
    at = _place(random, script)
    return script[:at] + script[at : at + 6].swapcase() + script[at + 6 :]


MUTATIONS = (
    _insert,
    _insert,
    _insert,
    _remove,
    _replace,
    _byte,
    _repeatLine,
    _moveLine,
    _splice,
    _append,
    _append,
    _case,
)


def makeScript(world: World, seed: int, number: int) -> bytes:
    """
    @param number: the number of the script, from 0.
    @return: a seed script that was mutated one to five times.
    """
    random = Random(f"{world.name} {seed} {number}")
    script = random.choice(world.seeds)
    for _ in range(random.randint(1, 5)):
        script = random.choice(MUTATIONS)(random, script, world.seeds)
    return script[:4000]
