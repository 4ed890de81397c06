"""
The rules for subjects between a hub and a spoke.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.leafnodes.rules import (
    Gate,
    LeafRules,
    domainDenials,
    hubRules,
    permissionsOf,
    spokeRules,
)
from natsbroker.subjects.grammar import hasWildcard, isSubset, matches, overlaps
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions, Verdict
from natsbroker.testing.strategies import literalSubjects, patterns
from natsbroker.wire.grants import Grant
from tests.counting import callsOf

PATTERNS = st.lists(patterns(), max_size=3)


class TestGate:
    """The rules of one direction."""

    @pytest.mark.parametrize(
        "allow, deny, pattern, queue, verdict",
        [
            (None, [], b"a", b"", Verdict.ALLOWED),
            ([b"a.>"], [], b"a.b", b"", Verdict.ALLOWED),
            ([b"a.>"], [], b"b", b"", Verdict.DENIED),
            ([b"a.>"], [], b">", b"", Verdict.FILTERED),
            ([b"a.>"], [], b"b.*", b"", Verdict.DENIED),
            (None, [b"a"], b"*", b"", Verdict.FILTERED),
            (None, [b"a.*"], b"a.*", b"", Verdict.DENIED),
            ([b"a.b"], [b"a.*"], b"*.*", b"", Verdict.FILTERED),
            ([b"a q"], [], b"a", b"q", Verdict.ALLOWED),
            ([b"a q"], [], b"a", b"r", Verdict.DENIED),
            ([b"a q"], [], b"*", b"q", Verdict.FILTERED),
        ],
    )
    def test_verdict(
        self,
        allow: list[bytes] | None,
        deny: list[bytes],
        pattern: bytes,
        queue: bytes,
        verdict: Verdict,
    ) -> None:
        """Interest is denied only if none of its subjects is allowed."""
        assert Gate(allow, deny).verdict(pattern, queue) is verdict

    @given(st.none() | PATTERNS, PATTERNS, patterns(), literalSubjects())
    def test_agree(
        self, allow: list[bytes] | None, deny: list[bytes], pattern: bytes, subject: bytes
    ) -> None:
        """
        A pattern that matches an allowed subject is not denied, and an allowed pattern matches only
        allowed subjects.
        """
        gate = Gate(allow, deny)
        isAllowed = allow is None or any(matches(rule, subject) for rule in allow)
        passes = isAllowed and not any(matches(rule, subject) for rule in deny)
        assert gate.allows(subject) is passes
        if passes and matches(pattern, subject):
            assert gate.verdict(pattern) is not Verdict.DENIED
        if matches(pattern, subject) and gate.verdict(pattern) is Verdict.ALLOWED:
            assert passes

    def test_bounded(self) -> None:
        """The number of remembered answers is limited."""
        gate = Gate([b"a.*"])
        assert all(gate.allows(b"a.%d" % number) for number in range(5000))

    def test_invalidPattern(self) -> None:
        """An invalid pattern is refused."""
        with pytest.raises(ValueError, match="not a subject"):
            Gate([b"a..b"])

    def test_equalRules(self) -> None:
        """Rules with the same entries are equal."""
        assert Gate([b"a"]) == Gate([b"a"]) and Gate([b"a"]) != Gate() and Gate().isOpen


class TestRules:
    """The rules of both directions."""

    def test_hub(self) -> None:
        """A hub applies the permissions of the spoke's user, and the spoke's own denials."""
        grant = Grant(publish=PermissionSet([b"up"]), subscribe=SubscribePermissions([b"down.*"]))
        rules = hubRules(grant, [b"down.x"])
        assert (rules.mayCome(b"up"), rules.mayCome(b"down.a")) == (True, False)
        assert rules.mayExport(b"down.a") is Verdict.ALLOWED
        assert rules.mayExport(b"down.x") is Verdict.DENIED
        assert rules.mayExport(b"down.*") is Verdict.FILTERED
        assert (rules.mayImport(b"up"), rules.mayImport(b"down.a")) == (True, False)
        free = hubRules(Grant(), [b"x"])
        assert free.mayCome(b"anything") and free.mayExport(b"x") is Verdict.DENIED

    def test_spoke(self) -> None:
        """A spoke applies the permissions of its hub, and the denials of its settings."""
        rules = spokeRules({"allow": ("a.*",), "deny": ()}, None, [b"a.x"], [b"secret"])
        assert (rules.mayCome(b"a.b"), rules.mayCome(b"a.x"), rules.mayCome(b"b")) == (
            True,
            False,
            False,
        )
        assert (
            rules.mayExport(b"b") is Verdict.ALLOWED
            and rules.mayExport(b"secret") is Verdict.DENIED
        )

    @pytest.mark.parametrize("subject", [b"$LDS.x", b"_GR_.x", b"$GR.x"])
    def test_always(self, subject: bytes) -> None:
        """Subjects of loop detection and of gateway replies are always allowed."""
        rules = LeafRules(Gate(()), Gate(()))
        assert rules.mayImport(subject) and rules.mayExport(subject) is Verdict.ALLOWED

    def test_responses(self) -> None:
        """A response of an imported service is always allowed."""
        assert LeafRules(Gate(()), Gate(())).mayCome(b"_R_.x.y")

    @pytest.mark.parametrize(
        "subject", [b"$JS.ACK.S.c.1.2.3.4.5", b"$JS.ACK._.HASH.S.c.1.2.3.4.5", b"$JS.ACK.S.c"]
    )
    @pytest.mark.parametrize(
        ("allow", "deny", "isAllowed"),
        [
            (None, (), True),
            ((), (), False),
            (None, (b">",), False),
            ((b"$JS.ACK.>",), (), True),
            ((b"$JS.API.CONSUMER.MSG.NEXT.S.c",), (), True),
            ((b"$JS.hub.API.>",), (), True),
            ((b"$JS.API.CONSUMER.MSG.NEXT.S.other",), (), False),
            ((b"$JS.API.CONSUMER.INFO.>",), (), False),
        ],
    )
    def test_acknowledgements(
        self, allow: Any, deny: tuple[bytes, ...], isAllowed: bool, subject: bytes
    ) -> None:
        """
        An acknowledgement is allowed only if pulls from its consumer are, or if its subject is
        named.
        """
        assert LeafRules(Gate(allow, deny), Gate(())).mayCome(subject) is isAllowed

    def test_permissionsAreRead(self) -> None:
        """A spoke can read the permissions that a hub sends."""
        grant = Grant(
            publish=PermissionSet([b"a", b"b"], [b"c"]),
            subscribe=SubscribePermissions(None, [b"d q"]),
        )
        said = permissionsOf(grant)
        assert said == {"import": {"deny": ["d q"]}, "export": {"allow": ["a", "b"], "deny": ["c"]}}
        hub, spoke = hubRules(grant), spokeRules(said["import"], said["export"])
        assert hub.incoming == spoke.outgoing and hub.outgoing == spoke.incoming
        assert permissionsOf(Grant()) == {}


CLIENTS = (b"$JS.API.>", b"$KV.>", b"$OBJ.>")
SERVERS = (b"$JSC.>", b"$NRG.>")


class TestJetStream:
    """The JetStream subjects that are not forwarded."""

    @pytest.mark.parametrize("domains", [("", ""), ("hub", ""), ("hub", "leaf"), ("hub", "hub")])
    def test_account(self, domains: tuple[str, str]) -> None:
        """Requests without a domain are denied, whatever the domains."""
        assert domainDenials("A", "SYS", domains, True, {}) == CLIENTS
        assert domainDenials("A", "", domains, False, {"A": "hub", "B": ""}) == CLIENTS

    def test_oneJetStream(self) -> None:
        """Nothing is denied in an account whose default domain is empty."""
        assert domainDenials("A", "SYS", ("", ""), False, {"A": ""}) == ()

    @pytest.mark.parametrize(
        ("domains", "extends", "defaults", "isApart"),
        [
            (("hub", "hub"), False, {}, False),
            (("hub", "leaf"), True, {}, True),
            (("", "hub"), True, {}, True),
            (("", ""), False, {}, True),
            (("", ""), True, {}, False),
            (("hub", "hub"), True, {"A": ""}, True),
            (("hub", "hub"), True, {"A": "x"}, False),
        ],
    )
    def test_system(
        self, domains: tuple[str, str], extends: bool, defaults: dict[str, str], isApart: bool
    ) -> None:
        """The system account's JetStream subjects are allowed only within one domain."""
        denials = domainDenials("SYS", "SYS", domains, extends, defaults)
        assert denials == (CLIENTS + SERVERS if isApart else ())


