"""
The permissions of a leafnode connection in both directions.

A hub applies those of the spoke's user and the denials of the spoke; a spoke applies those that the
hub sends and the denials of its settings. Interest that is permitted in part is accepted, and
messages are checked one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from natsbroker.subjects.collisions import PatternTable
from natsbroker.subjects.grammar import hasWildcard
from natsbroker.subjects.permissions import SubscribePermissions, Verdict, queueMatches
from natsbroker.wire.grants import Grant

#: The beginning of the subjects that detect loops.
LOOP_SUBJECT = b"$LDS."

#: Interest in these is always sent: without it, loops would not be detected and answers lost.
_ALWAYS_PASSING = (LOOP_SUBJECT, b"_GR_.", b"$GR.")

#: Answers to services, which always pass: their subjects cannot be guessed.
_RESPONSES = b"_R_."

#: Acknowledgements, whose subjects can be guessed.
ACKNOWLEDGEMENTS = b"$JS.ACK."

#: The request for a consumer's next message, here and in any domain.
_NEXT = (b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.*.API.CONSUMER.MSG.NEXT.")

#: Subjects of JetStream's clients, which stay on their side of a leafnode connection: requests for
#: the other side name its domain. In the system account the subjects of its servers stay, too.
_JETSTREAM = (b"$JS.API.>", b"$KV.>", b"$OBJ.>")
_JETSTREAM_SERVERS = (b"$JSC.>", b"$NRG.>")

#: The number of verdicts that a gate remembers; on one more, all are forgotten.
_REMEMBERED = 2048


class Gate:
    __slots__ = ("_allowed", "_answers", "_denied", "_permissions")

    def __init__(self, allow: Iterable[bytes] | None = None, deny: Iterable[bytes] = ()) -> None:
        """
        @param allow: patterns, or patterns and queue groups; C{None} for everything.
        @param deny: exceptions, in the same form.
        @raise ValueError: if an entry is not valid.
        """
        self._permissions = SubscribePermissions(allow, deny)
        self._answers: dict[tuple[bytes, bytes], bool] = {}
        self._allowed = _tablesOf(self._permissions.allow or ())
        self._denied = _tablesOf(self._permissions.deny)

    @property
    def isOpen(self) -> bool:
        return self._permissions.allowsEverything

    def allows(self, subject: bytes) -> bool:
        return self.mayDeliver(subject)

    def mayDeliver(self, subject: bytes, queue: bytes = b"") -> bool:
        key = subject, queue
        answer = self._answers.get(key)
        if answer is None:
            answer = self._permissions.verdict(subject, queue) is not Verdict.DENIED
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def verdict(self, pattern: bytes, queue: bytes = b"") -> Verdict:
        if not hasWildcard(pattern):
            return Verdict.ALLOWED if self.mayDeliver(pattern, queue) else Verdict.DENIED
        denied = _concerning(self._denied, queue)
        if any(table.containing(pattern) for table in denied):
            return Verdict.DENIED
        isWhole = self._permissions.allow is None
        if not isWhole:
            allowed = _concerning(self._allowed, queue)
            isWhole = any(table.containing(pattern) for table in allowed)
            if not isWhole and not any(table.overlaps(pattern) for table in allowed):
                return Verdict.DENIED
        isWhole = isWhole and not any(table.overlaps(pattern) for table in denied)
        return Verdict.ALLOWED if isWhole else Verdict.FILTERED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gate) and self._permissions == other._permissions

    __hash__ = None  # type: ignore[assignment]


def _tablesOf(entries: Iterable[bytes]) -> dict[bytes, PatternTable]:
    patterns: dict[bytes, list[bytes]] = {}
    for entry in entries:
        pattern, _, group = entry.partition(b" ")
        patterns.setdefault(group, []).append(pattern)
    return {group: PatternTable(some) for group, some in patterns.items()}


def _concerning(tables: Mapping[bytes, PatternTable], queue: bytes) -> list[PatternTable]:
    """The tables that concern a queue group, or subscriptions without one."""
    return [
        table
        for group, table in tables.items()
        if not group or (queue and queueMatches(queue, group))
    ]


@dataclass(slots=True)
class LeafRules:
    incoming: Gate
    outgoing: Gate

    @property
    def exports(self) -> Gate:
        return self.outgoing

    def mayImport(self, pattern: bytes) -> bool:
        isAlways = pattern.startswith(_ALWAYS_PASSING)
        return isAlways or self.incoming.verdict(pattern) is not Verdict.DENIED

    def mayExport(self, pattern: bytes, queue: bytes = b"") -> Verdict:
        if pattern.startswith(_ALWAYS_PASSING):
            return Verdict.ALLOWED
        return self.outgoing.verdict(pattern, queue)

    def mayCome(self, subject: bytes) -> bool:
        if self.incoming.mayDeliver(subject) or subject.startswith(_RESPONSES):
            return True
        return subject.startswith(ACKNOWLEDGEMENTS) and self._mayAsk(subject)

    def _mayAsk(self, acknowledgement: bytes) -> bool:
        """Whether a consumer may be asked for messages, apart from acknowledgements and C{+NXT}."""
        tokens = acknowledgement.split(b".")
        # The longer form begins with a domain and an account.
        place = 2 if len(tokens) < 11 else 4
        consumer = b".".join(tokens[place : place + 2])
        return any(
            self.incoming.verdict(prefix + consumer) is not Verdict.DENIED for prefix in _NEXT
        )


def domainDenials(
    account: str,
    system: str,
    domains: tuple[str, str],
    extends: bool,
    defaults: Mapping[str, str],
) -> tuple[bytes, ...]:
    """
    The JetStream subjects that do not pass, as in nats-server's C{addLeafNodeConnection}.

    @param system: the name of our system account; empty for none.
    @param domains: the JetStream domains, ours and the peer's; empty for none.
    @param extends: the peer may belong to the same JetStream without a domain.
    @param defaults: see L{natsbroker.config.model.JetStream.default_domains}.
    """
    if account != system:
        return () if defaults.get(account) == "" else _JETSTREAM
    ours, theirs = domains
    isSame = ours == theirs and bool(ours or extends) and "" not in defaults.values()
    return () if isSame else _JETSTREAM + _JETSTREAM_SERVERS


def hubRules(grant: Grant, refused: Iterable[bytes] = ()) -> LeafRules:
    """C{refused} are the patterns that the spoke denies."""
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
    @param imports: the hub's permissions in INFO for messages to us; C{None} for everything.
    @param exports: the hub's permissions in INFO for messages from us.
    @param denyImports: the denials of imports in the settings; C{denyExports} are those of exports.
    @raise ValueError: if the hub sends permissions that are not valid.
    """
    return LeafRules(_gate(imports, denyImports), _gate(exports, denyExports))


def _gate(said: Mapping[str, Any] | None, denied: Iterable[bytes]) -> Gate:
    said = said or {}
    allow = said.get("allow")
    return Gate(
        None if allow is None else list(map(encoded, allow)),
        [*map(encoded, said.get("deny") or ()), *denied],
    )


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def permissionsOf(grant: Grant) -> dict[str, Any]:
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
    return sorted(pattern.decode("utf-8", "surrogateescape") for pattern in patterns)
