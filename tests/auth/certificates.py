"""
Client certificates for tests.

Each certificate has the names that the test gives, and is signed with its own key.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec


@lru_cache(maxsize=1)
def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(
    subject: str = "",
    emails: Sequence[str] = (),
    names: Sequence[str] = (),
    urls: Sequence[str] = (),
) -> x509.Certificate:
    """
    @param subject: a distinguished name as RFC 4514 writes it.
    @return: a certificate with that subject and these alternative names.
    """
    name = x509.Name.from_rfc4514_string(subject) if subject else x509.Name([])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(_key().public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    alternatives: list[x509.GeneralName] = [x509.RFC822Name(email) for email in emails]
    alternatives += [x509.DNSName(hostName) for hostName in names]
    alternatives += [x509.UniformResourceIdentifier(url) for url in urls]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
    return builder.sign(_key(), hashes.SHA256())
