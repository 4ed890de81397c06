"""
The rules for publishes of a connection.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker import errors
from natsbroker.clients import admission
from natsbroker.clients.publishing import PublishRule, PublishRules, ReplyTracker
from natsbroker.subjects.permissions import PermissionSet, ResponsePermission, SubscribePermissions
from natsbroker.wire.grants import Grant
from tests.clients.lines import msg, pub
from tests.support import HEADERS, Doorkeeper, World, onEach


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def told(rules: PublishRules, subject: bytes, reply: bytes = b"") -> bytes:
    """The error that a publisher gets; empty if it may publish."""
    violation = rules.violation(subject, reply)
    return b"" if violation is None else violation.error.line(*violation.arguments)


class TestReservedNames:
    """Subjects that no client may publish to."""

    @pytest.mark.parametrize("subject", [b"_GR_.x.y.z", b"$GR.x", b"$NRG.x"])
    def test_subjects(self, subject: bytes) -> None:
        """Subjects of the protocol between servers are refused."""
        text = b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % subject
        assert told(PublishRules(Grant(), False, Time()), subject) == text

    @pytest.mark.parametrize(
        "subject",
        [b"$SYS.foo", b"_R_.x", b"$GNR.a", b"$JS.ACK.a", b"_GR_", b"$GR", b"x_GR_.a", b"$"],
    )
    def test_otherSubjectsAreAllowed(self, subject: bytes) -> None:
        """Subjects that only look alike are allowed."""
        assert told(PublishRules(Grant(), False, Time()), subject) == b""

    def test_cluster(self) -> None:
        """The system account may publish to subjects of the cluster."""
        assert told(PublishRules(Grant(), True, Time()), b"$NRG.x") == b""
        assert told(PublishRules(Grant(), True, Time()), b"$GR.x") != b""

    @pytest.mark.parametrize("reply", [b"_R_.abc", b"$JS.ACK.a.b", b"_GR_.x.y.z"])
    def test_replies(self, reply: bytes) -> None:
        """Reply subjects that only the server makes are refused."""
        text = b"-ERR 'Permissions Violation for Publish with Reply of \"%b\"'\r\n" % reply
        assert told(PublishRules(Grant(), False, Time()), b"foo", reply) == text

    @pytest.mark.parametrize(
        "reply", [b"rep.*", b">", b"foo..", b"$SYS.x", b"$NRG.x", b"_R_", b"$JS.ACK"]
    )
    def test_otherReplies(self, reply: bytes) -> None:
        """Any other reply subject is passed on, even one that no client can publish to."""
        assert told(PublishRules(Grant(), False, Time()), b"foo", reply) == b""


class TestPermissions:
    """Subjects that one user may publish to."""

    def test_permissions(self) -> None:
        """Subjects are allowed and denied. The reply subject is not checked."""
        grant = Grant(publish=PermissionSet([b"req.>"], [b"req.secret"]))
        rules = PublishRules(grant, False, Time())
        assert (
            told(rules, b"req.a") == told(rules, b"req.*") == told(rules, b"req.a", b"nope") == b""
        )
        assert told(rules, b"req.secret") != b""
        assert told(rules, b"nope") == b"-ERR 'Permissions Violation for Publish to \"nope\"'\r\n"

    @pytest.mark.parametrize(
        ("target", "source", "text"),
        [
            (b"req.a", b"", b""),
            (b"req.a", b"open.a", b""),
            (b"req.secret", b"", b"Permissions Violation for Publish"),
            (b"$NRG.x", b"", b"Permissions Violation for Publish"),
            (b"req.a", b"req.a", b"Permissions Violation for Subscription"),
        ],
    )
    def test_schedule(self, target: bytes, source: bytes, text: bytes) -> None:
        """A schedule may publish and show no more than its publisher may."""
        grant = Grant(
            publish=PermissionSet([b"req.>"], [b"req.secret"]),
            subscribe=SubscribePermissions([b"open.>"]),
        )
        rules = PublishRules(grant, False, Time())
        block = b"NATS/1.0\r\nNats-Schedule-Target: %b\r\nNats-Schedule-Source: %b\r\n\r\n"
        block = (
            block % (target, source) if source else block.partition(b"Nats-Schedule-S")[0] % target
        )
        violation = rules.violationIn(block + b"x", len(block))
        shown = b"" if violation is None else violation.error.line(*violation.arguments)
        assert text in shown and bool(text) is bool(shown)
        assert rules.violationIn(b"x" + block, 0) is None

    def test_anyBytes(self) -> None:
        """A subject that is not UTF-8 is shown with escaped bytes in the error."""
        rules = PublishRules(Grant(publish=PermissionSet([])), False, Time())
        assert b'"f\\xff\\xfe"' in told(rules, b"f\xff\xfe")

    def test_permissionComesBeforeTheCluster(self) -> None:
        """A refused publish to a reserved subject does not use up a permitted answer."""
        rules = PublishRules(Grant(responses=ResponsePermission(1, 0)), False, Time())
        assert rules.replies is not None
        rules.replies.delivered(b"_GR_.a")
        rules.violation(b"_GR_.a", b"")
        assert rules.replies.allows(b"_GR_.a")


class TestResponses:
    """The permission to answer."""

    def test_onlyAnswers(self) -> None:
        """A user with only the permission to answer may publish answers only."""
        rules = PublishRules(Grant(responses=ResponsePermission(2, 60)), False, Time())
        assert rules.replies is not None
        assert told(rules, b"_INBOX.a") != b""
        rules.replies.delivered(b"_INBOX.a")
        assert [told(rules, b"_INBOX.a") for _ in range(2)] == [b"", b""]
        denied = b"-ERR 'Permissions Violation for Publish to \"_INBOX.a\"'\r\n"
        assert told(rules, b"_INBOX.a") == denied

    def test_answersAndSubjects(self) -> None:
        """
        Answers are permitted in addition to other subjects, and publishes to those are not counted
        as answers.
        """
        grant = Grant(publish=PermissionSet([b"pub"]), responses=ResponsePermission(1, 0))
        rules = PublishRules(grant, False, Time())
        assert rules.replies is not None
        rules.replies.delivered(b"pub")
        assert [told(rules, b"pub") for _ in range(3)] == [b""] * 3
        assert told(rules, b"other") != b""

    def test_none(self) -> None:
        """No requests are remembered for a user without the permission to answer."""
        rules = PublishRules(Grant(), False, Time())
        assert (rules.replies, rules.permissions) == (None, None)


class TestTracker:
    """The requests that may be answered."""

    def test_expires(self) -> None:
        """A request may be answered until its time is over."""
        time = Time()
        tracker = ReplyTracker(ResponsePermission(5, 10), time)
        tracker.delivered(b"a")
        time.now += 10
        assert tracker.allows(b"a")
        time.now += 0.1
        assert not tracker.allows(b"a")
        assert len(tracker) == 0

    def test_secondRequest(self) -> None:
        """A new request with the same reply subject may be answered again."""
        time = Time()
        tracker = ReplyTracker(ResponsePermission(1, 10), time)
        for _ in range(3):
            tracker.delivered(b"a")
            assert tracker.allows(b"a")
            assert not tracker.allows(b"a")
            time.now += 8

    @pytest.mark.parametrize("maximum", [0, -1])
    def test_unlimited(self, maximum: int) -> None:
        """
        Without a maximum there may be any number of answers, and without a time limit at any time.
        """
        time = Time()
        tracker = ReplyTracker(ResponsePermission(maximum, 0), time)
        tracker.delivered(b"a")
        for _ in range(100):
            time.now += 1000
            assert tracker.allows(b"a")

    def test_bounded(self) -> None:
        """A limited number of requests is remembered, and the oldest is forgotten first."""
        tracker = ReplyTracker(ResponsePermission(), Time())
        for number in range(ReplyTracker.LIMIT + 10):
            tracker.delivered(b"%d" % number)
        assert len(tracker) == ReplyTracker.LIMIT
        assert not tracker.allows(b"9")
        assert tracker.allows(b"10")

    def test_refreshed(self) -> None:
        """A request that was repeated is no longer the oldest one."""
        tracker = ReplyTracker(ResponsePermission(), Time())
        tracker.delivered(b"old")
        for number in range(ReplyTracker.LIMIT - 1):
            tracker.delivered(b"%d" % number)
        tracker.delivered(b"old")
        tracker.delivered(b"one more")
        assert tracker.allows(b"old")
        assert not tracker.allows(b"0")


def fewer(isInLane: bool) -> type[PublishRules]:
    """The rules of publishing and one more, by which a connection may publish to C{a} twice."""

    class Fewer(PublishRules):
        __slots__ = ("_left",)

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._left = 2
            violation: Any = Fewer._tooMany
            self.rules += (PublishRule(violation, isInLane),)

        def _tooMany(self, subject: bytes, reply: bytes) -> errors.ProtocolViolation | None:
            self._left -= subject == b"a"
            if self._left >= 0:
                return None
            return errors.ProtocolViolation(errors.PUBLISH_DENIED, subject.decode())

    return Fewer


@onEach
@pytest.mark.usefixtures("implementation")
class TestLane:
    """The rules that the lane applies, and others."""

    def test_further(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A rule that the lane does not have is applied to each publish."""
        monkeypatch.setattr(admission, "PublishRules", fewer(isInLane=False))
        wire = World().client()
        wire.ask(b"SUB > 1\r\n")
        refusal = b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n"
        answer = wire.ask(*[pub(b"a", b"x")] * 2, pub(b"b", b"x"), *[pub(b"a", b"x")] * 2)
        assert answer == msg(b"a", b"1", b"x") * 2 + msg(b"b", b"1", b"x") + refusal * 2

    def test_mistaken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A rule that is declared as handled by the lane is not asked about messages that the lane
        takes.
        """
        monkeypatch.setattr(admission, "PublishRules", fewer(isInLane=True))
        wire = World().client()
        wire.ask(b"SUB > 1\r\n")
        assert wire.ask(*[pub(b"a", b"x")] * 5) == msg(b"a", b"1", b"x") * 5

    @pytest.mark.parametrize(
        ("subject", "reply"),
        [(b"_GR_.x", b""), (b"no", b""), (b"$NRG.x", b""), (b"a", b"_R_.x")],
    )
    def test_usual(self, subject: bytes, reply: bytes) -> None:
        """The lane takes no publish that violates one of its rules."""
        grant = Grant(publish=PermissionSet(None, [b"no"]))
        wire = World(authorizer=Doorkeeper(lambda hello: grant)).client(HEADERS)
        wire.ask(b"SUB > 1\r\n")
        refused = pub(subject, b"x", reply)
        answer = wire.ask(pub(b"a", b"x"), refused, refused, pub(b"a", b"x"))
        assert PublishRules(grant, False, Time()).areInLane
        assert (answer.count(b"-ERR"), answer.count(b"MSG")) == (2, 2)


def test_errorsStayOpen() -> None:
    """No refusal of a publish closes the connection."""
    assert not errors.PUBLISH_DENIED.closes
    assert not errors.REPLY_DENIED.closes
