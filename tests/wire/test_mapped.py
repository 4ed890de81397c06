"""
Reply subjects as they are spelt between clusters.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from natsbroker.testing.strategies import literalSubjects
from natsbroker.wire.mapped import prefixOf, splitMapped, splitReply


@pytest.mark.parametrize(
    ("subject", "prefix", "rest"),
    [
        (b"_GR_.F2cAWZ.lwpwmG._INBOX.fresh", b"_GR_.F2cAWZ.lwpwmG.", b"_INBOX.fresh"),
        (b"_GR_.F2cAWZ.lwpwmG.a", b"_GR_.F2cAWZ.lwpwmG.", b"a"),
        (b"$GR.1a2b._INBOX.x", b"$GR.1a2b.", b"_INBOX.x"),
        (b"_GR_.F2cAWZ.lwpwmG.", b"", b"_GR_.F2cAWZ.lwpwmG."),
        (b"_GR_.F2cAWZ.lwpwm._INBOX", b"", b"_GR_.F2cAWZ.lwpwm._INBOX"),
        (b"_GR_.F2cAWZ", b"", b"_GR_.F2cAWZ"),
        (b"$GR.1a2b5.x", b"", b"$GR.1a2b5.x"),
        (b"$GR.1a2b.", b"", b"$GR.1a2b."),
        (b"_INBOX.x", b"", b"_INBOX.x"),
        (b"", b"", b""),
    ],
)
def test_splitSubject(subject: bytes, prefix: bytes, rest: bytes) -> None:
    """The prefix is cut from the subject; a subject that was cut elsewhere is not mapped."""
    assert splitMapped(subject) == (prefix, rest)
    assert prefixOf(subject) == prefix


@given(literalSubjects())
def test_isUndone(subject: bytes) -> None:
    """The original subject is what follows the prefix."""
    for prefix in (b"_GR_.abcdef.ABCDEF.", b"$GR.0123."):
        assert splitMapped(prefix + subject) == (prefix, subject)


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        (b"$JS.ACK.S.C.1.2.3.4.5@s.a", (b"", b"$JS.ACK.S.C.1.2.3.4.5", b"s.a")),
        (
            b"_GR_.F2cAWZ.lwpwmG.$JS.ACK.S.C.1.2.3.4.5@s.a",
            (b"_GR_.F2cAWZ.lwpwmG.", b"$JS.ACK.S.C.1.2.3.4.5", b"s.a"),
        ),
        (b"$JS.ACK.S@S.C@C.1.2.3.4.5@s@a", (b"", b"$JS.ACK.S@S.C@C.1.2.3.4.5", b"s@a")),
        (
            b"$JS.ACK.D.hash.S.C.1.2.3.4.5.x@s.a",
            (b"", b"$JS.ACK.D.hash.S.C.1.2.3.4.5.x", b"s.a"),
        ),
        (b"$JS.ACK.S.C.1.2.3.4.5", (b"", b"$JS.ACK.S.C.1.2.3.4.5", b"")),
        (b"$JS.ACK.S.C.1.2.3.4.5@", (b"", b"$JS.ACK.S.C.1.2.3.4.5@", b"")),
        (b"$JS.ACK.S.C.1.2.3.4@s.a", (b"", b"$JS.ACK.S.C.1.2.3.4@s.a", b"")),
        (b"_INBOX.a.b.c.d.e.f.g.h@s.a", (b"", b"_INBOX.a.b.c.d.e.f.g.h@s.a", b"")),
        (b"", (b"", b"", b"")),
    ],
)
def test_streamSubject(reply: bytes, parts: tuple[bytes, bytes, bytes]) -> None:
    """The subject of a stored message follows an acknowledgement of JetStream."""
    assert splitReply(reply) == parts
