"""
The requests of a priority group that may have a message.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.consumers.groups import GroupVerdict, PriorityGroup
from natsbroker.jetstream.consumers.pull import GroupTerms, PullRequest
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig, PriorityPolicy


def group(policy: PriorityPolicy) -> PriorityGroup:
    """A priority group with a policy; pinned clients get the ids P1 and P2."""
    pins = iter(["P1", "P2"])
    config = ConsumerConfig(priority_groups=("g",), priority_policy=policy)
    return PriorityGroup(config, lambda: next(pins), lambda: 77)


def request(**terms: object) -> PullRequest:
    """
    A request of the group.
    """
    made = PullRequest(b"r")
    made.terms = GroupTerms(**{"group": "g", **terms})  # type: ignore[arg-type]
    return made


def test_pinned() -> None:
    """
    With pinned_client, the first request pins its client, others wait, and old ids are refused.
    """
    pinned = group(PriorityPolicy.PINNED_CLIENT)
    first = request()
    assert pinned.judge(first, 1, 0) == GroupVerdict.SERVE_PINNED
    assert (pinned.pin, pinned.pinnedAt, first.terms and first.terms.pin) == ("P1", 77, "P1")
    assert pinned.judge(first, 1, 0) == GroupVerdict.SERVE
    assert pinned.judge(request(), 1, 0) == GroupVerdict.WAIT
    assert pinned.judge(PullRequest(b"r"), 1, 0) == GroupVerdict.WAIT
    assert pinned.judge(request(pin="old"), 1, 0) == GroupVerdict.WRONG_PIN
    assert pinned.isFromPinned(request(pin="P1"))
    assert not pinned.isFromPinned(request())
    assert pinned.isWrongPin(request(pin="old"))
    assert not pinned.isWrongPin(request())
    pinned.unpin()
    assert (pinned.pin, pinned.pinnedAt) == ("", 0)
    assert pinned.judge(first, 1, 0) == GroupVerdict.WRONG_PIN
    assert not pinned.isWrongPin(request(pin="old"))
    assert pinned.judge(PullRequest(b"r"), 1, 0) == GroupVerdict.SERVE
    assert pinned.judge(request(), 1, 0) == GroupVerdict.SERVE_PINNED


@pytest.mark.parametrize(
    ("terms", "pending", "ackPending", "verdict"),
    [
        ({}, 0, 0, GroupVerdict.SERVE),
        ({"minPending": 3}, 2, 9, GroupVerdict.WAIT),
        ({"minPending": 3}, 3, 0, GroupVerdict.SERVE),
        ({"minAckPending": 3}, 9, 2, GroupVerdict.WAIT),
        ({"minAckPending": 3}, 0, 3, GroupVerdict.SERVE),
        ({"minPending": 3, "minAckPending": 3}, 0, 3, GroupVerdict.SERVE),
        ({"minPending": 3, "minAckPending": 3}, 2, 2, GroupVerdict.WAIT),
    ],
)
def test_overflow(terms: dict[str, int], pending: int, ackPending: int, verdict: int) -> None:
    """With overflow, a request is served when it reaches min_pending or min_ack_pending."""
    overflow = group(PriorityPolicy.OVERFLOW)
    assert overflow.judge(request(**terms), pending, ackPending) == verdict


def test_prioritized() -> None:
    """With prioritized, the group serves every request."""
    assert group(PriorityPolicy.PRIORITIZED).judge(request(), 1, 0) == GroupVerdict.SERVE
