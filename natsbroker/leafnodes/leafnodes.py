"""
All leafnode connections of one broker.

Of two connections of the same leafnode to the same account the older one goes; every
leafnode learns where else it can connect, as members of our cluster come and go; loops can be told
by a subject of each account that nobody else uses.
"""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from twisted.logger import Logger

from natsbroker import errors
from natsbroker.accounts.registry import AccountRegistry
from natsbroker.advisories import Advisory, LeafConnected, LeafDisconnected
from natsbroker.interfaces import IAuthorizer
from natsbroker.leafnodes.accepting import AcceptedLeaf
from natsbroker.leafnodes.dialling import DialledLeaf
from natsbroker.leafnodes.leafnode import LeafLink, LeafPeer
from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.leafnodes.rules import BEACON, apartFor
from natsbroker.leafnodes.terms import (
    LeafRemoteTerms,
    LeafTerms,
    LeafURL,
    connectOptions,
    infoDocument,
)
from natsbroker.links.compression import Compression
from natsbroker.links.context import LinkContext
from natsbroker.links.registry import LinkRegistry
from natsbroker.routes.terms import LinkIdentity
from natsbroker.wire.serverinfo import infoLine

__all__ = ["LeafRegistry"]

_log = Logger(namespace="natsbroker")

_LETTERS = string.ascii_letters + string.digits
_BEACON_LENGTH = 22


