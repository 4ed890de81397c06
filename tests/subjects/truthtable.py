"""
Plain and queue entries among the allowed and the denied: all sixteen combinations.

Observed on nats-server 2.15.1; C{test_permissions_real_server.py} observes it again where one is
installed. (A published flaw,
GHSA-jx8g, let the answer for a queue entry overwrite the one for a plain entry.)
"""

from __future__ import annotations

__all__ = ["ROWS", "permissionsOf"]

#: Which entries there are, and who may then subscribe to C{foo}: C{+} or C{-} for a plain
#: subscription, one in queue C{q}, and one in queue C{r}.
#:
#: A is allow C{foo}, a is allow C{foo q}, D is deny C{foo}, d is deny C{foo q}. There is always one
#: more allowed entry, for something else.
ROWS = [
    ("....", "---"),
    ("...d", "---"),
    ("..D.", "---"),
    ("..Dd", "---"),
    (".a..", "-+-"),
    (".a.d", "---"),
    (".aD.", "---"),
    (".aDd", "---"),
    ("A...", "+++"),
    ("A..d", "+-+"),
    ("A.D.", "---"),
    ("A.Dd", "---"),
    ("Aa..", "++-"),
    ("Aa.d", "+--"),
    ("AaD.", "---"),
    ("AaDd", "---"),
]


def permissionsOf(entries: str) -> tuple[list[bytes], list[bytes]]:
    """
    @return: the allowed and the denied entries of a row.
    """
    meaning = {"A": b"foo", "a": b"foo q", "D": b"foo", "d": b"foo q"}
    allow = [b"other", *[meaning[entry] for entry in entries if entry in "Aa"]]
    return allow, [meaning[entry] for entry in entries if entry in "Dd"]
