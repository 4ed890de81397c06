"""
The checks of headers.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import ErrorRow, JetStreamError
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.streams.duplicates import DuplicateWindow
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishchecks import (
    Candidate,
    PublishChecks,
    StoredBefore,
    isTooLong,
)
from natsbroker.jetstream.streams.subjectstates import (
    SubjectState,
    SubjectStates,
    SubjectUnknown,
)
from tests.jetstream.support import Stage


def _candidate(isSourced: Any = False, following: Any = 1, **headers: str) -> Candidate:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    block = "\r\n".join(("NATS/1.0", *lines, "", "")).encode()
    arrived = Arrived(b"s.a", b"", block, b"", isSourced)
    return Candidate(arrived, b"s.a", MessageHeaders(block), following, 0)


def _made(**config: object) -> tuple[PublishChecks, DuplicateWindow, SubjectStates]:
    duplicates, subjects = DuplicateWindow(0), SubjectStates()
    return (
        PublishChecks(Stage().stream(**config), duplicates, subjects, lambda: (0, 0)),
        duplicates,
        subjects,
    )


def _is(caught: pytest.ExceptionInfo[JetStreamError], row: ErrorRow) -> bool:
    return str(caught.value) == str(row())


def test_lookUp() -> None:
    """An expected last sequence of an unknown subject needs a search."""
    checks, _, subjects = _made()
    message = _candidate(Nats_Expected_Last_Subject_Sequence="4")
    with pytest.raises(SubjectUnknown):
        checks.checkSequences(message)
    subjects.found(b"s.a", SubjectState(1, 4))
    checks.checkSequences(message)
    assert checks.lastOf(b"s.a") == 4


@pytest.mark.parametrize(
    ("name", "what"), [("Sequence", "sequence"), ("Subject_Sequence", "sequence by subject")]
)
def test_mismatch(name: str, what: str) -> None:
    """
    The trace of a wrong last sequence has the expected one, or the largest number if that is not a
    number.
    """
    checks, _, subjects = _made()
    subjects.found(b"s.a", SubjectState(1, 4))
    for wanted, shown in (("9", 9), ("x", 2**64 - 1)):
        with pytest.raises(JetStreamError) as caught:
            checks.checkSequences(_candidate(following=5, **{f"Nats_Expected_Last_{name}": wanted}))
        assert str(caught.value) == "wrong last sequence: 4"
        assert caught.value.traced == f"last {what} mismatch: {shown} vs 4"


def test_origin() -> None:
    """A message from a client that names a source is refused."""
    checks, _, _ = _made()
    checks.checkOrigin(_candidate(Nats_Stream_Source=""))
    checks.checkOrigin(_candidate(isSourced=True, Nats_Stream_Source="A 1 > > a"))
    with pytest.raises(JetStreamError) as caught:
        checks.checkOrigin(_candidate(Nats_Stream_Source="A 1 > > a"))
    assert _is(caught, errors.MESSAGE_SOURCE_HDR_NOT_ALLOWED)


def test_lastId() -> None:
    """The id that is expected is that of the last message."""
    checks, duplicates, _ = _made()
    duplicates.last = b"x"
    checks.checkLastId(_candidate(Nats_Expected_Last_Msg_Id="x"))
    with pytest.raises(JetStreamError) as caught:
        checks.checkLastId(_candidate(Nats_Expected_Last_Msg_Id="y"))
    assert str(caught.value) == "wrong last msg ID: x"
    assert caught.value.traced == 'last msgid mismatch: "y" vs "x"'


def test_rollup() -> None:
    """A rollup value is case insensitive, and only C{sub} and C{all} are valid."""
    checks, _, _ = _made(allow_rollup_hdrs=True)
    for headers, rollup in (({"Nats_Rollup": "ALL"}, b"all"), ({}, b"")):
        message = _candidate(**headers)
        checks.readRollup(message)
        assert message.rollup == rollup
    with pytest.raises(JetStreamError) as caught:
        checks.readRollup(_candidate(Nats_Rollup="zork"))
    assert str(caught.value) == 'rollup value invalid: "zork"'


def test_size() -> None:
    """The limit of a message's size may be negative, which means none."""
    assert [isTooLong(StreamConfig(max_msg_size=5), size) for size in (5, 6)] == [False, True]
    assert not isTooLong(StreamConfig(max_msg_size=-1), 1 << 40)


class TestOrder:
    """The order of the checks."""

    ALL = {
        "Nats_Incr": "1",
        "Nats_Expected_Stream": "T",
        "Nats_TTL": "1m",
        "Nats_Expected_Last_Sequence": "9",
        "Nats_Schedule": "@hourly",
        "Nats_Stream_Source": "A",
        "Nats_Msg_Id": "old",
        "Nats_Expected_Last_Msg_Id": "x",
        "Nats_Rollup": "sub",
    }

    def test_headers(self) -> None:
        """A message with several faults gets the error of the first check that fails."""
        checks, duplicates, _ = _made(duplicate_window=9, max_msg_size=2000)
        duplicates.window = 9
        duplicates.add(b"old", 3, 0)
        errors: list[str] = []
        names = dict(self.ALL)
        for name in self.ALL:
            with pytest.raises((JetStreamError, StoredBefore)) as caught:
                checks.checkMessage(_candidate(**names))
            errors.append(str(caught.value))
            del names[name]
        checks.checkMessage(_candidate(**names))
        assert errors == [
            "message counters is disabled",
            "expected stream does not match",
            "per-message TTL is disabled",
            "wrong last sequence: 0",
            "message schedules is disabled",
            "message stream source header is not allowed",
            "3",
            "wrong last msg ID: ",
            "rollup not permitted",
        ]

    def test_all(self) -> None:
        """
        A sealed stream is checked first, then the size of the message, then the size of its
        headers.
        """
        long = _candidate(**self.ALL, A="b" * 70_000)
        for config, text in (
            ({"sealed": True, "max_msg_size": 9}, "sealed"),
            ({"max_msg_size": 9}, "message size exceeds maximum allowed"),
            ({}, "header size exceeds maximum allowed of 64k"),
        ):
            checks, _, _ = _made(**config)
            with pytest.raises(JetStreamError, match=text):
                checks.checkMessage(long)
