"""
Imported streams: the shadows that subscriptions of an account have in the accounts whose streams it
imports.

A subscription that matches an import has a shadow in the exporting account, in the same queue
group, while both exist; messages count for the original subscription, whose permissions hold.
Leafnodes' subscriptions have shadows too, since the peer cannot import what is imported here.

Services have no shadows, because publishers in an exporter's account have no rights in the
importer's. Shadows have no shadows, so a stream is imported from the account that publishes it. A
message that came to the exporter as a request does not leave it as a stream. (Both observed of
nats-server. Unlike there, a subscription that ends after some messages counts the imported ones
too.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.core import AccountCore
from natsbroker.accounts.relays import ImportPath, Relay
from natsbroker.interfaces import ILinkSubscriber
from natsbroker.subjects.interestfilter import clusterOf
from natsbroker.subjects.renaming import Renaming, intersection
from natsbroker.subjects.requests import isRequest
from natsbroker.subjects.subscription import FIRST_LINK_KIND
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Kind, Message

#: Links whose peers have subscribers of their own. Members of our cluster and of other clusters
#: import for their own subscribers.
_LEAFS = frozenset({Kind.HUB, Kind.SPOKE})

#: The subjects of leafnodes' loop detection, within their own account.
_LOOP_SUBJECTS = b"$LDS."


class ImportedStream:
    """An imported stream; C{allowsTrace} is for traces into the importing account."""

    __slots__ = ("allowsTrace", "exporter", "renaming")

    def __init__(
        self, exporter: AccountCore, renaming: Renaming, allowsTrace: bool = False
    ) -> None:
        self.exporter = exporter
        self.renaming = renaming
        self.allowsTrace = allowsTrace

    def patternFor(self, pattern: bytes) -> bytes | None:
        shared = intersection(pattern, self.renaming.ours)
        return None if shared is None else self.renaming.toTheirs(shared)

    def __repr__(self) -> str:
        return f"<StreamImport of {self.exporter.name!r}: {self.renaming!r}>"


class _ShadowRelay(Relay):
    __slots__ = ("_allowsTrace", "_importer", "_original", "_pattern", "_renaming")

    def __init__(
        self,
        importer: AccountCore,
        imported: ImportedStream,
        original: hot.Subscription,
        pattern: bytes,
    ) -> None:
        self._importer = importer
        self._allowsTrace = imported.allowsTrace
        self._pattern = pattern
        self._renaming = imported.renaming
        self._original = original

    def relay(self, message: Message, kind: Kind, path: ImportPath | None) -> bool:
        if path is not None:
            return False
        renaming = self._renaming
        if not renaming.keeps:
            message = message.readdressed(renaming.toOurs(message.subject), message.reply)
        trace = message.trace
        if trace is not None:
            trace.add("se", acc=self._importer.name, to=decoded(message.subject))
            trace.pattern = self._pattern
            if not self._allowsTrace:
                trace.pattern = b""
                if trace.isOnly:
                    return True
                message = message.readdressed(message.subject, message.reply)
                message.trace = None
        return self._importer.delivery.deliverTo(self._original, message, kind, None)

    def reaches(self, subject: bytes, kind: Kind, hops: int) -> bool:
        return not hops


@implementer(ILinkSubscriber)
class _ForeignLink:
    """
    A leafnode as a subscriber of another account. There is one object for each leafnode, so that a
    message passes once.

    @ivar leafnode: the leafnode itself, which messages from it do not go back to.
    @ivar cluster: the cluster of a hub. Empty for a spoke, since the members of its cluster do not
        import for each other (see L{natsbroker.accounts.delivery}).
    """

    __slots__ = ("__weakref__", "cluster", "leafnode", "tracePeer")

    def __init__(self, leafnode: ILinkSubscriber, isHub: bool) -> None:
        self.leafnode = leafnode
        self.cluster = clusterOf(leafnode) if isHub else b""
        self.tracePeer = getattr(leafnode, "tracePeer", None)

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        self.leafnode.forward(message, queues)


class _RenamingLink(_ForeignLink):
    """A leafnode as a subscriber of another account, with renamed subjects; one for each import."""

    __slots__ = ("_renaming",)

    def __init__(self, leafnode: ILinkSubscriber, isHub: bool, renaming: Renaming) -> None:
        super().__init__(leafnode, isHub)
        self._renaming = renaming

    def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
        renamed = message.readdressed(self._renaming.toOurs(message.subject), message.reply)
        self.leafnode.forward(renamed.withReplyPrefix(message.via), queues)


class _RenamedPermissions:
    __slots__ = ("_original", "_renaming")

    def __init__(self, original: hot.Subscription, renaming: Renaming) -> None:
        self._original = original
        self._renaming = renaming

    def mayDeliver(self, subject: bytes, queue: bytes = b"") -> bool:
        name = self._renaming.toOurs(subject)
        if isRequest(name):
            # The leafnode would mistake the message for a request of this account's users.
            return False
        permissions: Any = self._original.permissions
        return permissions is None or bool(permissions.mayDeliver(name, queue))


class Shadows:
    def __init__(self, importer: AccountCore) -> None:
        self._importer = importer
        self._imports: tuple[ImportedStream, ...] = ()
        # A foreign link keeps its leafnode alive, so the key is unique while the link exists.
        self._links: WeakValueDictionary[tuple[int, ImportedStream | None], _ForeignLink] = (
            WeakValueDictionary()
        )
        self._shadows: dict[hot.Subscription, list[tuple[AccountCore, hot.Subscription]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._shadows.values()))

    def replace(self, imports: Sequence[ImportedStream]) -> list[Exception]:
        """
        Replace the imports. Return the errors of exporters' routers that take no more
        subscriptions.
        """
        for subscription in list(self._shadows):
            self.removed(subscription)
        self._imports = tuple(imports)
        problems: list[Exception] = []
        if self._imports:
            for subscription in list(self._importer.subscriptions()):
                try:
                    self.added(subscription)
                except Exception as problem:
                    # Attach the other subscriptions first; the caller reports the problems.
                    problems.append(problem)
        return problems

    def refresh(self) -> None:
        for exporter in {imported.exporter for imported in self._imports}:
            exporter.matcher.changed(b">")

    def added(self, subscription: hot.Subscription) -> None:
        """
        Make the shadows of a subscription. If a router takes no more, raise
        L{natsbroker.errors.BrokerError}, and make none.
        """
        isLeaf = subscription.kind in _LEAFS and not subscription.pattern.startswith(_LOOP_SUBJECTS)
        isLink = subscription.kind >= FIRST_LINK_KIND
        isService = isinstance(subscription, hot.ServiceSubscription)
        if (isLink and not isLeaf) or isService or isinstance(subscription.subscriber, Relay):
            return
        made: list[tuple[AccountCore, hot.Subscription]] = []
        for imported in self._imports:
            pattern = imported.patternFor(subscription.pattern)
            if pattern is None:
                continue
            make = self._leafShadow if isLeaf else self._shadow
            shadow = make(imported, pattern, subscription)
            try:
                imported.exporter.attach(shadow)
            except Exception:
                _end(made)
                raise
            made.append((imported.exporter, shadow))
        if made:
            self._shadows[subscription] = made

    def _shadow(
        self, imported: ImportedStream, pattern: bytes, original: hot.Subscription
    ) -> hot.Subscription:
        renaming = imported.renaming
        relay = _ShadowRelay(self._importer, imported, original, pattern)
        rename = None if renaming.keeps else renaming.toOurs
        return hot.Shadow(imported.exporter, pattern, relay, original, rename)

    def _leafShadow(
        self, imported: ImportedStream, pattern: bytes, original: hot.Subscription
    ) -> hot.Subscription:
        """
        Make the shadow of a leafnode, which is a link in the other account too. It gets each
        message once, with its queue groups, and from the lane if names are unchanged. The lane
        cannot compare the accounts of hubs that only a substitute name tells apart.
        """
        leafnode, renaming = original.subscriber, imported.renaming
        key = id(leafnode), None if renaming.keeps else imported
        link = self._links.get(key)
        if link is None:
            isHub = getattr(leafnode, "kind", None) == Kind.HUB
            link = self._links[key] = (
                _ForeignLink(leafnode, isHub)
                if renaming.keeps
                else _RenamingLink(leafnode, isHub, renaming)
            )
        isDirect = renaming.keeps and (not link.cluster or leafnode.isNamed)
        return hot.Subscription(
            imported.exporter,
            pattern,
            original.queue,
            original.kind,
            link,
            original.tag,
            original.outbox if isDirect else None,
            _RenamedPermissions(original, renaming),
            original.weight,
        )

    def reweighed(self, subscription: hot.Subscription) -> None:
        for _, shadow in self._shadows.get(subscription, ()):
            shadow.reweigh(subscription.weight)

    def removed(self, subscription: hot.Subscription) -> None:
        _end(self._shadows.pop(subscription, ()))


def _end(shadows: Sequence[tuple[AccountCore, hot.Subscription]]) -> None:
    for exporter, shadow in shadows:
        exporter.detach(shadow)
