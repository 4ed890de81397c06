"""
Advice to gateway interest policies.
"""

from __future__ import annotations

import pytest

from natsbroker.gateways.advice import MOST, AdvisedPolicy, PolicyAdvice
from natsbroker.gateways.policies import InterestOnlyPolicy, OptimisticPolicy, SwitchingPolicy
from natsbroker.testing.contracts.gateways import gatewayPolicyTests

TestAdvisedSwitching = gatewayPolicyTests(lambda: AdvisedPolicy(SwitchingPolicy()))
TestAdvisedOptimistic = gatewayPolicyTests(lambda: AdvisedPolicy(OptimisticPolicy()))


class Times:
    """
    A policy with advice, and its time.
    """

    def __init__(self, policy: SwitchingPolicy | InterestOnlyPolicy) -> None:
        self.now = 100.0
        self.policy = AdvisedPolicy(policy, lambda: self.now)

    def decisions(self, gateway: str = "b", account: str = "A") -> tuple[bool, list[bool]]:
        """Whether a cluster that promises nothing receives all interest, and when it does later."""
        policy = self.policy
        later = [policy.switches(gateway, account, count) for count in (0, 5, 1000)]
        return policy.introduces(gateway, account, False), later


def test_interestOnly() -> None:
    """Everything is sent at once, to that cluster of that account, until the time is over."""
    times = Times(SwitchingPolicy())
    usual = (False, [False, False, True])
    assert times.decisions() == usual
    times.policy.advise(PolicyAdvice("A", "b", "interest-only", 110.0))
    assert times.decisions() == (True, [True, True, True])
    assert times.decisions("c") == times.decisions("b", "B") == usual
    times.now = 110.0
    assert times.decisions() == usual
    assert times.policy.advice() == []


def test_optimistic() -> None:
    """Only refusals are sent, for ever or until there were too many."""
    times = Times(SwitchingPolicy())
    times.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0))
    assert times.decisions() == (False, [False, False, False])
    times.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0, 5))
    assert times.decisions() == (False, [False, True, True])
    times.now = 111.0
    assert times.decisions() == (False, [False, False, True])


def test_promises() -> None:
    """A policy that promised to tell everything does so, whatever is advised."""
    times = Times(InterestOnlyPolicy())
    times.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0))
    assert times.policy.tellsAll
    assert times.decisions()[0]
    other = Times(SwitchingPolicy())
    other.policy.advise(PolicyAdvice("A", "b", "optimistic", 110.0))
    assert other.policy.introduces("b", "A", True)


def test_withdrawn() -> None:
    """Advice that is withdrawn or over is no more."""
    times = Times(SwitchingPolicy())
    times.policy.advise(PolicyAdvice("A", "b", "interest-only", 110.0))
    assert times.policy.withdraw("b", "A")
    assert not times.policy.withdraw("b", "A")
    assert not times.decisions()[0]
    times.policy.advise(PolicyAdvice("A", "b", "interest-only", 110.0))
    times.now = 111.0
    assert not times.policy.withdraw("b", "A")


def test_bounded() -> None:
    """There is an end to advice; what is over makes room, and what is replaced needs none."""
    times = Times(SwitchingPolicy())
    for number in range(MOST):
        times.policy.advise(PolicyAdvice(f"A{number}", "b", "optimistic", 110.0))
    with pytest.raises(ValueError, match="advice about 1000 others"):
        times.policy.advise(PolicyAdvice("more", "b", "optimistic", 120.0))
    times.policy.advise(PolicyAdvice("A7", "b", "interest-only", 120.0))
    with pytest.raises(ValueError, match="its time is over"):
        times.policy.advise(PolicyAdvice("A8", "b", "interest-only", 100.0))
    times.now = 115.0
    times.policy.advise(PolicyAdvice("more", "b", "optimistic", 120.0))
    assert [each.account for each in times.policy.advice()] == ["A7", "more"]
