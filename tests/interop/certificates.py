"""
A certificate authority for tests, with one server and one client certificate.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey


def writeCertificates(directory: Path) -> None:
    """Write the authority and the certificates to files."""
    authority = ec.generate_private_key(ec.SECP256R1())
    ca = _sign("natsbroker tests", authority, None, authority, [])
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    emails: list[x509.GeneralName] = [x509.RFC822Name("alice@example.com")]
    _write(directory, "ca", ca, authority)
    for name, alternatives in (("server", names), ("client", emails)):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = "localhost" if name == "server" else "alice"
        _write(directory, name, _sign(subject, key, ca, authority, alternatives), key)


def _sign(
    subject: str,
    key: Key,
    issuer: x509.Certificate | None,
    issuerKey: Key,
    alternatives: list[x509.GeneralName],
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuerKey.public_key()),
            critical=False,
        )
    )
    if issuer is None:
        builder = builder.add_extension(_keyUsage(signs=True), critical=True)
    else:
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(_keyUsage(signs=False), critical=True)
        )
    return builder.sign(issuerKey, hashes.SHA256())


def _keyUsage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _write(directory: Path, name: str, certificate: x509.Certificate, key: Key) -> None:
    (directory / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path = directory / f"{name}-key.pem"
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
