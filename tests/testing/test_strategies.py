"""
The guarantees of the strategies for their examples.
"""

from __future__ import annotations

import json

from hypothesis import given

from natsbroker.subjects.grammar import isValidLiteral, isValidSubject
from natsbroker.testing import strategies
from natsbroker.testing.strategies import Chunk
from natsbroker.wire import ops
from natsbroker.wire.connect import DEFAULTS, parseConnect
from natsbroker.wire.decoder import Decoder


@given(strategies.literalSubjects())
def test_literals(subject: bytes) -> None:
    """A literal subject can be published to."""
    assert isValidLiteral(subject)


@given(strategies.patterns())
def test_patterns(pattern: bytes) -> None:
    """A pattern can be subscribed to."""
    assert isValidSubject(pattern)


@given(strategies.connects())
def test_connects(line: bytes) -> None:
    """A generated CONNECT line is valid, with known options."""
    assert line.startswith(b"CONNECT ") and line.endswith(b"\r\n")
    assert set(json.loads(line[8:])) <= set(DEFAULTS)
    parseConnect(line[8:-2])


@given(strategies.operations())
def test_operations(data: bytes) -> None:
    """A generated operation is complete and valid."""
    decoder = Decoder()
    decoder.headers = True
    decoder.append(data)
    frames = []
    while (frame := decoder.next()) is not None:
        assert frame[0] != ops.FAULT
        frames.append(frame)
    assert frames
    assert decoder.pending == 0


@given(strategies.scripts(clients=2))
def test_scripts(steps: list[Chunk]) -> None:
    """A script begins with the CONNECT of every client, and the bytes of each client are valid."""
    assert [step.client for step in steps[:2]] == [0, 1]
    for client in (0, 1):
        decoder = Decoder()
        decoder.headers = True
        decoder.append(b"".join(step.data for step in steps if step.client == client))
        first = decoder.next()
        assert first is not None and first[0] == ops.CONNECT
        while (frame := decoder.next()) is not None:
            assert frame[0] != ops.FAULT
        assert decoder.pending == 0


@given(strategies.anyBytes())
def test_anyBytes(data: bytes) -> None:
    """The strategy for any bytes gives bytes of limited length."""
    assert len(data) < 20_000
