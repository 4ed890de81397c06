"""
What may pass between a hub and a spoke, in either direction.

A hub lets through what the spoke's user may publish and subscribe to, and what the spoke
did not refuse; a spoke lets through what the hub told it, and what its settings do not refuse.
Interest in a pattern that only partly may pass stands, and messages are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from natsbroker.subjects.grammar import hasWildcard, isSubset, overlaps
from natsbroker.subjects.permissions import SubscribePermissions, Verdict, queueMatches
from natsbroker.wire.grants import Grant

__all__ = [
    "LOOP_SUBJECT",
    "Gate",
    "LeafRules",
    "domainDenials",
    "hubRules",
    "permissionsOf",
    "spokeRules",
]

#: How the subjects begin that tell loops.
LOOP_SUBJECT = b"$LDS."

#: Interest in what begins so is always told: without it, loops and answers would be lost.
_ALWAYS_TOLD = (LOOP_SUBJECT, b"_GR_.", b"$GR.")

#: Messages that begin so are answers, and always pass.
_ANSWERS = (b"_R_.", b"$JS.ACK.")

#: What JetStream's clients say, which stays on its side of a leafnode connection: requests for the
#: other side name its domain, and so begin otherwise. In the system account this holds for what
#: servers say to each other, too.
_JETSTREAM = (b"$JS.API.>", b"$KV.>", b"$OBJ.>")
_JETSTREAM_SERVERS = (b"$JSC.>", b"$NRG.>")

#: How many answers a gate remembers; on one more, all are forgotten.
_REMEMBERED = 2048


class Gate:
    """
    What may pass in one direction. Two gates with the same entries are equal.
    """

    __slots__ = ("_answers", "_permissions")

    def __init__(self, allow: Iterable[bytes] | None = None, deny: Iterable[bytes] = ()) -> None:
        """
        @param allow: patterns, or patterns and queue groups; C{None} for everything.
        @param deny: the same, of what does not pass although it is allowed.
        @raise ValueError: if one is none.
        """
        self._permissions = SubscribePermissions(allow, deny)
        self._answers: dict[tuple[bytes, bytes], bool] = {}

    @property
    def isOpen(self) -> bool:
        """
        Whether everything passes.
        """
        return self._permissions.allowsEverything

    def allows(self, subject: bytes) -> bool:
        """
        Whether a message passes.
        """
        return self.mayDeliver(subject)

    def mayDeliver(self, subject: bytes, queue: bytes = b"") -> bool:
        """
        Whether a message passes, for a member of a queue group if one is named.
        """
        key = subject, queue
        answer = self._answers.get(key)
        if answer is None:
            answer = self._permissions.verdict(subject, queue) is not Verdict.DENIED
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def verdict(self, pattern: bytes, queue: bytes = b"") -> Verdict:
        """
        Whether messages that match a pattern pass: all, some, or none.
        """
        if not hasWildcard(pattern):
            return Verdict.ALLOWED if self.mayDeliver(pattern, queue) else Verdict.DENIED
        permissions = self._permissions
        denied = _concerning(permissions.deny, queue)
        if any(isSubset(pattern, each) for each in denied):
            return Verdict.DENIED
        isWhole = permissions.allow is None
        if permissions.allow is not None:
            allowed = _concerning(permissions.allow, queue)
            isWhole = any(isSubset(pattern, each) for each in allowed)
            if not isWhole and not any(overlaps(each, pattern) for each in allowed):
                return Verdict.DENIED
        isWhole = isWhole and not any(overlaps(each, pattern) for each in denied)
        return Verdict.ALLOWED if isWhole else Verdict.FILTERED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gate) and self._permissions == other._permissions

    __hash__ = None  # type: ignore[assignment]


def _concerning(entries: Iterable[bytes], queue: bytes) -> list[bytes]:
    """
    The patterns of the entries that hold for a queue group, or for none.
    """
    parts = (each.partition(b" ") for each in entries)
    return [
        pattern
        for pattern, _, group in parts
        if not group or (queue and queueMatches(queue, group))
    ]


class LeafRules:
    """
    Both directions of one connection.

    @ivar incoming: what may come from the peer.
    @ivar outgoing: what may go to it.
    """

    __slots__ = ("incoming", "outgoing")

    def __init__(self, incoming: Gate, outgoing: Gate) -> None:
        self.incoming = incoming
        self.outgoing = outgoing

    @property
    def taken(self) -> Gate:
        return self.outgoing

    def mayTell(self, pattern: bytes) -> bool:
        """
        Whether the peer is told of interest in a pattern.
        """
        isAlways = pattern.startswith(_ALWAYS_TOLD)
        return isAlways or self.incoming.verdict(pattern) is not Verdict.DENIED

    def takes(self, pattern: bytes, queue: bytes = b"") -> Verdict:
        """
        Whether interest of the peer is honoured.
        """
        if pattern.startswith(_ALWAYS_TOLD):
            return Verdict.ALLOWED
        return self.outgoing.verdict(pattern, queue)

    def mayCome(self, subject: bytes) -> bool:
        """
        Whether a message may come from the peer.
        """
        return self.incoming.mayDeliver(subject) or subject.startswith(_ANSWERS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeafRules) and (self.incoming, self.outgoing) == (
            other.incoming,
            other.outgoing,
        )

    __hash__ = None  # type: ignore[assignment]


def domainDenials(
    account: str,
    system: str,
    domains: tuple[str, str],
    extends: bool,
    defaults: Mapping[str, str],
) -> tuple[bytes, ...]:
    """
    What of JetStream's subjects is not let out, as with nats-server (C{addLeafNodeConnection}).

    @param account: ours.
    @param system: the name of our system account; empty for none.
    @param domains: of JetStream: ours and the peer's; empty for none.
    @param extends: whether the peer may belong to the same JetStream without a domain.
    @param defaults: see L{natsbroker.config.model.JetStream.default_domains}.
    """
    if account != system:
        return () if defaults.get(account) == "" else _JETSTREAM
    ours, theirs = domains
    isSame = ours == theirs and bool(ours or extends) and "" not in defaults.values()
    return () if isSame else _JETSTREAM + _JETSTREAM_SERVERS


def hubRules(grant: Grant, refused: Iterable[bytes] = ()) -> LeafRules:
    """
    What a hub lets through.

    @param grant: of the spoke's user.
    @param refused: the patterns that the spoke wants nothing of.
    """
    publish, subscribe = grant.publishing, grant.subscribe
    incoming = Gate() if publish is None else Gate(publish.allow, publish.deny)
    if subscribe is None:
        return LeafRules(incoming, Gate(None, refused))
    return LeafRules(incoming, Gate(subscribe.allow, [*subscribe.deny, *refused]))


def spokeRules(
    imports: Mapping[str, Any] | None,
    exports: Mapping[str, Any] | None,
    denyImports: Iterable[bytes] = (),
    denyExports: Iterable[bytes] = (),
) -> LeafRules:
    """
    What a spoke lets through.

    @param imports: what its hub lets it have, as INFO says it; C{None} for everything.
    @param exports: what its hub takes of it, likewise.
    @param denyImports: what its settings do not want.
    @param denyExports: what they do not give.
    @raise ValueError: if the hub says what makes no sense.
    """
    return LeafRules(_gate(imports, denyImports), _gate(exports, denyExports))


def _gate(said: Mapping[str, Any] | None, denied: Iterable[bytes]) -> Gate:
    said = said or {}
    allow = said.get("allow")
    return Gate(
        None if allow is None else list(map(_bytes, allow)),
        [*map(_bytes, said.get("deny") or ()), *denied],
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def permissionsOf(grant: Grant) -> dict[str, Any]:
    """
    What INFO tells a spoke of what its user may do.
    """
    publish, subscribe = grant.publishing, grant.subscribe
    shown: dict[str, Any] = {}
    if subscribe is not None:
        shown["import"] = _shown(subscribe.allow, subscribe.deny)
    if publish is not None:
        shown["export"] = _shown(publish.allow, publish.deny)
    return shown


def _shown(allow: Iterable[bytes] | None, deny: Iterable[bytes]) -> dict[str, list[str]]:
    shown = {} if allow is None else {"allow": _texts(allow)}
    denied = _texts(deny)
    return {**shown, "deny": denied} if denied else shown


def _texts(patterns: Iterable[bytes]) -> list[str]:
    return sorted(each.decode("utf-8", "surrogateescape") for each in patterns)
