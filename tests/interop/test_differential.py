"""
A short run of the differential fuzzer, and tests of the fuzzer itself.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.interop.allowances import allowed
from tests.interop.differential import Comparison, Difference, answerOf
from tests.interop.mutation import WORLDS, World, makeScript
from tests.interop.servers import OURS, REAL, Flavour, requireRealServer

CASES = 700
SEED = int(os.environ.get("NATSBROKER_SEED", "1"))


@pytest.mark.parametrize("flavour", OURS, ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.name)
def test_agreement(world: World, flavour: Flavour, tmp_path: Path) -> None:
    """natsbroker answers mutated bytes as nats-server, or the difference is explained."""
    requireRealServer()
    with Comparison(world, flavour, tmp_path) as comparison:
        differences = [str(difference) for difference in comparison.differences(SEED, range(CASES))]
    assert not differences, "\n".join(differences)


def test_oracleIsRepeatable(tmp_path: Path) -> None:
    """nats-server agrees with itself, so that a difference is significant."""
    with Comparison(WORLDS["plain"], REAL, tmp_path) as comparison:
        assert list(comparison.differences(SEED, range(200))) == []


def test_differencesAreFound(tmp_path: Path) -> None:
    """A server with other answers is detected."""
    with Comparison(WORLDS["plain"], REAL, tmp_path, config="max_sub_tokens: 1\n") as comparison:
        differences = list(comparison.differences(SEED, range(200)))
    assert differences
    assert all(b"too many tokens" in b"".join(difference.ours.errors) for difference in differences)


def test_scriptsAreRepeatable() -> None:
    """The same seed and number always make the same script, and others make different ones."""
    world = WORLDS["plain"]
    scripts = [makeScript(world, 5, number) for number in range(50)]
    assert scripts == [makeScript(world, 5, number) for number in range(50)]
    assert len(set(scripts)) > 45


def test_answerOf() -> None:
    """An answer is compared without its random parts."""
    output = b"INFO {} \r\n+OK\r\nMSG b 7 2\r\nhi\r\nMSG a 3 2\r\nhi\r\n-ERR 'x'\r\nPONG\r\nMS"
    answer = answerOf(output)
    assert answer.deliveries == (b"MSG a 2\r\nhi\r\n", b"MSG b 2\r\nhi\r\n")
    assert (answer.errors, answer.pongs, answer.oks) == ((b"'x'",), 1, 1)
    assert (answer.infos, answer.rest) == (0, b"MS")


OK = b"INFO {} \r\nPONG\r\n"
INVALID = b"INFO {} \r\n-ERR 'Invalid Subject'\r\nPONG\r\n"
WIDER = b"-ERR 'Permissions Violation for Subscription to \"a.>\"'\r\n"


@pytest.mark.parametrize(
    ("script", "theirs", "ours", "count"),
    [
        (b"SUB a\x00b 1\r\n", OK, INVALID, 1),
        (b"SUB a.b 1\r\n", OK, INVALID, 0),
        (b"SUB a\x00b 1\r\n", INVALID, OK, 0),
        (b"SUB a\x00b 1\r\n", OK, INVALID[:-6], 0),
        (b"PUB a\x00b 1\r\n", OK + b"MSG a 1 0\r\n\r\n", OK, 1),
        (b"PUB a.b 1\r\n", OK + b"MSG a 1 0\r\n\r\n", OK, 0),
        (b"SUB a.> 1\r\n", OK, OK + WIDER, 1),
        (b"SUB \x01 1\r\nSUB a.> 1\r\n", OK, INVALID + WIDER, 2),
        (b"SUB \x01 1\r\nSUB a.> 1\r\n", OK, INVALID + WIDER.replace(b">", b"b"), 0),
        (b"SUB a 1\rx\n", OK, INVALID, 1),
        (b'{"auth_token":"x"}', OK, b"INFO {} \r\n-ERR 'Authorization Violation'\r\n", 1),
        (b'{"user":"x"}', OK, b"INFO {} \r\n-ERR 'Authorization Violation'\r\n", 0),
    ],
)
def test_allowances(script: bytes, theirs: bytes, ours: bytes, count: int) -> None:
    """A difference is explained by all the allowances that it needs, or not at all."""
    assert len(allowed(script, answerOf(theirs), answerOf(ours))) == count


def test_reportRepeatsTheCase() -> None:
    """A difference is reported with the command that reproduces it."""
    answer = answerOf(b"")
    report = str(Difference("plain", 3, 17, "ours-pure", b"x", answer, answer))
    assert report.startswith(
        "python -m tests.interop.differential --world plain --seed 3 --only 17 --flavour ours-pure"
    )
