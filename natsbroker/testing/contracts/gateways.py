"""
The duties of every gateway interest policy, as tests: for our own and for those of others::

    from natsbroker.testing.contracts.gateways import gatewayPolicyTests

    TestMyPolicy = gatewayPolicyTests(MyPolicy)

Only the public interfaces are used. A provider that breaks one of their rules fails a test that
names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IGatewayInterestPolicy, IInterestTable
from natsbroker.subjects.grammar import matches
from natsbroker.testing.contracts.base import QUICK, Contract
from natsbroker.testing.strategies import literalSubjects, patterns

__all__ = ["gatewayPolicyTests"]

_FIGURES = {"mode", "no_interest", "interest", "queues", "switches", "switched"}


def gatewayPolicyTests(
    factory: Callable[[], Any], subject: bytes = b"foo.bar"
) -> type[SynchronousTestCase]:
    """
    Tests for an L{IGatewayInterestPolicy}.

    @param subject: a literal subject of two tokens or more that the policy sends to a cluster that
        wants it.
    """
    head = subject.partition(b".")[0]

    def table(tellsAll: bool = False) -> tuple[IGatewayInterestPolicy, IInterestTable]:
        policy = factory()
        return policy, policy.connected("there", "A", tellsAll)

    def plain(one: IInterestTable, about: bytes = subject) -> bool:
        return bool(one.match(about)[0])

    def groups(one: IInterestTable, about: bytes = subject) -> list[bytes]:
        return sorted(one.match(about)[1])

    class GatewayPolicyTests(Contract):
        def test_provides(self) -> None:
            """A policy and its tables provide the interfaces."""
            policy, made = table()
            self.holds(verifyObject(IGatewayInterestPolicy, policy))
            self.holds(verifyObject(IInterestTable, made))

        def test_tablesAreNew(self) -> None:
            """Each connection and account has a table of its own."""
            policy, made = table()
            policy.gained(made, subject, b"q")
            self.same(groups(policy.connected("there", "B", False)), [])
            self.same(groups(policy.connected("there", "A", False)), [])

        def test_queues(self) -> None:
            """A queue group is known from its first member to its last, under its pattern."""
            policy, made = table()
            for pattern in (head + b".>", subject, subject):
                made = policy.gained(made, pattern, b"q")
            made = policy.gained(made, subject, b"r")
            self.same(groups(made), [b"q", b"r"])
            self.same(groups(made, b"other"), [])
            made = policy.lost(made, subject, b"q")
            self.same(groups(made), [b"q", b"r"])
            made = policy.lost(made, head + b".>", b"q")
            self.same(groups(made), [b"r"])
            made = policy.lost(made, subject, b"unknown")
            self.same(groups(made), [b"r"])

        def test_queuesWithoutAccount(self) -> None:
            """The refusal of an account applies to plain subscriptions only."""
            policy, made = table()
            made = policy.gained(made, subject, b"q")
            made = policy.accountWanted(made, False)
            self.same((plain(made), groups(made)), (False, [b"q"]))

        def test_account(self) -> None:
            """Nothing is sent to an account that is not wanted, until the refusal is taken back."""
            policy, made = table()
            before = plain(made)
            made = policy.accountWanted(made, False)
            self.holds(not plain(made))
            made = policy.accountWanted(made, True)
            self.same(plain(made), before)

        def test_refusal(self) -> None:
            """
            A refused message is not sent again until the other cluster wants it or a pattern that
            covers it.
            """
            for regained in (subject, head + b".>", b">"):
                policy, made = table()
                made = policy.lost(made, subject, b"")
                self.holds(not plain(made), regained)
                made = policy.gained(made, regained, b"")
                self.holds(plain(made), regained)

        def test_list(self) -> None:
            """After a complete list of interest, exactly the interest on the list is sent."""
            policy, made = table()
            made = policy.listed(made, False)
            made = policy.gained(made, subject, b"")
            self.holds(plain(made))
            made = policy.listed(made, True)
            self.same((plain(made), plain(made, b"unheard.of")), (True, False))
            made = policy.lost(made, subject, b"")
            self.holds(not plain(made))
            made = policy.gained(made, head + b".*", b"")
            self.holds(plain(made))

        def test_listAgain(self) -> None:
            """A new list of interest replaces the list before."""
            policy, made = table()
            for pattern in (subject, b"other"):
                made = policy.listed(made, False)
                made = policy.gained(made, pattern, b"")
                made = policy.listed(made, True)
            self.holds(not plain(made))

        def test_nothingIsWithheldMeanwhile(self) -> None:
            """
            While a list of interest arrives, subjects that were sent before the list are still
            sent.
            """
            policy, made = table()
            before = plain(made)
            made = policy.listed(made, False)
            self.same(plain(made), before)

        def test_queuesSurviveTheList(self) -> None:
            """A list of interest concerns plain subscriptions only: queue groups survive it."""
            policy, made = table()
            made = policy.gained(made, subject, b"q")
            made = policy.listed(made, False)
            made = policy.listed(made, True)
            self.same((plain(made), groups(made)), (False, [b"q"]))

        def test_promised(self) -> None:
            """
            A cluster that promises to send all its interest gets only subjects of that interest.
            """
            made = table(True)[1]
            self.same((plain(made), groups(made)), (False, []))

        @QUICK
        @given(
            wanted=st.lists(patterns(), max_size=8, unique=True),
            gone=st.integers(0, 8),
            asked=literalSubjects(),
        )
        def test_interestOnly(self, wanted: list[bytes], gone: int, asked: bytes) -> None:
            """After a list, only subjects that match a wanted pattern are sent."""
            policy, made = table()
            made = policy.listed(made, False)
            for pattern in wanted:
                made = policy.gained(made, pattern, b"")
            made = policy.listed(made, True)
            for pattern in wanted[:gone]:
                made = policy.lost(made, pattern, b"")
            if plain(made, asked):
                self.holds(any(matches(pattern, asked) for pattern in wanted[gone:]))

        def test_figures(self) -> None:
            """The mode in the figures has one of the documented names, and they report a switch."""
            policy, made = table()
            self.holds(set(made.figures()) >= _FIGURES)
            self.same(made.figures()["mode"], made.mode)
            made = policy.listed(made, False)
            made = policy.gained(made, subject, b"")
            made = policy.gained(made, subject, b"q")
            made = policy.listed(made, True)
            figures = made.figures()
            self.same((figures["interest"], figures["queues"]), (1, 1))
            self.same(sorted(made.interests()), [(subject, b""), (subject, b"q")])
            self.holds(made.wants(subject, b"") and made.wants(subject, b"q"))
            self.holds(not made.wants(head, b"") and not made.wants(subject, b"r"))
            self.holds(not made.isOpen)

        def test_telling(self) -> None:
            """
            A policy that promises all interest at once does so, and its other answers are valid
            too.
            """
            policy = factory()
            for promised in (False, True):
                answer = policy.introduces("there", "A", promised)
                self.holds(answer in (False, True))
                self.holds(answer or not policy.tellsAll)
            for refusals in (0, 1, 1_000_000):
                self.holds(policy.switches("there", "A", refusals) in (False, True))

    return GatewayPolicyTests
