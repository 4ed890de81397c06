"""
Contract tests for providers of the interfaces: routers, authorizers, buses, subscribers, watchers.

Each function takes a factory of the provider and returns a trial test case, which any test runner
collects from a module::

    from natsbroker.testing.contracts import subjectRouterTests

    TestMyRouter = subjectRouterTests(MyRouter)

(Contracts of stores are in L{natsbroker.testing.contracts.stores}.)

Only the public interfaces are used; a provider that breaks one of their sentences fails a
test that says which.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.errors import Unauthorized
from natsbroker.interfaces import (
    IAuthorizer,
    IInterestWatcher,
    IMessageBus,
    ISubjectRouter,
    ISubscriber,
    ISubscription,
)
from natsbroker.subjects.grammar import matches
from natsbroker.testing.strategies import literalSubjects, patterns
from natsbroker.wire.grants import ConnectRequest, Grant
from natsbroker.wire.values import Message

__all__ = [
    "authorizerTests",
    "interestWatcherTests",
    "messageBusTests",
    "subjectRouterTests",
    "subscriberTests",
]

#: Patterns, subjects, and whether the one matches the other.
MATCHES: Sequence[tuple[bytes, bytes, bool]] = (
    (b"a", b"a", True),
    (b"a", b"b", False),
    (b"a", b"a.b", False),
    (b"a.b", b"a", False),
    (b"*", b"a", True),
    (b"*", b"a.b", False),
    (b"a.*", b"a.b", True),
    (b"a.*", b"a", False),
    (b"a.*", b"a.b.c", False),
    (b"*.b", b"a.b", True),
    (b"*.*", b"a.b", True),
    (b"a.*.c", b"a.b.c", True),
    (b"a.*.c", b"a.b.d", False),
    (b">", b"a", True),
    (b">", b"a.b.c", True),
    (b"a.>", b"a.b", True),
    (b"a.>", b"a.b.c", True),
    (b"a.>", b"a", False),
    (b"*.>", b"a.b", True),
    (b"*.>", b"a", False),
    (b"a*", b"a*", True),
    (b"a*", b"ab", False),
    (b">a", b"b", False),
    (b"a.*", b"a.*", True),
    (b"a.b", b"a.*", False),
    (b"a.>", b"a.>", True),
    (b"a.*", b"a.>", True),
    (b"A", b"a", False),
    (b"\xff.\xc3\xb6", b"\xff.\xc3\xb6", True),
)

QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)


class Contract(SynchronousTestCase):
    """
    The base of all suites: trial's assertions with types.
    """

    def same(self, one: object, other: object, about: object = None) -> None:
        """
        Fail unless two values are equal.
        """
        self.assertEqual(one, other, about)  # type: ignore[no-untyped-call]

    def holds(self, value: object, about: object = None) -> None:
        """
        Fail unless a value is true.
        """
        self.assertTrue(value, about)  # type: ignore[no-untyped-call]

    def isNothing(self, value: object, about: object = None) -> None:
        """
        Fail unless a value is C{None}.
        """
        self.assertIs(value, None, about)  # type: ignore[no-untyped-call]

    def refuses(
        self, error: type[Exception], call: Callable[..., object], *arguments: object
    ) -> None:
        """
        Fail unless a call raises.
        """
        self.assertRaises(error, call, *arguments)  # type: ignore[no-untyped-call]


class _Entry:
    """
    An entry that is equal to all others: a router distinguishes entries by identity.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Entry)

    def __hash__(self) -> int:
        return 1


def _same(found: Iterable[Any], expected: Iterable[Any]) -> bool:
    return sorted(map(id, found)) == sorted(map(id, expected))


