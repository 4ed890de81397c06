"""
The subjects under which brokers take requests.

Messages of the broker itself (messages of streams, statuses, answers, heartbeats) are not requests,
whatever their subject, because nobody with a permission published them. No service of this broker
gets them (see L{natsbroker.accounts.delivery}). Another broker would take them for requests of a
user here, so they are not sent to other brokers under these subjects.
"""

from __future__ import annotations

#: The beginnings of the subjects of requests.
PREFIXES = (
    b"$JS.API.",
    b"$JS.ACK.",
    b"$JS.FC.",
    b"$JS.SNAPSHOT.",
    b"$NB.API.",
    b"$NB.JS.",
    b"$NRG.",
    b"$SYS.REQ.",
    b"$SYS.DEBUG.",
    b"_STAN.close.",
    b"_STAN.discover.",
    b"_STAN.pub.",
    b"_STAN.sub.",
    b"_STAN.subclose.",
    b"_STAN.unsub.",
)


def isRequest(subject: bytes) -> bool:
    """
    Whether a broker, this one or another, may handle a message with this subject as a request.
    """
    if subject.startswith((b"_GR_.", b"$GR.")):
        # A reply between clusters, which another one publishes under its own name.
        subject = subject.split(b".", 3 if subject.startswith(b"_") else 2)[-1]
    if not subject.startswith((b"$", b"_S")):
        return False
    if subject.startswith(PREFIXES):
        return True
    if subject.startswith(b"$JS."):
        # The API of a domain.
        return subject.split(b".", 3)[2:3] == [b"API"]
    return subject.startswith(b"$SYS.ACCOUNT.") and subject.endswith(b".CLAIMS.UPDATE")
