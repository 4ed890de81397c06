"""
Requests of the export API, their fields and their answers.
"""

from __future__ import annotations

import json

import pytest

from natsbroker.export.requests import LARGEST, ApiRequest, Reason, Refusal, RequestFields
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Message
from tests.export.support import Connection, Inbox, Stage

LIMITED = Grant(subscribe=SubscribePermissions([b"_INBOX.>"]))


@pytest.mark.parametrize(
    ("origin", "reply", "isAnswerable"),
    [
        (None, b"_INBOX.1", False),
        (Connection(Grant()), b"anywhere", True),
        (Connection(LIMITED), b"_INBOX.1", True),
        (Connection(LIMITED), b"orders", False),
        (Connection(LIMITED), b"_R_.a.b", True),
        (Connection(None), b"_R_.a.b", False),
        (Connection(None), b"_INBOX.1", False),
        (object(), b"_INBOX.1", False),
        (Connection(Grant()), b"", False),
        (Connection(Grant()), b"_INBOX.*", False),
    ],
)
def test_isAnswerable(origin: object, reply: bytes, isAnswerable: bool) -> None:
    """
    A request is answered if its client may subscribe to the reply subject, or through an import.
    """
    message = Message(b"$NB.API.x", b"", reply, origin=origin)
    assert ApiRequest(Stage().bus, message).isAnswerable is isAnswerable


def test_send() -> None:
    """An answer reaches its subscribers, and sending returns whether there are any."""
    stage = Stage()
    request = ApiRequest(stage.bus, Message(b"$NB.API.x", b"", b"_INBOX.1"))
    assert request.answer({"a": 1}) is False
    inbox = Inbox(b"_INBOX.1")
    stage.bus.subscribe(inbox.subject, inbox)
    assert request.answer({"a": "é"}) is True
    stage.settle()
    assert json.loads(inbox.got[0]) == {"a": "é"}


def test_reads() -> None:
    """Numbers, texts and lists of words are read, or their defaults."""
    fields = RequestFields(b'{"n": 5, "t": "\\u00e9", "w": ["a"]}', ("n", "t", "w", "m"))
    assert fields.number("n") == 5
    assert fields.number("m", default=7) == 7
    assert fields.text("t") == "é"
    assert fields.text("m", "x") == "x"
    assert fields.words("w", ("a", "b")) == {"a"}
    assert fields.words("m", ("a", "b")) == {"a", "b"}
    assert ("n" in fields, "m" in fields) == (True, False)


def test_noPayload() -> None:
    """A request without a payload has no fields."""
    assert "n" not in RequestFields(b"", ("n",))


@pytest.mark.parametrize("value", ["true", "1.0", "-1", str(LARGEST + 1), '"1"', "null", "NaN"])
def test_noNumber(value: str) -> None:
    """A value that is not a whole number within its bounds is refused."""
    fields = RequestFields(b'{"n": %b}' % value.encode(), ("n",))
    with pytest.raises(Refusal, match="n must be a whole number from 0 to 9223372036854775807"):
        fields.number("n")


@pytest.mark.parametrize("value", ["1", "null", '["a"]', '"\\ud800"'])
def test_noText(value: str) -> None:
    """A value that is not a text is refused."""
    fields = RequestFields(b'{"t": %b}' % value.encode(), ("t",))
    with pytest.raises(Refusal, match="t must be a text"):
        fields.text("t")


def test_answer() -> None:
    """An error is answered with its code, its number and its text."""
    refusal = Refusal(Reason.NO_LOG, kind="channel", name="a.{b}")
    assert refusal.answer() == {
        "error": {"code": 404, "err_code": 20003, "description": "there is no channel a.{b}"}
    }


def test_numbersDiffer() -> None:
    """Each reason for an error has a unique number."""
    reasons = [reason for reason in vars(Reason).values() if isinstance(reason, tuple)]
    assert len({number for _, number, _ in reasons}) == len(reasons) == 15