@given(
    st.none() | PATTERNS,
    PATTERNS,
    patterns(),
    st.sampled_from([b"", b"q", b"v1"]),
)
def test_verdict(
    allow: list[bytes] | None, deny: list[bytes], pattern: bytes, queue: bytes
) -> None:
    """The verdict for a pattern equals that of comparing it with each entry."""
    allow = allow and [*allow, allow[0] + b" q"]
    deny += [rule + b" v1" for rule in deny[:1]]

    def concerned(entries: list[bytes]) -> list[bytes]:
        parts = (entry.partition(b" ") for entry in entries)
        return [rule for rule, _, group in parts if group in (b"", queue)]

    denied = concerned(deny)
    allowed = [b">"] if allow is None else concerned(allow)
    isWhole = any(isSubset(pattern, rule) for rule in allowed)
    isPart = isWhole or any(overlaps(pattern, rule) for rule in allowed)
    if any(isSubset(pattern, rule) for rule in denied) or not isPart:
        expected = Verdict.DENIED
    elif isWhole and not any(overlaps(pattern, rule) for rule in denied):
        expected = Verdict.ALLOWED
    else:
        expected = Verdict.FILTERED
    if hasWildcard(pattern):
        assert Gate(allow, deny).verdict(pattern, queue) is expected


def test_verdictWork() -> None:
    """The verdict for a pattern takes the same work with any number of entries."""
    calls = []
    for count in (100, 4000):
        gate = Gate([b"a.%d" % number for number in range(count)], [b"d.*.%d" % count])
        gate.verdict(b"a.*")
        calls.append(callsOf(partial(gate.verdict, b"a.*")))
    assert calls[0] == calls[1] > 0
