"""
nats-server's reserved subjects: clients may not publish to or with them (PROTOCOL part 2, rows 34
and 35).
"""

from __future__ import annotations

#: Replies mapped between clusters, in their new and their old spelling.
SUBJECTS = (b"_GR_.", b"$GR.")

#: The subjects by which members of a cluster agree; only the system account may use them.
CLUSTER_SUBJECTS = b"$NRG."

#: Replies of service imports, acknowledgements, and replies mapped between clusters.
REPLIES = (b"_R_.", b"$JS.ACK.", *SUBJECTS)

#: The prefixes, all but C{_R_.}, that are not reserved as subjects with nothing behind them.
_BARE = frozenset({b"$JS.ACK.", *SUBJECTS})

_FIRST = (b"_", b"$")


def isReserved(subject: bytes) -> bool:
    return subject[:1] in _FIRST and subject.startswith(SUBJECTS) and subject not in _BARE


def isReservedReply(reply: bytes) -> bool:
    return reply[:1] in _FIRST and reply.startswith(REPLIES) and reply not in _BARE
