"""
What is said when something is refused.
"""

from __future__ import annotations

from natsbroker.export import texts
from natsbroker.export.texts import NO_LOG, Refusal


def test_answer() -> None:
    """A refusal is an answer with its code, its number and its text."""
    refusal = Refusal(NO_LOG, kind="channel", name="a.{b}")
    assert refusal.answer() == {
        "error": {"code": 404, "err_code": 20003, "description": "there is no channel a.{b}"}
    }


def test_numbersDiffer() -> None:
    """Each reason has a number of its own."""
    reasons = [getattr(texts, name) for name in texts.__all__ if name != "Refusal"]
    assert len({number for _, number, _ in reasons}) == len(reasons) == 14