class LeafRegistry(LinkRegistry[LeafLink]):
    """
    All leafnode connections of one broker; iterating gives those that are agreed on.

    @ivar identity: who we are.
    @ivar accounts: those that they are admitted to.
    @ivar terms: how we take part.
    @ivar authorizer: gives what decides who is let in.
    @ivar cluster: gives the name of our cluster.
    @ivar notify: takes advisories.
    """

    def __init__(
        self,
        context: LinkContext,
        identity: LinkIdentity,
        accounts: AccountRegistry,
        terms: LeafTerms,
        authorizer: Callable[[], IAuthorizer],
        cluster: Callable[[], str],
        redial: Callable[[LeafRemote], None],
        notify: Callable[[Advisory], None],
        nonceBytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """
        @param redial: called when the connection to one whom we dialled is gone.
        @param nonceBytes: makes the bytes of a nonce.
        """
        super().__init__(context)
        self.identity = identity
        self.accounts = accounts
        self.terms = terms
        self.authorizer = authorizer
        self.cluster = cluster
        self.notify = notify
        self.nonceBytes = nonceBytes
        self.isLeaving = False
        self._redial = redial
        self._urls: tuple[str, ...] = ()
        self._beacons: dict[str, bytes] = {}

    def __iter__(self) -> Iterator[LeafLink]:
        return iter([leaf for leaf in self.everyone() if leaf.traffic is not None])

    def __len__(self) -> int:
        return sum(leaf.traffic is not None for leaf in self.everyone())

    # Sessions.

    def accepted(self, peer: LeafPeer) -> AcceptedLeaf:
        """
        The session of somebody who dialled us.
        """
        return AcceptedLeaf(self, peer)

    def dialled(self, target: LeafRemote) -> Callable[[LeafPeer], DialledLeaf]:
        """
        What makes the session of somebody whom we dialled.
        """
        return lambda peer: DialledLeaf(self, peer, target)

    def apartFor(self, account: str, domain: str) -> tuple[bytes, ...]:
        """
        What of JetStream is not let out to a peer of a domain: see L{natsbroker.leafnodes.rules}.
        """
        terms = self.terms
        domains = terms.domain, domain
        return apartFor(account, terms.system, domains, terms.extends, terms.defaultDomains)

    # What is said.

    def document(self, **connection: Any) -> dict[str, Any]:
        """
        What our INFO says on a connection.
        """
        urls = () if self.isLeaving else self._urls
        return infoDocument(
            self.identity,
            self.terms,
            self.cluster(),
            **connection,
            leafnode_urls=list(urls or [self.identity.ip]),
            ldm=self.isLeaving,
        )

    def connectOptions(
        self, remote: LeafRemoteTerms, url: LeafURL, compression: str
    ) -> dict[str, Any]:
        """
        What our CONNECT says, without what proves who we are.

        @param compression: the level that we send at.
        """
        return connectOptions(self.identity, self.terms, self.cluster(), remote, url, compression)

    def useUrls(self, urls: Iterable[str]) -> None:
        """
        Leafnodes can connect here from now on; tell them.
        """
        before, self._urls = self._urls, tuple(urls)
        if self._urls != before:
            self.announce()

    def announce(self) -> None:
        """
        Tell those who dialled us anew who we are.
        """
        line = infoLine(self.document())
        for leaf in self:
            if not leaf.isDialled:
                leaf.say(line)

    def beaconOf(self, account: str) -> bytes:
        """
        The subject by which we tell that our own interest in an account comes back.
        """
        known = self._beacons.get(account)
        if known is None:
            letters = self.context.random.choices(_LETTERS, k=_BEACON_LENGTH)
            known = self._beacons[account] = BEACON + "".join(letters).encode("ascii")
        return known

    # Coming and going.

    def established(self, leaf: LeafLink) -> None:
        """
        A connection was counted into its account: if it is another one of the same leafnode, the
        older one goes.
        """
        for other in self if not leaf.isDialled and leaf.name and leaf.remoteAccount else ():
            if other is not leaf and not other.isDialled and _sameness(other) == _sameness(leaf):
                other.close(errors.DUPLICATE_LEAF)
                _log.warn("{link} - Replacing connection from same server", link=str(leaf))
                break
        user = "" if leaf.grant is None else leaf.grant.user
        self.notify(LeafConnected(leaf.number, leaf.account, user))

    def linkEnding(self, leaf: LeafLink) -> None:
        """
        A connection ends: it is no longer in its account.
        """
        grant = leaf.grant
        if grant is None:
            return
        self.notify(LeafDisconnected(leaf.number, grant.account, grant.user, leaf.reason))
        leaf.grant = None
        self.accounts.dismiss(grant, leaf.kind)

    def linkGone(self, leaf: LeafLink) -> None:
        """
        A connection is gone: dial again if it was us.
        """
        super().linkGone(leaf)
        if isinstance(leaf, DialledLeaf) and not self.isOver:
            self._redial(leaf.target)

    def isDialled(self, target: LeafRemote) -> bool:
        """
        Whether there is a connection to somebody whom we dial.
        """
        return any(self._to(target))

    def hangUp(self, target: LeafRemote) -> None:
        """
        End the connection to somebody whom we dialled.
        """
        for leaf in self._to(target):
            leaf.close(errors.LEAF_REMOVED)

    def _to(self, target: LeafRemote) -> list[DialledLeaf]:
        return [
            leaf
            for leaf in self.everyone()
            if isinstance(leaf, DialledLeaf) and leaf.target is target and not leaf.reason
        ]

    # Changing.

    def reauthorize(self, account: str | None = None) -> None:
        """
        What was granted may no longer hold.

        @param account: in this account; C{None} for all.
        """
        for leaf in self:
            if isinstance(leaf, AcceptedLeaf) and account in (None, leaf.account):
                leaf.reauthorize()

    def useCompression(self, wanted: Compression, target: LeafRemote | None = None) -> None:
        """
        Compress in another way from now on.

        @param target: the connection to it; C{None} for those of all who dialled us.
        """
        for leaf in self.everyone():
            if (leaf.target if isinstance(leaf, DialledLeaf) else None) is target:
                leaf.useCompression(wanted)

    def leave(self) -> None:
        """
        Tell leafnodes that they will have to connect elsewhere.
        """
        self.isLeaving = True
        self.announce()


def _sameness(leaf: LeafLink) -> tuple[str, ...]:
    """
    What two connections of the same leafnode have in common.
    """
    return leaf.name, leaf.cluster, leaf.account, leaf.remoteAccount
