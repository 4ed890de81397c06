"""
A self-signed certificate for 127.0.0.1, made for one run and thrown away with it.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["writeCertificate"]


def selfSigned(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """
    @return: a certificate of C{key}, signed with it, valid from yesterday for a month.
    """
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "natsbroker benchmarks")])
    start = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def writeCertificate(certificate: Path, key: Path) -> None:
    """
    @param certificate: where the certificate is written, as PEM.
    @param key: where its key is written, as PEM, readable by its owner only.
    """
    secret = ec.generate_private_key(ec.SECP256R1())
    certificate.write_bytes(selfSigned(secret).public_bytes(serialization.Encoding.PEM))
    key.touch(mode=0o600)
    key.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
