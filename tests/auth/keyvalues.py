"""
A constant of ed25519, for keys that are out of range.
"""

from __future__ import annotations

#: The order of the group of Ed25519.
ORDER = 2**252 + 27742317777372353535851937790883648493
