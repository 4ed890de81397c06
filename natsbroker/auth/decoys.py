"""
Something to compare with for users that do not exist.

A name that is not known takes the same path, and as long, as one that is: it is compared
with some user's secret, always the same one for a name.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

__all__ = ["DummySecrets"]


class DummySecrets:
    """
    Stands in for the secrets of users that do not exist.
    """

    def __init__(self, known: Iterable[str]) -> None:
        """
        @param known: the secrets that there are, in plain text or hashed.
        """
        self._known = list(known) or [""]
        self._salt = secrets.token_bytes(16)

    def secretFor(self, name: str) -> str:
        """
        A secret for a name. Whoever gets it must be denied, be it right or wrong.
        """
        text = name.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, digest_size=8, key=self._salt).digest()
        return self._known[int.from_bytes(digest, "big") % len(self._known)]
