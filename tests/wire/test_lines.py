"""
One control line to a frame. The decoder's rows test what lines mean; here is what only the reader
of lines means: that an incomplete line is judged like the whole one.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker import errors
from natsbroker.wire import ops
from natsbroker.wire.lines import HEAD, SKIP, STRIP, readLine, readPartial


@dataclass
class Rules:
    """The rules of a connection."""

    authorized: bool = True
    headers: bool = True
    maxControlLine: int = 20
    maxPayload: int = 100

    def take(self) -> bytes:
        """Nothing to do: no payload follows the line."""
        return b""


UNKNOWN = (ops.FAULT, errors.UNKNOWN_OPERATION)


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (b"PING\r", (ops.PING,)),
        (b"SUB a 1\r", (ops.SUB, b"a 1")),
        (b"SUB a 1", (ops.SUB, b"a 1")),
        (b"PUB a r 05\r", (HEAD, ops.PUB, b"a", b"r", 0, 5, b"05", b"")),
        (b"HPUB a 2 5\r", (HEAD, ops.HPUB, b"a", b"", 2, 5, b"5", b"2")),
        (b"HPUB a r 2 5\r", (HEAD, ops.HPUB, b"a", b"r", 2, 5, b"5", b"2")),
        (b"PUB a 101", (ops.FAULT, errors.PAYLOAD)),
        (b"PUB a b c d", (ops.FAULT, errors.BAD_ARGUMENTS)),
        (b"SUB 012345678901234567890", (ops.FAULT, errors.CONTROL_LINE)),
        (b"\xff", UNKNOWN),
        (b"", UNKNOWN),
    ],
)
def test_readLine(line: bytes, frame: tuple[object, ...]) -> None:
    """A whole line is a frame, a fault, or the head of a publish."""
    assert readLine(line, Rules()) == frame


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (b"P", None),
        (b"pub", None),
        (b"PUB ", None),
        (b"PUB a", None),
        (b"-", None),
        (b"+o", None),
        (b"PING", (SKIP, ops.PING)),
        (b"PINGX", (SKIP, ops.PING)),
        (b"+OK yes", (SKIP, ops.OK)),
        (b"PUB  \t ", (STRIP, 3)),
        (b"CONNECT   ", (STRIP, 2)),
        (b"PUBX", UNKNOWN),
        (b"X", UNKNOWN),
        (b"PX", UNKNOWN),
        (b"SUB 012345678901234567890", (ops.FAULT, errors.CONTROL_LINE)),
        (b"SUB 01234567890123456789\r", None),
    ],
)
def test_readPartial(line: bytes, outcome: object) -> None:
    """
    An incomplete line is refused as soon as no rest can make it valid, and shortened if that is
    safe.
    """
    assert readPartial(line, Rules()) == outcome


def test_closedDoor() -> None:
    """If a login is required, all operations but CONNECT are refused at their first byte."""
    rules = Rules(authorized=False)
    denied = (ops.FAULT, errors.AUTHORIZATION)
    assert readPartial(b"P", rules) == readLine(b"PING", rules) == denied
    assert readPartial(b"c", rules) is None
    assert readLine(b"connect {}", rules) == (ops.CONNECT, b"{}")


LINES = st.one_of(
    st.binary(min_size=1, max_size=30),
    st.tuples(
        st.sampled_from(
            [b"PUB", b"hpub", b"SUB", b"UNSUB", b"CONNECT", b"PING", b"-ERR", b"INFO", b"+OK"]
        ),
        st.sampled_from([b"", b" ", b"\t", b"   ", b"X", b"\r"]),
        st.text("ab 019\t\r", max_size=25).map(str.encode),
    ).map(b"".join),
).filter(lambda line: b"\n" not in line)


@given(LINES, st.booleans(), st.integers(0, 30))
def test_partialAgreesWithWhole(line: bytes, authorized: bool, longest: int) -> None:
    """An incomplete line that is judged early has the same outcome as the whole line."""
    rules = Rules(authorized=authorized, maxControlLine=longest)
    whole = readLine(line, rules)
    for length in range(1, len(line) + 1):
        part = readPartial(line[:length], rules)
        if part is None:
            continue
        if part[0] == SKIP:
            assert whole == (part[1],)
        elif part[0] == STRIP:
            shorter = line[: length - part[1]] + line[length:]
            assert readLine(shorter, rules) == whole
        else:
            assert part == whole
        break
