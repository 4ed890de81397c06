"""
The responses whose requestors have left, at other brokers.

A broker subscribes to all responses that its services are owed at once, so that others cannot see
whether one of them has a receiver. JetStream must know before it gives away a message that was
pulled. So a broker whose requestor has left subscribes to that response alone, and ends that
subscription at once: from then on the others know that the response has no receiver. nats-server
takes no notice.
"""

from __future__ import annotations

from natsbroker.subjects.grammar import hasWildcard

RESPONSE = b"_R_."
"""The beginning of the subjects of responses."""


def isPull(subject: bytes) -> bool:
    """Whether a request is to a JetStream consumer, for messages."""
    return subject.startswith(b"$JS.") and b".CONSUMER.MSG.NEXT." in subject


_MOST = 10_000
"""The most that are remembered."""


class WithdrawnResponses(dict[bytes, None]):
    """The subjects of responses, each of which is used once."""

    def ended(self, pattern: bytes) -> None:
        if pattern.startswith(RESPONSE) and not hasWildcard(pattern):
            if len(self) >= _MOST:
                del self[next(iter(self))]
            self[pattern] = None
