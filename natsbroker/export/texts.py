"""
What is said when a request under C{$NB.API.>} is refused.

One text and one number for each reason, so a program can tell them apart; nothing in a
text is secret.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ADVICE_REFUSED",
    "BAD_REQUEST",
    "CANNOT_HOLD",
    "FAILED",
    "HOLD_REFUSED",
    "MADE_AGAIN",
    "NO_ACCOUNT",
    "NO_ADVICE",
    "NO_GATEWAY",
    "NO_HOLD",
    "NO_LOG",
    "NO_REQUEST",
    "STORE",
    "TOO_MANY",
    "Refusal",
]


class Refusal(Exception):
    """
    A request cannot be granted.

    @ivar code: what kind of reason, as in HTTP.
    @ivar number: the reason.
    """

    def __init__(self, reason: tuple[int, int, str], **values: object) -> None:
        self.code, self.number, text = reason
        super().__init__(text.format(**values))

    def answer(self) -> dict[str, Any]:
        """
        What is answered.
        """
        error = {"code": self.code, "err_code": self.number, "description": str(self)}
        return {"error": error}


BAD_REQUEST = (400, 20001, "bad request: {why}")
NO_REQUEST = (404, 20002, "there is no request {verb}")
NO_LOG = (404, 20003, "there is no {kind} {name}")
MADE_AGAIN = (410, 20004, "{kind} {name} was deleted and made again: its sequences are others")
TOO_MANY = (429, 20005, "too many requests are waiting: try again later")
STORE = (503, 20006, "the store fails: {why}")
CANNOT_HOLD = (501, 20007, "the store of {kind} {name} cannot hold records")
HOLD_REFUSED = (400, 20008, "the hold is refused: {why}")
NO_HOLD = (404, 20009, "{kind} {name} has no hold {hold}")
FAILED = (500, 20010, "the request failed: the log of the broker says why")
NO_ACCOUNT = (404, 20011, "there is no account {account}")
NO_GATEWAY = (404, 20012, "there is no cluster {gateway}")
ADVICE_REFUSED = (400, 20013, "the advice is refused: {why}")
NO_ADVICE = (404, 20014, "there is no advice about account {account} and cluster {gateway}")
