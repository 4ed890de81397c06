"""
L{natsbroker.subjects.mapping} beside a running nats-server: same mappings, same subjects.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from tests.interop.servers import requireRealServer
from tests.subjects.chances import WRONG
from tests.subjects.realserver import Line, realServer

pytestmark = pytest.mark.slow

RNG = random.Random(20260822)


def someFunction(rng: random.Random) -> bytes:
    """
    @return: a function, or another token, for a source with two stars.
    """
    star, size = rng.randint(1, 2), rng.choice([-1, 0, 1, 2, 3, 5, 40])
    kinds = [
        "x",
        "$x",
        f"${star}",
        f"{{{{wildcard({star})}}}}",
        f"{{{{ Wildcard( {star} ) }}}}",
        f"{{{{partition({abs(size)})}}}}",
        f"{{{{partition({abs(size)},{star})}}}}",
        f"{{{{partition(7, {star}, {3 - star})}}}}",
        f"{{{{split({star},-)}}}}",
        f"{{{{Split({star}, ab)}}}}",
        f"{{{{random({rng.choice([0, 1])})}}}}",
    ]
    names = ["splitFromLeft", "splitFromRight", "SliceFromLeft", "sliceFromRight", "left", "Right"]
    kinds += [f"{{{{{name}({star},{size})}}}}" for name in names]
    return rng.choice(kinds).encode()


def someToken(rng: random.Random) -> bytes:
    """
    @return: a token of a subject, which does not begin with two separators.
    """
    while True:
        token = "".join(rng.choice("ababcd-ö") for _ in range(rng.randint(1, 9)))
        if not token.startswith(("--", "abab")):
            return token.encode()


def someMapping(number: int, rng: random.Random) -> tuple[bytes, bytes]:
    """
    @return: a source with two stars that nothing else matches, and a destination.
    """
    made = b"d%d." % number + b".".join(someFunction(rng) for _ in range(rng.randint(1, 3)))
    tail = b".>" if rng.random() < 0.3 else b""
    return b"m%d.*.k.*" % number + tail, made + tail


PAIRS = [someMapping(number, RNG) for number in range(120)]
SUBJECTS = [
    source.replace(b"*", someToken(RNG), 1).replace(b"*", someToken(RNG), 1).replace(b">", tail)
    for source, _ in PAIRS
    for tail in (b"t", b"t.u.v")
]

WEIGHTED = Mapping(b"w.*", [Destination(b"w1.$1", 10), Destination(b"w2.$1", 60)])
LOSSY = Mapping(b"loss", [Destination(b"loss", 50)])


def mappingText(mapping: Mapping) -> str:
    """
    @return: a mapping for the configuration file.
    """
    entries = [
        f'{{ dest: "{d.subject.decode()}", weight: {d.weight} }}' for d in mapping.destinations
    ]
    return f'"{mapping.source.decode()}": [{", ".join(entries)}]'


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A connection to a server with all the mappings, subscribed to everything."""
    rows = [f'"{source.decode()}": "{made.decode()}"' for source, made in PAIRS]
    rows += [mappingText(WEIGHTED), mappingText(LOSSY)]
    config = "mappings = {{\n{}\n}}\n".format("\n".join(rows))
    config += "authorization { users = [{ user: all, password: x }] }"
    directory: Path = tmp_path_factory.mktemp("mapping")
    with realServer(directory, config) as port:
        opened = Line(port, "all")
        opened.ask(b"SUB > 1\r\n")
        yield opened
        opened.close()


def published(line: Line, subject: bytes) -> bytes:
    """
    @return: the subject under which a message arrives; empty if it does not.
    """
    lines = line.ask(b"PUB %b 0\r\n\r\n" % subject)
    return lines[0].split()[1] if lines else b""


class TestBesideNatsServer:
    """The same messages through natsbroker's mapping and nats-server."""

    def test_transforms(self, line: Line) -> None:
        """Hundreds of subjects become the same through made-up destinations."""
        mappings = [Mapping(source, [Destination(made)]) for source, made in PAIRS]
        table = MappingTable(mappings, random.Random(1).randrange)
        expected = {subject: table.map(subject) for subject in SUBJECTS}
        assert {subject: published(line, subject) for subject in SUBJECTS} == expected
        assert sum(subject != made for subject, made in expected.items()) > 200

    @pytest.mark.parametrize("mapping", [WEIGHTED, LOSSY], ids=["weighted", "lossy"])
    def test_weights(self, line: Line, mapping: Mapping) -> None:
        """The two servers spread messages over the same subjects, and about equally."""
        subject = mapping.source.replace(b"*", b"x")
        table = MappingTable([mapping], random.Random(2).randrange)
        ours = Counter(table.map(subject) for _ in range(1000))
        theirs = Counter(published(line, subject) for _ in range(1000))
        assert ours.keys() == theirs.keys()
        assert all(abs(ours[target] - theirs[target]) < 150 for target in ours)

    def test_errors(self, tmp_path: Path) -> None:
        """nats-server refuses the same destinations for the same reasons."""
        rows, texts = [], []
        for number, (source, token, text) in enumerate(WRONG):
            tail = ".>" if source.endswith(b">") else ""
            made = f"x.{token.decode()}{tail}"
            rows.append(f'"e{number}.{source.decode()}": "{made}"')
            reason = f"invalid mapping destination: {text}\n"
            texts.append(f'"e{number}.{source.decode()}" to "{made}" : {reason}')
        path = tmp_path / "wrong.conf"
        path.write_text("mappings = {{\n{}\n}}\n".format("\n".join(rows)))
        check = subprocess.run(
            [str(requireRealServer()), "-t", "-c", str(path)], capture_output=True, text=True
        )
        output = check.stdout + check.stderr
        assert check.returncode != 0
        assert [text for text in texts if text not in output] == []

    @pytest.mark.parametrize("pair", PAIRS[:3], ids=[s.decode() for s, _ in PAIRS[:3]])
    def test_wildcardsArePublishedAsLiterals(self, line: Line, pair: tuple[bytes, bytes]) -> None:
        """A published wildcard is mapped like any other token."""
        subject = pair[0].replace(b">", b"t")
        table = MappingTable([Mapping(pair[0], [Destination(pair[1])])], random.Random(1).randrange)
        assert published(line, subject) == table.map(subject)
