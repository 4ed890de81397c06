"""
Answers to requests.
"""

from __future__ import annotations

from natsbroker.streaming import protocol
from natsbroker.streaming.replies import Replies
from tests.streaming.support import Inbox, Stage


def test_answers() -> None:
    """Each answer is a message of its kind, with the error in its place."""
    stage = Stage()
    inbox = Inbox(stage)
    replies = Replies(stage.bus)
    replies.connectError(inbox.subject, "e")
    replies.publishError(inbox.subject, "g", "e")
    replies.subscription(inbox.subject, "e")
    replies.close(inbox.subject, "e")
    replies.subscription(inbox.subject)
    replies.close(inbox.subject)
    assert [each.payload for each in inbox.got] == [
        protocol.ConnectResponse(error="e").SerializeToString(),
        protocol.PubAck(guid="g", error="e").SerializeToString(),
        protocol.SubscriptionResponse(error="e").SerializeToString(),
        protocol.CloseResponse(error="e").SerializeToString(),
        b"",
        b"",
    ]


def test_nobodyAsked() -> None:
    """A request without a reply subject is not answered."""
    stage = Stage()
    published: list[object] = []
    stage.bus.subscribe(b">", Inbox(stage, published.append))
    Replies(stage.bus).close(b"", "e")
    assert published == []
