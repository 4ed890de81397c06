"""
TLS versions, with the names that OpenSSL has for them.
"""

from __future__ import annotations

import ssl

V = ssl.TLSVersion


#: The versions that nobody should speak, as far as this OpenSSL does.
OLD = [V.TLSv1] * ssl.HAS_TLSv1 + [V.TLSv1_1] * ssl.HAS_TLSv1_1
