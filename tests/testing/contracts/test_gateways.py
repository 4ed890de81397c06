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
    """Forgets what was refused."""

    def lost(self, table: InterestTable, pattern: bytes, queue: bytes) -> InterestTable:
        return super().lost(table, pattern, queue) if queue else table


class Stubborn(OptimisticPolicy):
    """Sends nothing more that was refused once."""

    def gained(self, table: InterestTable, pattern: bytes, queue: bytes) -> InterestTable:
        if queue:
            return super().gained(table, pattern, queue)
        table.want(pattern, b"never")
        return table


class Hasty(OptimisticPolicy):
    """Withholds what nobody spoke of when the list begins."""

    def listed(self, table: InterestTable, isComplete: bool) -> InterestTable:
        table.switch(INTEREST_ONLY, 1.0)
        return super().listed(table, isComplete)


class Deaf(OptimisticPolicy):
    """Takes no notice of the list."""

    def listed(self, table: InterestTable, isComplete: bool) -> InterestTable:
        return table


class Shared(OptimisticPolicy):
    """Has one table for everybody."""

    def __init__(self) -> None:
        super().__init__()
        self._table = InterestTable("there", "A", "optimistic")

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        return self._table


class Mistrustful(OptimisticPolicy):
    """Does not believe in promises."""

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        return super().connected(gateway, account, False)


class Greedy(OptimisticPolicy):
    """Drops queue groups with the account."""

    def accountWanted(self, table: InterestTable, isWanted: bool) -> InterestTable:
        if not isWanted:
            table.permitted = Nothing()
        return table


class Nothing:
    """No subject at all."""

    def allows(self, subject: bytes) -> bool:
        """None."""
        return False


class Liar(OptimisticPolicy):
    """Promises what it does not do."""

    tellsAll = True

    def introduces(self, gateway: str, account: str, tellsAll: bool) -> bool:
        return False


def failures(policy: Any) -> set[str]:
    """Which tests a policy fails."""
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
    """A policy with one fault fails the test of the sentence that it breaks."""
    assert test in failures(policy)


def test_rightPolicy() -> None:
    """The one that the wrong ones are made of passes."""
    assert failures(OptimisticPolicy) == set()
