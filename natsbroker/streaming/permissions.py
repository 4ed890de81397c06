"""
Permissions for clients of NATS Streaming, by channel.

An authorizer grants channels without knowing the subjects of requests::

    publish, subscribe = channelPermissions(publish=["orders.anna"], subscribe=["prices.>"])
    return Grant(user="anna", publish=publish, subscribe=subscribe)

The grant contains what any streaming client needs, the named channels, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from natsbroker.subjects.channels import RequestSubjects
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions


def channelPermissions(
    clusterId: str = "test-cluster",
    *,
    publish: Iterable[str] = (),
    subscribe: Iterable[str] = (),
    close: Iterable[str] | None = None,
    unsubscribe: Iterable[str] | None = None,
    discoverPrefix: str = "_STAN.discover",
    inboxes: Iterable[str] = ("_INBOX.>", "_STAN.acks.>"),
) -> tuple[PermissionSet, SubscribePermissions]:
    """
    Permissions to publish and subscribe, for a L{Grant<natsbroker.wire.grants.Grant>}.

    @param clusterId: of the service.
    @param publish: channels that it may publish to; patterns may have C{*} and C{>}.
    @param subscribe: channels that it may subscribe to.
    @param close: channels whose subscriptions it may close; by default those of C{subscribe}.
    @param unsubscribe: channels whose subscriptions it may end for good, durable ones with their
        position; by default those of C{subscribe}.
    @param inboxes: the subjects on which clients wait for answers and messages.
    @raise ValueError: if a pattern is not valid.
    """
    subjects = RequestSubjects(clusterId, discoverPrefix)
    readable = list(subscribe)
    allowed = [subjects.discover, subjects.pings, subjects.close, b"_INBOX.>"]
    allowed += _below(subjects.publish, publish)
    for subject, channels in (
        (subjects.subscribe, readable),
        (subjects.subClose, readable if close is None else close),
        (subjects.unsubscribe, readable if unsubscribe is None else unsubscribe),
    ):
        allowed.append(subject)
        allowed += _below(subject, channels)
    return PermissionSet(allowed), SubscribePermissions([inbox.encode() for inbox in inboxes])


def _below(subject: bytes, channels: Iterable[str]) -> list[bytes]:
    patterns = []
    for channel in channels:
        pattern = channel.encode()
        if not isValidSubject(pattern) or b"/" in pattern:
            raise ValueError(f'invalid channel pattern "{channel}"')
        patterns.append(b"%b.%b" % (subject, pattern))
    return patterns
