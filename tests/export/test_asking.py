"""
Who asks, and where answers may go.
"""

from __future__ import annotations

import json

import pytest

from natsbroker.export.asking import ApiRequest
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Message
from tests.export.support import Connection, Inbox, Stage

LIMITED = Grant(subscribe=SubscribePermissions([b"_INBOX.>"]))


@pytest.mark.parametrize(
    ("origin", "reply", "isThere"),
    [
        (None, b"_INBOX.1", True),
        (Connection(Grant()), b"anywhere", True),
        (Connection(LIMITED), b"_INBOX.1", True),
        (Connection(LIMITED), b"orders", False),
        (Connection(None), b"_INBOX.1", False),
        (object(), b"_INBOX.1", False),
        (None, b"", False),
        (None, b"_INBOX.*", False),
    ],
)
def test_isThere(origin: object, reply: bytes, isThere: bool) -> None:
    """Whoever is let in is answered where it may listen itself; services inside, anywhere."""
    message = Message(b"$NB.API.x", b"", reply, origin=origin)
    assert ApiRequest(Stage().bus, message).isThere is isThere


def test_send() -> None:
    """An answer reaches whoever listens, and it is known whether anybody does."""
    stage = Stage()
    asker = ApiRequest(stage.bus, Message(b"$NB.API.x", b"", b"_INBOX.1"))
    assert asker.say({"a": 1}) is False
    inbox = Inbox(b"_INBOX.1")
    stage.bus.subscribe(inbox.subject, inbox)
    assert asker.say({"a": "é"}) is True
    stage.settle()
    assert json.loads(inbox.got[0]) == {"a": "é"}
