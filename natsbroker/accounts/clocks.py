"""
Time, as an account needs it.

The part of Twisted's reactors that tells the time.
"""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Clock", "Timeless"]


class Clock(Protocol):
    """
    Time, as Twisted's reactors provide it.
    """

    def seconds(self) -> float:
        """
        What time it is.
        """

    def callLater(self, delay: float, call: Any) -> Any:
        """
        Have something called after some seconds.

        @return: something with C{cancel}.
        """


class Timeless:
    """
    No clock: for accounts that have nothing to do with others.
    """

    def seconds(self) -> float:
        """
        Nobody knows.
        """
        raise RuntimeError("this account was made without a clock")

    def callLater(self, delay: float, call: Any) -> Any:
        """
        Nobody knows when that is.
        """
        raise RuntimeError("this account was made without a clock")
