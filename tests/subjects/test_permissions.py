"""
Tests for L{natsbroker.subjects.permissions}.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsbroker.subjects.index import InvalidPattern
from natsbroker.subjects.permissions import (
    ALLOWED,
    DENIED,
    FILTERED,
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
    Verdict,
    queueMatches,
)
from natsbroker.subjects.shapes import TooManyShapes
from tests.subjects.strategies import DELIVERABLE, PATTERNS, QUEUES
from tests.subjects.truthtable import ROWS, permissionsOf

PermissionsType = Callable[..., PermissionSet | SubscribePermissions]


class TestPermissionSet:
    """Subjects that may be published to."""

    @pytest.mark.parametrize(
        ("allow", "deny", "allowed", "refused"),
        [
            (None, [], [b"a", b"a.b", b"$SYS.x"], []),
            ([], [], [], [b"a", b"a.b"]),
            ([b"a", b"b.>"], [], [b"a", b"b.c", b"b.c.d"], [b"b", b"a.b", b"c"]),
            (None, [b"a.*"], [b"a", b"a.b.c"], [b"a.b", b"a.*", b"a.>"]),
            ([b"a.>"], [b"a.b"], [b"a.c", b"a.b.c", b"a.*"], [b"a.b", b"a"]),
            ([b"a.b"], [b"a.>"], [], [b"a.b"]),
            ([b"req.>"], [], [b"req.*", b"req.>", b"req.a"], [b"req", b">", b"*.a"]),
        ],
    )
    def test_rules(
        self,
        allow: list[bytes] | None,
        deny: list[bytes],
        allowed: list[bytes],
        refused: list[bytes],
    ) -> None:
        """
        A denied subject wins over an allowed one; without a list, all are allowed; published
        wildcards are literal.
        """
        permissions = PermissionSet(allow, deny)
        assert [subject for subject in allowed if not permissions.allows(subject)] == []
        assert [subject for subject in refused if permissions.allows(subject)] == []

    @pytest.mark.parametrize(
        ("allow", "deny", "isAllowed"),
        [
            (None, (), True),
            ((b"a.>",), (), True),
            ((b"a.*",), (), True),
            ((b"a.b",), (), False),
            ((), (), False),
            (None, (b"a.b",), False),
            (None, (b"*.b",), False),
            (None, (b"b.>",), True),
        ],
    )
    def test_patterns(
        self, allow: tuple[bytes, ...] | None, deny: tuple[bytes, ...], isAllowed: bool
    ) -> None:
        """A pattern is allowed if one entry covers it and no denied entry overlaps with it."""
        assert PermissionSet(allow, deny).allowsAll(b"a.*") is isAllowed

    def test_answersAreTheSameTwice(self) -> None:
        """A remembered answer equals the first one."""
        permissions = PermissionSet([b"a.*"], [b"a.b"])
        for _ in range(2):
            assert permissions.allows(b"a.c")
            assert not permissions.allows(b"a.b")

    def test_answersAreBounded(self) -> None:
        """However many subjects are checked, few answers are kept, and all are right."""
        permissions = PermissionSet([b"a.>"], [])
        for number in range(5000):
            assert permissions.allows(b"a.%d" % number)
            assert not permissions.allows(b"b.%d" % number)
        assert len(permissions._answers) <= 1024

    def test_queuesAreRefused(self) -> None:
        """An entry that names a queue is an error in permissions to publish."""
        with pytest.raises(InvalidPattern):
            PermissionSet([b"foo queue"])
        with pytest.raises(InvalidPattern):
            PermissionSet(None, [b"foo queue"])


@pytest.mark.parametrize("kind", [PermissionSet, SubscribePermissions])
@pytest.mark.parametrize(
    ("allow", "deny", "text"),
    [
        (["a.>"], (), "allow: a pattern is str, not bytes: write b'a.>'"),
        (None, ["a.>"], "deny: a pattern is str, not bytes"),
        (b"a.>", (), r"allow takes several patterns: write \[b'a.>'\], not b'a.>'"),
        (None, "a.>", "deny takes several patterns"),
    ],
)
def test_wrongTypes(kind: Any, allow: Any, deny: Any, text: str) -> None:
    """A C{str}, or one pattern in place of several, is refused with the right spelling."""
    with pytest.raises(TypeError, match=text):
        kind(allow, deny)


class TestSubscribePermissions:
    """Subjects that may be subscribed to."""

    @pytest.mark.parametrize(
        ("allow", "deny", "pattern", "verdict"),
        [
            (None, [], b">", ALLOWED),
            ([], [], b"a", DENIED),
            ([b"req.>"], [], b">", DENIED),
            ([b"req.>"], [], b"req.>", ALLOWED),
            ([b"req.>"], [], b"req.*.a", ALLOWED),
            ([b"req.>"], [], b"req", DENIED),
            ([b"req.*"], [], b"req.a", ALLOWED),
            ([b"req.*"], [], b"req.*", ALLOWED),
            ([b"req.*"], [], b"req.>", DENIED),
            ([b"*"], [], b">", DENIED),
            ([b"a", b"b"], [], b"*", DENIED),
            ([b"a.*", b"*.b"], [], b"*.*", DENIED),
            (None, [b"bar.secret"], b"bar.secret", DENIED),
            (None, [b"bar.secret"], b"bar.*", FILTERED),
            (None, [b"bar.secret"], b"bar.>", FILTERED),
            (None, [b"bar.secret"], b">", FILTERED),
            (None, [b"bar.secret"], b"*.secret", FILTERED),
            (None, [b"bar.secret"], b"bar.public", ALLOWED),
            (None, [b"bar.secret"], b"foo.*", ALLOWED),
            (None, [b"bar.secret"], b"bar.secret.*", ALLOWED),
            (None, [b"bar.>"], b"bar.a.*", DENIED),
            (None, [b"bar.>"], b"bar.>", DENIED),
            (None, [b"bar.*"], b"bar.>", DENIED),
            (None, [b"*.b.*"], b"a.*.c", FILTERED),
            (None, [b"a.*.c"], b"*.b.*", FILTERED),
            (None, [b"a.b.>"], b"a.*", ALLOWED),
            ([b"a.>"], [b"a.b"], b"a.*", FILTERED),
            ([b"a.>"], [b"a.b"], b"a.b", DENIED),
            ([b"a.b"], [b"a.>"], b"a.b", DENIED),
        ],
    )
    def test_truthTableOfVerdicts(
        self, allow: list[bytes] | None, deny: list[bytes], pattern: bytes, verdict: Verdict
    ) -> None:
        """
        A pattern wider than allowed, or within a denied one, is refused; one that overlaps a denied
        one is filtered.
        """
        assert SubscribePermissions(allow, deny).verdict(pattern) is verdict

    @pytest.mark.parametrize(
        ("allow", "deny", "pattern", "queue", "verdict"),
        [
            ([b"foo"], [], b"foo", b"any", ALLOWED),
            ([b"foo v1"], [], b"foo", b"v1", ALLOWED),
            ([b"foo v1"], [], b"foo", b"v2", DENIED),
            ([b"foo v1"], [], b"foo", b"", DENIED),
            ([b"foo", b"foo v1"], [], b"foo", b"", ALLOWED),
            ([b"foo", b"foo v1"], [], b"foo", b"v1", ALLOWED),
            ([b"foo", b"foo v1"], [], b"foo", b"v2", DENIED),
            ([b"foo v1.*"], [], b"foo", b"v1.a", ALLOWED),
            ([b"foo v1.*"], [], b"foo", b"v1.a.b", DENIED),
            ([b"foo v1.>"], [], b"foo", b"v1.a.b", ALLOWED),
            ([b"foo *", b"foo v1.>"], [], b"foo", b"dev", ALLOWED),
            ([b"> v1"], [], b"foo.>", b"v1", ALLOWED),
            ([b"foo.* v1"], [], b"foo.>", b"v1", DENIED),
            (None, [b"foo v1"], b"foo", b"", ALLOWED),
            (None, [b"foo v1"], b"foo", b"v2", ALLOWED),
            (None, [b"foo v1"], b"foo", b"v1", DENIED),
            (None, [b"foo"], b"foo", b"v1", DENIED),
            (None, [b"foo.bar v1"], b"foo.*", b"v1", FILTERED),
            (None, [b"foo.bar v1"], b"foo.*", b"v2", ALLOWED),
            (None, [b"foo.bar v1"], b"foo.*", b"", ALLOWED),
            (None, [b"foo.bar v1.*"], b"foo.>", b"v1.x", FILTERED),
            (None, [b"foo.bar"], b"foo.*", b"v1", FILTERED),
            (None, [b"*.b.* q"], b"a.*.c", b"q", FILTERED),
            (None, [b"foo", b"foo v1"], b"foo", b"", DENIED),
        ],
    )
    def test_queues(
        self,
        allow: list[bytes] | None,
        deny: list[bytes],
        pattern: bytes,
        queue: bytes,
        verdict: Verdict,
    ) -> None:
        """Entries that name a queue only apply to subscriptions in that queue."""
        assert SubscribePermissions(allow, deny).verdict(pattern, queue) is verdict

    @pytest.mark.parametrize("row", ROWS, ids=str)
    def test_truthTable(self, row: tuple[str, str]) -> None:
        """Plain and queue entries, allowed and denied, do not override one another."""
        entries, expected = row
        allow, deny = permissionsOf(entries)
        permissions = SubscribePermissions(allow, deny)
        verdicts = [permissions.verdict(b"foo", queue) is ALLOWED for queue in (b"", b"q", b"r")]
        assert "".join("-+"[verdict] for verdict in verdicts) == expected

    def test_delivery(self) -> None:
        """A denied subject is not delivered to a wider subscription, in a queue or not."""
        permissions = SubscribePermissions([b"foo.>"], [b"foo.bar", b"foo.baz q"])
        assert not permissions.mayDeliver(b"foo.bar")
        assert not permissions.mayDeliver(b"foo.bar", b"q")
        assert permissions.mayDeliver(b"foo.baz")
        assert permissions.mayDeliver(b"foo.baz", b"r")
        assert not permissions.mayDeliver(b"foo.baz", b"q")
        assert permissions.mayDeliver(b"foo.other", b"q")

    def test_queueSubscriptionDoesNotSkipTheDeny(self) -> None:
        """A queue subscription with wildcards is filtered like a plain one (CVE-2022-29946)."""
        permissions = SubscribePermissions(None, [b"foo.bar"])
        for pattern in (b"foo.*", b"foo.>", b">", b"*.bar", b"*.*"):
            for queue in (b"", b"q"):
                assert permissions.verdict(pattern, queue) is FILTERED
                assert not permissions.mayDeliver(b"foo.bar", queue)

    def test_answersAreBounded(self) -> None:
        """However many deliveries are checked, few answers are kept, and all are right."""
        permissions = SubscribePermissions(None, [b"a.*.x"])
        for number in range(5000):
            assert permissions.mayDeliver(b"a.%d" % number)
            assert not permissions.mayDeliver(b"a.%d.x" % number)
        assert len(permissions._answers) <= 1024

    def test_manyDeniedEntries(self) -> None:
        """
        With hundreds of denied entries, wildcard subscriptions are filtered without comparing all
        entries.
        """
        permissions = SubscribePermissions(None, [b"a.%d" % number for number in range(300)])
        assert permissions.verdict(b"b.*") is FILTERED
        assert permissions.mayDeliver(b"b.7")
        assert not permissions.mayDeliver(b"a.7")
        assert permissions.verdict(b"a.7") is DENIED
        assert permissions.verdict(b"b.7") is ALLOWED

    @pytest.mark.parametrize("entry", [b"", b" ", b"a b c", b"a..b", b"a.b q..r", b"a\tb", b">.a"])
    def test_invalidEntry(self, entry: bytes) -> None:
        """An entry is a subject, or a subject and a queue; anything else is an error."""
        with pytest.raises(InvalidPattern):
            SubscribePermissions([entry])
        with pytest.raises(InvalidPattern):
            SubscribePermissions(None, [entry])

    def test_blanksAroundEntries(self) -> None:
        """Blanks around and between subject and queue do not matter."""
        assert SubscribePermissions([b"  foo   q  "]).verdict(b"foo", b"q") is ALLOWED

    @pytest.mark.parametrize("pattern", [b"", b"foo..bar", b".", b"foo."])
    def test_invalidSubscription(self, pattern: bytes) -> None:
        """A subscription to an invalid subject is not allowed."""
        assert SubscribePermissions([b">"]).verdict(pattern) is DENIED
        assert SubscribePermissions(None, [b">"]).verdict(pattern) is ALLOWED


class TestQueueMatches:
    """Queue names and the queues of permission entries."""

    @pytest.mark.parametrize(
        ("queue", "wanted"),
        [
            (b"q", b"q"),
            (b"q", b"*"),
            (b"q", b">"),
            (b"v1.a", b"v1.*"),
            (b"v1.*", b"v1.*"),
            (b"*", b"*"),
            (b"q.", b"q.>"),
        ],
    )
    def test_matches(self, queue: bytes, wanted: bytes) -> None:
        """A queue name matches an entry with the same text and a pattern that covers it."""
        assert queueMatches(queue, wanted)

    @pytest.mark.parametrize(
        ("queue", "wanted"),
        [(b"q", b"r"), (b"v1", b"v1.*"), (b"v1.a.b", b"v1.*"), (b"xbar", b"*bar"), (b"q.", b"q.*")],
    )
    def test_doesNotMatch(self, queue: bytes, wanted: bytes) -> None:
        """
        Other names do not match; a star within a token is no wildcard; an empty token is invalid.
        """
        assert not queueMatches(queue, wanted)


@pytest.mark.parametrize("kind", [PermissionSet, SubscribePermissions])
class TestValues:
    """Permissions are values."""

    def test_withoutLists(self, kind: PermissionsType) -> None:
        """Only permissions without any list allow everything."""
        assert kind().allowsEverything
        assert kind(None, []).allowsEverything
        assert not kind([]).allowsEverything
        assert not kind([b">"]).allowsEverything
        assert not kind(None, [b"a"]).allowsEverything

    def test_equality(self, kind: PermissionsType) -> None:
        """
        Permissions with the same entries in any order are equal; no list and an empty list differ.
        """
        assert kind([b"a", b"b"], [b"c"]) == kind([b"b", b"a"], [b"c"])
        assert hash(kind([b"a", b"b"])) == hash(kind([b"b", b"a"]))
        assert kind() != kind([])
        assert kind([b"a"]) != kind(None, [b"a"])
        assert kind() != object()

    def test_kindsDiffer(self, kind: PermissionsType) -> None:
        """A value is not equal to one of the other kind."""
        assert {PermissionSet(), SubscribePermissions(), kind()} == {
            PermissionSet(),
            SubscribePermissions(),
        }

    def test_repr(self, kind: PermissionsType) -> None:
        """The representation shows the entries in a stable order."""
        shown = repr(kind([b"b", b"a"], [b"c"]))
        assert shown == f"{kind.__name__}(allow=[b'a', b'b'], deny=[b'c'])"
        assert "allow=None" in repr(kind())

    def test_tooManyShapes(self, kind: PermissionsType) -> None:
        """Lists with too many shapes, which would make every check slow, are refused."""
        patterns = [b".".join([b"a"] * number + [b"*"]) for number in range(1500)]
        with pytest.raises(TooManyShapes):
            kind(patterns)
        with pytest.raises(TooManyShapes):
            kind(None, patterns)


class TestResponsePermission:
    """The permission to answer."""

    def test_defaults(self) -> None:
        """The default is one answer within two minutes, as C{allow_responses: true} means."""
        assert ResponsePermission() == ResponsePermission(max=1, expires=120.0)

    def test_immutable(self) -> None:
        """A response permission cannot be changed, and is hashable."""
        permission = ResponsePermission(2, 0.5)
        with pytest.raises(FrozenInstanceError):
            permission.max = 3  # type: ignore[misc]
        assert {permission: 1}[ResponsePermission(2, 0.5)] == 1


# The reference that the property test compares with: no index, no cache, no shared code.


def reach(pattern: bytes, subject: bytes) -> bool:
    """
    Tell whether a message on the subject reaches the pattern, by regular expression.
    """
    meaning = {b"*": rb"[^.]+", b">": rb"[^.]+(?:\.[^.]+)*"}
    parts = [meaning.get(token, re.escape(token)) for token in pattern.split(b".")]
    return re.fullmatch(rb"\.".join(parts), subject) is not None


def examplesOf(pattern: bytes) -> list[bytes]:
    """
    @return: the subjects that must all be covered by whatever covers the pattern: with tokens that
        stand nowhere else for its wildcards, one and several for the last.
    """
    parts = [b"new" if token == b"*" else token for token in pattern.split(b".")]
    if parts[-1] != b">":
        return [b".".join(parts)]
    return [b".".join(parts[:-1] + [b"new"] * number) for number in (1, 2, 9)]


def concerned(entries: list[bytes], queue: bytes) -> list[bytes]:
    """
    @return: the patterns of the entries that concern a subscription in this queue, or in none.
    """
    patterns = []
    for pattern, wanted in [[*entry.split(), b""][:2] for entry in entries]:
        covered = queue and all(reach(wanted, example) for example in examplesOf(queue))
        if not wanted or wanted == queue or covered:
            patterns.append(pattern)
    return patterns


def may(user: dict[str, list[bytes] | None], verb: str, subject: bytes, queue: bytes) -> bool:
    """
    Tell whether a user may C{PUB} to a subject, C{SUB} to a pattern, or be sent (C{MSG}) a message.

    @param user: lists of entries, or L{None}: C{pub}, C{nopub}, C{sub} and C{nosub}.
    """
    if verb == "PUB":
        allow, deny = user["pub"], user["nopub"] or []
        allowed = allow is None or any(reach(entry, subject) for entry in allow)
        return allowed and not any(reach(entry, subject) for entry in deny)
    if any(reach(entry, subject) for entry in concerned(user["nosub"] or [], queue)):
        return False
    if verb == "MSG" or user["sub"] is None:
        return True
    covering = [
        entry
        for entry in user["sub"]
        if all(reach(entry.split()[0], example) for example in examplesOf(subject))
    ]
    queues = [entry for entry in covering if b" " in entry]
    if queue and queues:
        return bool(concerned(queues, queue))
    return len(covering) > len(queues)


ENTRIES = PATTERNS | st.builds(lambda p, q: (p + b" " + q).strip(), PATTERNS, QUEUES)

USERS = st.fixed_dictionaries(
    {
        "pub": st.none() | st.lists(PATTERNS, max_size=5),
        "nopub": st.lists(PATTERNS, max_size=4),
        "sub": st.none() | st.lists(ENTRIES, max_size=6),
        "nosub": st.lists(ENTRIES, max_size=5),
    }
)


class TestAgainstReference:
    """All rules together, over made-up users."""

    @pytest.mark.slow
    @settings(max_examples=400, deadline=None)
    @given(
        USERS,
        st.lists(DELIVERABLE, min_size=5, max_size=5),
        st.lists(QUEUES, min_size=2, max_size=2),
    )
    def test_sameAsReference(
        self, user: dict[str, list[bytes] | None], subjects: list[bytes], queues: list[bytes]
    ) -> None:
        """Six thousand questions and more are answered as the reference answers them."""
        publish = PermissionSet(user["pub"], user["nopub"] or [])
        subscribe = SubscribePermissions(user["sub"], user["nosub"] or [])
        for subject in subjects:
            assert publish.allows(subject) is may(user, "PUB", subject, b"")
            for queue in queues:
                refused = subscribe.verdict(subject, queue) is DENIED
                assert refused is not may(user, "SUB", subject, queue)
                assert subscribe.mayDeliver(subject, queue) is may(user, "MSG", subject, queue)

    @settings(deadline=None)
    @given(USERS, PATTERNS, QUEUES, DELIVERABLE)
    def test_unfilteredNeedsNoFilter(
        self,
        user: dict[str, list[bytes] | None],
        pattern: bytes,
        queue: bytes,
        subject: bytes,
    ) -> None:
        """A subject that matches an allowed, unfiltered subscription may be delivered."""
        subscribe = SubscribePermissions(user["sub"], user["nosub"] or [])
        if subscribe.verdict(pattern, queue) is ALLOWED and reach(pattern, subject):
            assert subscribe.mayDeliver(subject, queue)

    @settings(deadline=None)
    @given(USERS, PATTERNS, DELIVERABLE)
    def test_nothingBeyondAllow(
        self, user: dict[str, list[bytes] | None], pattern: bytes, subject: bytes
    ) -> None:
        """
        A plain subscription that was allowed only receives subjects that are allowed themselves.
        """
        subscribe = SubscribePermissions(user["sub"])
        if subscribe.verdict(pattern) is not DENIED and reach(pattern, subject):
            assert user["sub"] is None or any(reach(e.split()[0], subject) for e in user["sub"])
