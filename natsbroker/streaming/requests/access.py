"""
The user behind a request, and its permissions for channels.

The grant of a connection decides, so nothing is configured twice: a request about a channel is
allowed if the connection may publish to the subject of the request with the channel behind it, as
docs/topics/streaming.md lists them. The permission to subscribe is looked at again with every
acknowledgement.

A client belongs to the user that connected it. Requests of other users in its name are refused. A
client can have messages, heartbeats and answers sent only to subjects that it may subscribe to. For
users at peers this is not known, so theirs are sent to inboxes only.

A message over a link was admitted by a peer, which knows its subject but not the channel inside. So
a message that is published over a link must name the same channel in both.

Unknown users are refused; programs in this process name an origin of their own. The answer for an
origin is looked up once for consecutive messages.
"""

from __future__ import annotations

from natsbroker.interfaces import ILinkSubscriber, IOrigin, IPeerOrigin
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.subjects.permissions import DENIED
from natsbroker.wire.grants import Grant, Verb


def belongsTo(owner: str, other: str) -> bool:
    """Whether an owner may act for another's client or durable subscription."""
    return not owner or owner == other


class Requester:
    """
    The sender of a request to the service.

    @ivar name: the account and the user that own the clients. It is empty if the grant names none.
    @ivar hearsAll: whether messages may be sent anywhere on its behalf.
    @ivar isLink: whether it is a link, which stands for many users.
    @ivar isKnown: whether the user is known.
    """

    __slots__ = ("_grant", "_isPeer", "hearsAll", "isKnown", "isLink", "name", "unrestricted")

    def __init__(self, grant: Grant | None, isLink: bool = False, isPeer: bool = False) -> None:
        """
        C{grant} is C{None} if nothing is granted. C{isPeer} stands for users that are unknown here.
        """
        self._grant = grant
        self._isPeer = isPeer
        self.isLink = isLink
        self.hearsAll = grant is not None and grant.subscribe is None and not isPeer
        self.isKnown = grant is not None
        self.name = f"{grant.account}/{grant.user}" if grant is not None and grant.user else ""
        self.unrestricted = grant is not None and grant.publishing is None

    def may(self, subject: bytes, channel: bytes) -> bool:
        if self.unrestricted:
            return True
        grant = self._grant
        if grant is None:
            return False
        return grant.may(Verb.PUBLISH, b"%b.%b" % (subject, channel)) is not DENIED

    def mayHear(self, inbox: bytes) -> bool:
        """
        Whether messages may be sent to a subject on its behalf. It must be allowed to subscribe to
        it.
        """
        if not isValidLiteral(inbox):
            return False
        if self.hearsAll:
            return True
        if self._isPeer and not inbox.startswith(_INBOXES):
            return False
        grant = self._grant
        return grant is not None and grant.may(Verb.SUBSCRIBE, inbox) is not DENIED

    def actsFor(self, owner: str) -> bool:
        return self.isKnown and belongsTo(owner, self.name)


#: Where clients listen for answers: the libraries' inboxes, and those of acknowledgements.
_INBOXES = (b"_INBOX.", b"_STAN.acks.")

_NOBODY = Requester(None)


def requesterOf(origin: object) -> Requester:
    if not IOrigin.providedBy(origin):
        return _NOBODY
    grant: Grant | None = origin.grant
    if grant is None:
        return _NOBODY
    isLink = ILinkSubscriber.providedBy(origin)
    isPeer = IPeerOrigin.providedBy(origin) and origin.isPeer
    return Requester(grant, isLink, isPeer)