def subjectRouterTests(
    factory: Callable[[], Any],
    reaches: Callable[[bytes, bytes], bool] = matches,
    samples: Sequence[bytes] = (),
) -> type[SynchronousTestCase]:
    """
    Tests for an L{ISubjectRouter}.

    @param factory: makes an empty one.
    @param reaches: for a pattern and a subject, whether an entry under the one is reached by the
        other; by default NATS's rules.
    @param samples: patterns and subjects that the tests combine besides their own: the ones for
        which C{reaches} differs from NATS's rules.
    """
    somePatterns, someSubjects = patterns(), literalSubjects() | patterns()
    if samples:
        somePatterns |= st.sampled_from(samples)
        someSubjects |= st.sampled_from(samples)

    class SubjectRouterTests(Contract):
        """
        The contract of L{ISubjectRouter}.
        """

        def test_provides(self) -> None:
            """A router provides the interface, and is empty at first."""
            router = factory()
            self.holds(verifyObject(ISubjectRouter, router))
            self.same((len(router), list(router)), (0, []))

        def test_matches(self) -> None:
            """An entry is reached by the subjects that its pattern reaches, and by no others."""
            for pattern, subject, byNATS in MATCHES:
                answer = byNATS if reaches is matches else reaches(pattern, subject)
                router, entry = factory(), _Entry()
                router.insert(pattern, entry)
                self.same(_same(router.match(subject), [entry]), answer, (pattern, subject))
                self.same(bool(router.hasInterest(subject)), answer, (pattern, subject))

        def test_identity(self) -> None:
            """Equal entries are distinguished, under one pattern and several."""
            router = factory()
            entries = [_Entry() for _ in range(40)]
            for entry in entries:
                router.insert(b"a.*", entry)
            router.insert(b"a.b", entries[0])
            self.holds(_same(router.match(b"a.b"), [*entries, entries[0]]))
            self.same(len(router), 41)
            self.holds(_same(router, [*entries, entries[0]]))

        def test_remove(self) -> None:
            """What is removed is not reached; what was not there is not removed."""
            router = factory()
            one, other = _Entry(), _Entry()
            router.insert(b"a.*", one)
            self.holds(not router.remove(b"a.*", other))
            self.holds(not router.remove(b"a.b", one))
            self.holds(router.remove(b"a.*", one))
            self.holds(not router.remove(b"a.*", one))
            self.same((list(router.match(b"a.b")), len(router)), ([], 0))
            self.holds(not router.hasInterest(b"a.b"))

        def test_changesShowAtOnce(self) -> None:
            """A subject that was asked for before is answered afresh after a change."""
            router, entry = factory(), _Entry()
            for pattern in (b"a.b", b"a.*", b"a.>", b">"):
                self.same(list(router.match(b"a.b")), [])
                router.insert(pattern, entry)
                self.holds(_same(router.match(b"a.b"), [entry]), pattern)
                router.remove(pattern, entry)
            self.same(list(router.match(b"a.b")), [])

        @given(
            st.lists(st.tuples(st.booleans(), somePatterns), max_size=15),
            st.lists(someSubjects, min_size=1, max_size=6),
        )
        @example([(removes, each) for each in samples for removes in (False, True)], list(samples))
        @QUICK
        def test_announcesChanges(
            self, steps: list[tuple[bool, bytes]], subjects: list[bytes]
        ) -> None:
            """An answer that a bus still remembers is the one that the router would give."""
            router = factory()
            remembered: dict[bytes, list[Any]] = {}

            def changed(pattern: bytes) -> None:
                for subject in [each for each in remembered if matches(pattern, each)]:
                    del remembered[subject]

            router.watchChanges(changed)
            held: list[tuple[bytes, _Entry]] = []
            for removes, pattern in steps:
                for subject in subjects:
                    remembered[subject] = list(router.match(subject))
                if removes and held:
                    pattern, entry = held.pop()
                    router.remove(pattern, entry)
                else:
                    held.append((pattern, _Entry()))
                    router.insert(*held[-1])
                changed(pattern)
                for subject, found in remembered.items():
                    self.holds(_same(found, router.match(subject)), (pattern, subject))

        @given(
            st.lists(st.tuples(st.booleans(), somePatterns), max_size=15),
            st.lists(someSubjects, max_size=4),
        )
        @QUICK
        def test_anything(self, steps: list[tuple[bool, bytes]], subjects: list[bytes]) -> None:
            """After any changes, every subject reaches what a plain list says."""
            router = factory()
            held: list[tuple[bytes, _Entry]] = []
            for removes, pattern in steps:
                if removes and held:
                    self.holds(router.remove(*held.pop()))
                else:
                    held.append((pattern, _Entry()))
                    router.insert(*held[-1])
            self.holds(_same(router, [entry for _, entry in held]))
            for subject in subjects:
                expected = [entry for pattern, entry in held if reaches(pattern, subject)]
                self.holds(_same(router.match(subject), expected), subject)
                self.same(bool(router.hasInterest(subject)), bool(expected))

    return SubjectRouterTests


