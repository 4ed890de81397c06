"""The trial test case that the contracts extend."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from twisted.trial.unittest import SynchronousTestCase

__all__ = ["QUICK", "Contract"]


QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)


class Contract(SynchronousTestCase):
    def same(self, one: object, other: object, about: object = None) -> None:
        self.assertEqual(one, other, about)  # type: ignore[no-untyped-call]

    def holds(self, value: object, about: object = None) -> None:
        self.assertTrue(value, about)  # type: ignore[no-untyped-call]

    def isNothing(self, value: object, about: object = None) -> None:
        self.assertIs(value, None, about)  # type: ignore[no-untyped-call]

    def refuses(
        self, error: type[Exception], call: Callable[..., object], *arguments: object
    ) -> None:
        self.assertRaises(error, call, *arguments)  # type: ignore[no-untyped-call]
