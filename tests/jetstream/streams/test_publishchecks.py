"""
The checks of headers.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import ErrorRow, JetStreamError
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.publishchecks import PublishChecks
from natsbroker.jetstream.streams.subjectstates import (
    SubjectState,
    SubjectStates,
    SubjectUnknown,
)
from tests.jetstream.support import Stage


def _known(**headers: str) -> MessageHeaders:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return MessageHeaders("\r\n".join(("NATS/1.0", *lines, "", "")).encode())


def _made(**config: object) -> tuple[PublishChecks, DuplicateWindow, SubjectStates]:
    duplicates, subjects = DuplicateWindow(0), SubjectStates()
    return (
        PublishChecks(Stage().stream(**config), duplicates, subjects),
        duplicates,
        subjects,
    )


def _is(caught: pytest.ExceptionInfo[JetStreamError], row: ErrorRow) -> bool:
    return str(caught.value) == str(row())


def test_lookUp() -> None:
    """The last sequence of a subject that is not known has to be looked up."""
    checks, _, subjects = _made()
    known = _known(Nats_Expected_Last_Subject_Sequence="4")
    with pytest.raises(SubjectUnknown):
        checks.checkSequences(known, b"s.a", 9)
    subjects.found(b"s.a", SubjectState(1, 4))
    checks.checkSequences(known, b"s.a", 9)
    assert checks.lastOf(b"s.a") == 4


@pytest.mark.parametrize(
    ("name", "what"), [("Sequence", "sequence"), ("Subject_Sequence", "sequence by subject")]
)
def test_mismatch(name: str, what: str) -> None:
    """Traces show the sequence that was wanted; what is no number is the largest one."""
    checks, _, subjects = _made()
    subjects.found(b"s.a", SubjectState(1, 4))
    for wanted, shown in (("9", 9), ("x", 2**64 - 1)):
        with pytest.raises(JetStreamError) as caught:
            checks.checkSequences(_known(**{f"Nats_Expected_Last_{name}": wanted}), b"s.a", 4)
        assert str(caught.value) == "wrong last sequence: 4"
        assert caught.value.traced == f"last {what} mismatch: {shown} vs 4"


def test_origin() -> None:
    """A client's message does not name a source."""
    checks, _, _ = _made()
    checks.checkOrigin(_known(Nats_Stream_Source=""))
    checks.checkOrigin(_known(Nats_Stream_Source="A 1 > > a"), isSourced=True)
    with pytest.raises(JetStreamError) as caught:
        checks.checkOrigin(_known(Nats_Stream_Source="A 1 > > a"))
    assert _is(caught, errors.MESSAGE_SOURCE_HDR_NOT_ALLOWED)


def test_lastId() -> None:
    """The id that is expected is that of the last message."""
    checks, duplicates, _ = _made()
    duplicates.last = b"x"
    checks.checkLastId(_known(Nats_Expected_Last_Msg_Id="x"))
    with pytest.raises(JetStreamError) as caught:
        checks.checkLastId(_known(Nats_Expected_Last_Msg_Id="y"))
    assert str(caught.value) == "wrong last msg ID: x"
    assert caught.value.traced == 'last msgid mismatch: "y" vs "x"'


def test_rollup() -> None:
    """A rollup is of the subject or of all, in any case, where the stream permits it."""
    checks, _, _ = _made(allow_rollup_hdrs=True)
    assert checks.rollupOf(_known(Nats_Rollup="ALL")) == b"all"
    assert checks.rollupOf(_known()) == b""
    with pytest.raises(JetStreamError) as caught:
        checks.rollupOf(_known(Nats_Rollup="zork"))
    assert str(caught.value) == 'rollup value invalid: "zork"'
