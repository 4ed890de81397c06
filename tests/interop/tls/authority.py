"""
Certificates of every kind, valid and invalid ones.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

__all__ = ["EC", "Issued", "authority", "issue", "lookalike"]

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

#: Stands for an elliptic key where otherwise the bits of an RSA key stand.
EC = 0

BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True)
class Issued:
    """
    A certificate with its key.
    """

    certificate: x509.Certificate
    key: Key

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def keyPem(self) -> bytes:
        """The key in PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    @property
    def pin(self) -> str:
        """The digest of the key, as in C{pinned_certs}."""
        data = self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return hashlib.sha256(data).hexdigest()

    def write(self, directory: Path, name: str, *more: Issued) -> None:
        """
        Write C{NAME.pem} and C{NAME-key.pem}.

        @param more: certificates that follow in the first file.
        """
        pem = b"".join(certificate.pem for certificate in (self, *more))
        (directory / f"{name}.pem").write_bytes(pem)
        path = directory / f"{name}-key.pem"
        path.touch(mode=0o600)
        path.write_bytes(self.keyPem)


@lru_cache(maxsize=4)
def _rsaKey(bits: int) -> rsa.RSAPrivateKey:
    # RSA keys take long to make; that several certificates have the same one does not matter here.
    return rsa.generate_private_key(65537, bits)


def _makeKey(bits: int) -> Key:
    return ec.generate_private_key(ec.SECP256R1()) if bits == EC else _rsaKey(bits)


def authority(name: str = "CN=authority", signer: Issued | None = None, bits: int = EC) -> Issued:
    """
    An authority, or one below another.
    """
    key = _makeKey(bits)
    builder = _builder(x509.Name.from_rfc4514_string(name), key, signer, (-1, 30))
    builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    builder = builder.add_extension(_keyUsage(True), critical=True)
    return Issued(builder.sign(signer.key if signer else key, hashes.SHA256()), key)


def issue(
    signer: Issued | None,
    subject: str | x509.Name = "CN=localhost",
    *,
    names: Sequence[str] = (),
    addresses: Sequence[str] = (),
    emails: Sequence[str] = (),
    urls: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = BOTH,
    days: tuple[int, int] = (-1, 30),
    bits: int = EC,
) -> Issued:
    """
    Make a certificate.

    @param signer: the signer; C{None} for a self-signed one.
    @param subject: a distinguished name, as RFC 4514 writes it.
    @param days: the days of its validity, counted from today.
    @param bits: the length of an RSA key.
    """
    key = _makeKey(bits)
    name = x509.Name.from_rfc4514_string(subject) if isinstance(subject, str) else subject
    builder = _builder(name, key, signer, days)
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
    builder = builder.add_extension(_keyUsage(False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    alternatives: list[x509.GeneralName] = [x509.RFC822Name(email) for email in emails]
    alternatives += [x509.DNSName(title) for title in names]
    alternatives += [x509.UniformResourceIdentifier(url) for url in urls]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    signed = builder.sign(signer.key if signer else key, hashes.SHA256())
    return Issued(signed, key)


def lookalike(other: Issued) -> Issued:
    """An authority with the name of another, and its own key."""
    return authority(other.certificate.subject.rfc4514_string())


def _builder(
    subject: x509.Name, key: Key, signer: Issued | None, days: tuple[int, int]
) -> x509.CertificateBuilder:
    start, end = (
        datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=day) for day in days
    )
    signerKey = signer.key if signer else key
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signerKey.public_key()),
            critical=False,
        )
    )


def _keyUsage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
