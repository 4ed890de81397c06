"""
The gateway interest policies of the broker.
"""

from __future__ import annotations

import pytest

from natsbroker.gateways.policies import (
    InterestOnlyPolicy,
    ListeningPolicy,
    OptimisticPolicy,
    SwitchingPolicy,
)
from natsbroker.testing.contracts.gateways import gatewayPolicyTests

TestOptimistic = gatewayPolicyTests(OptimisticPolicy)
TestInterestOnly = gatewayPolicyTests(InterestOnlyPolicy)
TestSwitching = gatewayPolicyTests(SwitchingPolicy)


@pytest.mark.parametrize(
    ("policy", "modes"),
    [
        (OptimisticPolicy, ["optimistic", "interest-only"]),
        (InterestOnlyPolicy, ["interest-only", "interest-only"]),
        (SwitchingPolicy, ["optimistic", "interest-only"]),
    ],
)
def test_begins(policy: type[ListeningPolicy], modes: list[str]) -> None:
    """
    Each policy begins with its own mode, or with interest-only if the other cluster announces all
    interest.
    """
    made = policy()
    assert [made.connected("there", "A", tellsAll).mode for tellsAll in (False, True)] == modes


@pytest.mark.parametrize(
    ("policy", "tellsAll", "introduces", "switches"),
    [
        (OptimisticPolicy(), False, [False, True], [False, False]),
        (InterestOnlyPolicy(), True, [True, True], [False, False]),
        (SwitchingPolicy(), False, [False, True], [False, True]),
    ],
)
def test_tells(
    policy: ListeningPolicy, tellsAll: bool, introduces: list[bool], switches: list[bool]
) -> None:
    """Each policy has its own rule about sending all interest, at once or later."""
    assert policy.tellsAll is tellsAll
    assert [policy.introduces("there", "A", isQueue) for isQueue in (False, True)] == introduces
    assert [policy.switches("there", "A", count) for count in (999, 1000)] == switches


def test_switchAfter() -> None:
    """The number of refusals that switch the mode is configurable."""
    policy = SwitchingPolicy(3)
    assert [policy.switches("there", "A", number) for number in range(5)] == [False] * 3 + [
        True
    ] * 2


def test_transition() -> None:
    """A switch leads from optimistic through transitioning to interest-only, with its times."""
    times = iter([10.0, 20.0])
    policy = SwitchingPolicy(now=lambda: next(times))
    table = policy.connected("there", "A", False)
    policy.lost(table, b"refused", b"")
    policy.gained(table, b"refused", b"")
    assert table.match(b"refused") == (True, ())
    policy.lost(table, b"refused", b"")
    policy.listed(table, False)
    assert (table.mode, table.switched) == ("transitioning", 10.0)
    assert [table.match(account)[0] for account in (b"refused", b"unspoken")] == [False, True]
    policy.gained(table, b"wanted", b"")
    policy.gained(table, b"gone", b"")
    policy.lost(table, b"gone", b"")
    policy.listed(table, True)
    assert (table.mode, table.switched, table.switches) == ("interest-only", 20.0, 2)
    answers = [table.match(account)[0] for account in (b"wanted", b"gone", b"refused", b"unspoken")]
    assert answers == [True, False, False, False]


def test_interestIsForgottenWhileOptimistic() -> None:
    """
    An optimistic table keeps no interest of plain subscriptions, because their end is not
    announced.
    """
    policy = OptimisticPolicy()
    table = policy.connected("there", "A", False)
    policy.gained(table, b"a.*", b"")
    policy.lost(table, b"a.b", b"")
    assert table.match(b"a.b")[0] is False
    assert table.figures()["interest"] == 0


def test_refusalOfAWantedGroup() -> None:
    """The end of a queue group does not refuse the subject for plain subscriptions."""
    policy = OptimisticPolicy()
    table = policy.connected("there", "A", False)
    policy.gained(table, b"a", b"q")
    policy.lost(table, b"a", b"q")
    policy.lost(table, b"a", b"unknown")
    assert table.match(b"a") == (True, ())


def test_groupTakesRefusalBack() -> None:
    """
    A queue group in a refused account makes the account wanted again, because nats-server sends no
    A+ for it.
    """
    policy = OptimisticPolicy()
    table = policy.connected("there", "A", False)
    policy.accountWanted(table, False)
    assert policy.gained(table, b"a", b"q").match(b"other") == (True, {})


def test_wantedAccountHasNewTable() -> None:
    """
    A refused account that is wanted again has a new table, because answers for other subjects
    change too.
    """
    policy = OptimisticPolicy()
    table = policy.connected("there", "A", False)
    assert policy.gained(table, b"a", b"") is table
    policy.accountWanted(table, False)
    again = policy.gained(table, b"a", b"")
    assert again is not table
    assert [policyTable.match(b"other")[0] for policyTable in (table, again)] == [False, True]
