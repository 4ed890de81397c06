"""
The responses that no requestor waits for any more, as other brokers report them.

A broker has one subscription for all responses to its requests. So other brokers do not see whether
a single response still has a receiver. JetStream must know this before it delivers to a pull
request. Therefore a broker whose requestor has left subscribes to that response alone, and
unsubscribes at once. From then on the others know that this response has no receiver. nats-server
ignores it.
"""

from __future__ import annotations

from natsbroker.subjects.grammar import hasWildcard

RESPONSE = b"_R_."
"""The beginning of the subjects of responses."""


def isPull(subject: bytes) -> bool:
    """Whether a request pulls messages from a JetStream consumer."""
    return subject.startswith(b"$JS.") and b".CONSUMER.MSG.NEXT." in subject


_MOST = 10_000
"""The most that are remembered."""


class WithdrawnResponses(dict[bytes, None]):
    """The subjects of responses, each of which is used once."""

    def ended(self, pattern: bytes) -> None:
        """Remember a response whose subscription ended, at another broker."""
        if pattern.startswith(RESPONSE) and not hasWildcard(pattern):
            if len(self) >= _MOST:
                del self[next(iter(self))]
            self[pattern] = None