#: What nobody may be tripped by: options as a hostile client may send them.
_STRANGE: Sequence[dict[str, Any]] = (
    {"user": "", "pass": ""},
    {"user": "x" * 10_000, "pass": "y" * 10_000},
    {"user": "\x00\r\n", "pass": "\u00fc\U0001f600\ufffd"},
    {"user": "*", "pass": ">"},
    {"user": 1, "pass": None},
    {"auth_token": "' OR 1=1 --"},
    {"nkey": "N", "sig": "!!"},
    {"jwt": "a.b.c", "sig": "=="},
    {"jwt": "....", "nkey": "\u00fc"},
)


def _onlyDenied(failure: Failure) -> None:
    failure.trap(Unauthorized)


def authorizerTests(
    factory: Callable[[], Any],
    goodHello: ConnectRequest,
    badHello: ConnectRequest,
    revoke: Callable[[Any], object] | None = None,
    settle: Callable[[], object] = lambda: None,
) -> type[SynchronousTestCase]:
    """
    Tests for an L{IAuthorizer}.

    @param factory: makes one.
    @param goodHello: a connection that it lets in.
    @param badHello: one that it denies.
    @param revoke: called with an authorizer, makes it announce a revocation; C{None} for one that
        never does.
    @param settle: lets happen what answers wait for, such as threads.
    """

    class AuthorizerTests(Contract):
        """
        The contract of L{IAuthorizer}.
        """

        def ask(self, authorizer: IAuthorizer, hello: ConnectRequest) -> Grant | None:
            """
            @return: the grant, or C{None} for a denial. Anything else fails the test.
            """
            try:
                answer: Any = authorizer.grantFor(hello)
            except Unauthorized:
                return None
            if isinstance(answer, Coroutine):
                answer = ensureDeferred(answer)
            if isinstance(answer, Deferred):
                answer.addErrback(_onlyDenied)
                settle()
                answer = self.successResultOf(answer)
                if answer is None:
                    return None
            self.holds(isinstance(answer, Grant), answer)
            grant: Grant = answer
            return grant

        def test_provides(self) -> None:
            """An authorizer provides the interface and says what it needs of clients."""
            authorizer = factory()
            self.holds(verifyObject(IAuthorizer, authorizer))
            self.holds(isinstance(authorizer.required, bool), authorizer.required)
            self.holds(isinstance(authorizer.deadline, bool), authorizer.deadline)
            self.holds(authorizer.deadline or not authorizer.required, "who must log in has a time")
            self.holds(isinstance(authorizer.nonce, bool), authorizer.nonce)

        def test_good(self) -> None:
            """Who is let in gets a grant that names an account."""
            grant = self.ask(factory(), goodHello)
            if grant is None:
                raise AssertionError("the good one is denied")
            self.holds(isinstance(grant.account, str), grant.account)
            self.holds(grant.account != "")
            self.holds(isinstance(grant.user, str), grant.user)

        def test_bad(self) -> None:
            """A denied login fails with Unauthorized, not with another error."""
            self.isNothing(self.ask(factory(), badHello))

        def test_repeatedLogin(self) -> None:
            """A second login with the same credentials gives the same user of the same account,
            and a grant before does not let other credentials in."""
            authorizer = factory()
            first = self.ask(authorizer, goodHello)
            denied = self.ask(authorizer, badHello)
            second = self.ask(authorizer, goodHello)
            self.isNothing(denied)
            if first is None or second is None:
                raise AssertionError("the good one is denied")
            self.same((first.account, first.user), (second.account, second.user))

        def test_nobody(self) -> None:
            """A connection that says nothing gets a grant or a denial; where a login is required
            it is denied."""
            authorizer = factory()
            grant = self.ask(authorizer, ConnectRequest())
            if authorizer.required:
                self.isNothing(grant)

        def test_strange(self) -> None:
            """Whatever a connection says, the answer is a grant or a denial."""
            for options in _STRANGE:
                authorizer = factory()
                for nonce in ("", "AAAAAAAAAAAAAAA"):
                    grant = self.ask(authorizer, ConnectRequest(options=options, nonce=nonce))
                    if authorizer.required:
                        self.isNothing(grant, options)

        def test_revocations(self) -> None:
            """A watcher learns of revocations until it stops watching."""
            authorizer = factory()
            told: list[str] = []
            stops = [
                authorizer.watchRevocations(lambda: told.append("one")),
                authorizer.watchRevocations(lambda: told.append("two")),
            ]
            if revoke is not None:
                revoke(authorizer)
                settle()
                self.same(sorted(told), ["one", "two"])
                told.clear()
                stops[0]()
                revoke(authorizer)
                settle()
                self.same(told, ["two"])
            for stop in stops:
                stop()

    return AuthorizerTests


