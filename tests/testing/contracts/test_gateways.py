"""
The contract suite of gateway interest policies finds policies that are wrong.
"""

from __future__ import annotations

import unittest
from typing import Any

import pytest

from natsbroker.gateways.policies import OptimisticPolicy
from natsbroker.gateways.tables import INTEREST_ONLY, InterestTable
from natsbroker.testing.contracts.gateways import gatewayPolicyTests


class Forgetful(OptimisticPolicy):
    """Forgets refused subjects."""

    def lost(self, table: InterestTable, pattern: bytes, queue: bytes) -> InterestTable:
        return super().lost(table, pattern, queue) if queue else table


class Stubborn(OptimisticPolicy):
    """Sends no subject again that was refused once."""

    def gained(self, table: InterestTable, pattern: bytes, queue: bytes) -> InterestTable:
        if queue:
            return super().gained(table, pattern, queue)
        table.want(pattern, b"never")
        return table


class Hasty(OptimisticPolicy):
    """Withholds all unmentioned subjects as soon as the list begins."""

    def listed(self, table: InterestTable, isComplete: bool) -> InterestTable:
        table.switch(INTEREST_ONLY, 1.0)
        return super().listed(table, isComplete)


class Deaf(OptimisticPolicy):
    """Ignores the list."""

    def listed(self, table: InterestTable, isComplete: bool) -> InterestTable:
        return table


class Shared(OptimisticPolicy):
    """Shares one table among all clusters."""

    def __init__(self) -> None:
        super().__init__()
        self._table = InterestTable("there", "A", "optimistic")

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        return self._table


class Mistrustful(OptimisticPolicy):
    """Ignores promises."""

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        return super().connected(gateway, account, False)


class Greedy(OptimisticPolicy):
    """Drops queue groups together with the account."""

    def accountWanted(self, table: InterestTable, isWanted: bool) -> InterestTable:
        if not isWanted:
            table.permitted = Nothing()
        return table


class Nothing:
    """A table without any subject."""

    def allows(self, subject: bytes) -> bool:
        """Allow no subject."""
        return False


class Liar(OptimisticPolicy):
    """Makes a promise that it does not keep."""

    tellsAll = True

    def introduces(self, gateway: str, account: str, tellsAll: bool) -> bool:
        return False


def failures(policy: Any) -> set[str]:
    """The tests that a policy fails."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(gatewayPolicyTests(policy)).run(result)
    return {str(case).split()[0] for case, _ in result.failures + result.errors}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "test"),
    [
        (Forgetful, "test_refusal"),
        (Stubborn, "test_refusal"),
        (Hasty, "test_nothingIsWithheldMeanwhile"),
        (Deaf, "test_list"),
        (Shared, "test_tablesAreNew"),
        (Mistrustful, "test_promised"),
        (Greedy, "test_queuesWithoutAccount"),
        (Liar, "test_telling"),
    ],
)
def test_wrongPolicies(policy: Any, test: str) -> None:
    """A policy with one fault fails the test of the rule that it breaks."""
    assert test in failures(policy)


def test_rightPolicy() -> None:
    """The policy without a fault passes all tests."""
    assert failures(OptimisticPolicy) == set()
