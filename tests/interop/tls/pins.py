"""
Fingerprints of certificates, as configurations pin them.
"""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from tests.interop.tls.authority import Issued


def pinOf(path: Path) -> str:
    """
    @return: the fingerprint of a certificate's key, as in C{pinned_certs}.
    """
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return Issued(certificate, certificate).pin  # type: ignore[arg-type]