@implementer(ISubscriber)
class _Listener:
    def __init__(self) -> None:
        self.got: list[tuple[Message, Any]] = []
        self.ended: list[Any] = []

    def deliver(self, message: Message, tag: Any) -> None:
        self.got.append((message, tag))

    def subscriptionEnded(self, tag: Any) -> None:
        self.ended.append(tag)


@implementer(IInterestWatcher)
class _Watcher:
    def __init__(self) -> None:
        self.known: dict[tuple[bytes, bytes], int] = {}
        self.mistakes: list[str] = []

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        if (pattern, queue) in self.known:
            self.mistakes.append(f"{pattern!r} {queue!r} gained twice")
        self.known[pattern, queue] = weight

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        if not queue or (pattern, queue) not in self.known:
            self.mistakes.append(f"the weight of {pattern!r} {queue!r} is not expected")
        self.known[pattern, queue] = weight

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        if self.known.pop((pattern, queue), None) is None:
            self.mistakes.append(f"{pattern!r} {queue!r} lost without having been there")


def messageBusTests(
    factory: Callable[[], Any], settle: Callable[[], object] = lambda: None
) -> type[SynchronousTestCase]:
    """
    Tests for an L{IMessageBus} of clients or services.

    @param factory: makes one of an empty account.
    @param settle: lets happen what happens soon.
    """

    class MessageBusTests(Contract):
        """
        The contract of L{IMessageBus}.
        """

        def publish(self, bus: IMessageBus, subject: bytes, body: bytes = b"") -> int:
            """
            Publish, and let happen what happens soon.
            """
            count = bus.publish(Message(subject, body))
            settle()
            return count

        def test_provides(self) -> None:
            """A bus provides the interface and names its account."""
            bus = factory()
            self.holds(verifyObject(IMessageBus, bus))
            self.holds(isinstance(bus.account, str), bus.account)

        def test_delivers(self) -> None:
            """A message reaches every subscription that matches, with its tag, and is counted."""
            for pattern, subject, answer in MATCHES:
                bus, listener = factory(), _Listener()
                tag = object()
                bus.subscribe(pattern, listener, tag)
                self.same(bus.hasInterest(subject), answer, (pattern, subject))
                self.same(self.publish(bus, subject, b"x"), int(answer))
                self.same([tag] * answer, [each for _, each in listener.got])

        def test_wholeMessage(self) -> None:
            """The message arrives with its reply, headers and payload."""
            bus, listener = factory(), _Listener()
            bus.subscribe(b"a", listener)
            bus.publish(Message(b"a", b"HHHpayload", b"reply", 3))
            settle()
            [(message, _)] = listener.got
            self.same((message.subject, message.reply), (b"a", b"reply"))
            self.same((message.headers, message.payload), (b"HHH", b"payload"))

        def test_posts(self) -> None:
            """What is posted is a message with a subject and a payload, and is counted."""
            bus, listener = factory(), _Listener()
            bus.subscribe(b"a", listener)
            self.same((bus.post(b"a", b"x"), bus.post(b"b", b"y")), (1, 0))
            settle()
            [(message, _)] = listener.got
            self.same((message.subject, message.reply), (b"a", b""))
            self.same((message.headers, message.payload), (b"", b"x"))

        def test_order(self) -> None:
            """Messages arrive in the order of publishing."""
            bus, listener = factory(), _Listener()
            bus.subscribe(b"a.*", listener)
            bodies = [b"%d" % number for number in range(20)]
            for number, body in enumerate(bodies):
                self.publish(bus, b"a.%d" % (number % 3), body)
            self.same([message.body for message, _ in listener.got], bodies)

        def test_groups(self) -> None:
            """Of each queue group one member gets a message, besides the plain subscriptions."""
            bus, plain = factory(), _Listener()
            groups = [[_Listener() for _ in range(3)] for _ in range(2)]
            bus.subscribe(b"a", plain)
            for queue, members in zip((b"q", b"r"), groups, strict=True):
                for member in members:
                    bus.subscribe(b"*", member, queue=queue)
            for number in range(1, 31):
                self.same(self.publish(bus, b"a"), 3)
                for listeners in ([plain], *groups):
                    self.same(sum(len(each.got) for each in listeners), number)

        def test_cancel(self) -> None:
            """A cancelled subscription gets nothing more, and is not said to have ended."""
            bus, listener = factory(), _Listener()
            subscription = bus.subscribe(b"a", listener, queue=b"q")
            self.holds(set(ISubscription.names()) <= set(dir(subscription)))
            self.same((subscription.pattern, subscription.queue), (b"a", b"q"))
            subscription.cancel()
            subscription.cancel()
            self.same(self.publish(bus, b"a"), 0)
            self.same((listener.got, listener.ended), ([], []))
            self.holds(not bus.hasInterest(b"a"))

        def test_cancelAfter(self) -> None:
            """A subscription with a maximum ends after that many messages and says so."""
            bus, listener = factory(), _Listener()
            subscription = bus.subscribe(b"a", listener, "tag")
            self.publish(bus, b"a")
            subscription.cancelAfter(3)
            counts = [self.publish(bus, b"a") for _ in range(4)]
            self.same(counts, [1, 1, 0, 0])
            self.same((len(listener.got), listener.ended), (3, ["tag"]))

        def test_cancelAfterTheFact(self) -> None:
            """A maximum that is reached ends it at once; a later one replaces an earlier one."""
            bus, listener = factory(), _Listener()
            subscription = bus.subscribe(b"a", listener)
            self.publish(bus, b"a")
            subscription.cancelAfter(5)
            subscription.cancelAfter(1)
            self.same(self.publish(bus, b"a"), 0)
            self.same(len(listener.got), 1)

        def test_invalid(self) -> None:
            """What is no subject cannot be subscribed to, and a message to it reaches nobody."""
            bus, listener = factory(), _Listener()
            bus.subscribe(b">", listener)
            for subject in (b"", b".", b"a.", b".a", b"a..b", b"a b", b"a\r\n", b"a\x00"):
                self.refuses(ValueError, bus.subscribe, subject, listener)
                if b" " not in subject:
                    self.same(self.publish(bus, subject), 0, subject)
            self.same(listener.got, [])

        def test_publishingFromWithin(self) -> None:
            """A subscriber may publish while it gets a message."""
            bus, listener = factory(), _Listener()

            @implementer(ISubscriber)
            class Answerer(_Listener):
                def deliver(self, message: Message, tag: Any) -> None:
                    bus.publish(Message(message.reply, b"answer"))

            bus.subscribe(b"ask", Answerer())
            bus.subscribe(b"here", listener)
            bus.publish(Message(b"ask", b"", b"here"))
            settle()
            self.same([message.body for message, _ in listener.got], [b"answer"])

        def test_watching(self) -> None:
            """A watcher learns of present interest, and of changes until it stops watching."""
            bus, watcher = factory(), _Watcher()
            early = bus.subscribe(b"a", _Listener())
            stop = bus.watchInterest(watcher)
            late = [bus.subscribe(b"a", _Listener()), bus.subscribe(b"b", _Listener(), queue=b"q")]
            self.same(set(watcher.known), {(b"a", b""), (b"b", b"q")})
            more = bus.subscribe(b"b", _Listener(), queue=b"q")
            self.same(watcher.known[b"b", b"q"], 2)
            more.cancel()
            self.same(watcher.known[b"b", b"q"], 1)
            for subscription in (early, *late):
                subscription.cancel()
            self.same(watcher.known, {})
            stop()
            bus.subscribe(b"c", _Listener())
            self.same((watcher.known, watcher.mistakes), ({}, []))

    return MessageBusTests


#: Messages of all shapes.
_MESSAGES = (
    Message(b"a"),
    Message(b"a.b", b"payload", b"reply"),
    Message(b"a", b"NATS/1.0\r\nA: b\r\n\r\npayload", b"_INBOX.x", 18),
    Message(b"a", b"not a header block", headerLength=5),
    Message(b"\xff", bytes(range(256)) * 100, b"*"),
    Message(b"a.*", b"", b">", sizeText=b"000"),
)


def subscriberTests(
    factory: Callable[[], Any], tags: Sequence[Any] = (None,)
) -> type[SynchronousTestCase]:
    """
    Tests for an L{ISubscriber}.

    @param factory: makes one.
    @param tags: what it gives as tags when it subscribes.
    """

    class SubscriberTests(Contract):
        """
        The contract of L{ISubscriber}.
        """

        def test_provides(self) -> None:
            """A subscriber provides the interface."""
            self.holds(verifyObject(ISubscriber, factory()))

        def test_takesAnything(self) -> None:
            """A subscriber raises nothing, whatever message it gets, and leaves it as it was."""
            for tag in tags:
                subscriber = factory()
                for message in _MESSAGES:
                    before = [getattr(message, name) for name in Message.__slots__]
                    subscriber.deliver(message, tag)
                    after = [getattr(message, name) for name in Message.__slots__]
                    self.same(before, after)
                subscriber.subscriptionEnded(tag)

    return SubscriberTests


def interestWatcherTests(factory: Callable[[], Any]) -> type[SynchronousTestCase]:
    """
    Tests for an L{IInterestWatcher}.

    @param factory: makes one.
    """

    class InterestWatcherTests(Contract):
        """
        The contract of L{IInterestWatcher}.
        """

        def test_provides(self) -> None:
            """A watcher provides the interface."""
            self.holds(verifyObject(IInterestWatcher, factory()))

        def test_takesAnything(self) -> None:
            """A watcher raises nothing at any order of events that a bus can bring about."""
            watcher = factory()
            for _ in range(2):
                for pattern in (b"a", b"a.*", b">", b"\xff.\xc3\xb6"):
                    watcher.interestGained(pattern, b"", 1)
                    watcher.interestGained(pattern, b"q", 1)
                    watcher.interestWeightChanged(pattern, b"q", 1000)
                    watcher.interestWeightChanged(pattern, b"q", 1)
                    watcher.interestLost(pattern, b"")
                    watcher.interestLost(pattern, b"q")

    return InterestWatcherTests
