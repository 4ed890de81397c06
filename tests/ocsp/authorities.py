"""
An authority whose certificates name a responder, and its responses.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID

from tests.interop.tls.authority import Issued, authority, issue

GOOD, REVOKED, UNKNOWN = (
    ocsp.OCSPCertStatus.GOOD,
    ocsp.OCSPCertStatus.REVOKED,
    ocsp.OCSPCertStatus.UNKNOWN,
)

#: The time of tests without a real one.
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.timezone.utc)


def certified(
    signer: Issued,
    subject: str = "CN=localhost",
    url: str = "http://ocsp.example/",
    must: bool = False,
    names: Sequence[str] = ("localhost",),
    usages: Sequence[x509.ObjectIdentifier] = (
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    ),
) -> Issued:
    """
    @param url: of the responder; empty for none.
    @param must: whether a response must be shown with it.
    """
    made = issue(signer, subject, names=names, usages=usages)
    plain = made.certificate
    builder = (
        x509.CertificateBuilder()
        .subject_name(plain.subject)
        .issuer_name(plain.issuer)
        .public_key(plain.public_key())
        .serial_number(plain.serial_number)
        .not_valid_before(plain.not_valid_before_utc)
        .not_valid_after(plain.not_valid_after_utc)
    )
    for extension in plain.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    if url:
        place = x509.AccessDescription(
            AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(url)
        )
        builder = builder.add_extension(x509.AuthorityInformationAccess([place]), False)
    if must:
        feature = x509.TLSFeature([x509.TLSFeatureType.status_request])
        builder = builder.add_extension(feature, False)
    return Issued(builder.sign(signer.key, hashes.SHA256()), made.key)


def responded(
    certificate: x509.Certificate,
    signer: Issued,
    status: ocsp.OCSPCertStatus = GOOD,
    since: datetime.datetime = NOW,
    lasting: float | None = 3600.0,
    delegate: Issued | None = None,
    issuer: x509.Certificate | None = None,
) -> bytes:
    """
    @param lasting: seconds; C{None} for an answer without an expiry.
    @param delegate: signs instead of the authority.
    @param issuer: that the answer names, if that is not the signer.
    """
    isRevoked = status is REVOKED
    shown = delegate or signer
    builder = ocsp.OCSPResponseBuilder().add_response(
        certificate,
        issuer or signer.certificate,
        hashes.SHA1(),
        status,
        since,
        None if lasting is None else since + datetime.timedelta(seconds=lasting),
        since if isRevoked else None,
        None,
    )
    builder = builder.responder_id(ocsp.OCSPResponderEncoding.NAME, shown.certificate)
    if delegate is not None:
        builder = builder.certificates([delegate.certificate])
    return builder.sign(shown.key, hashes.SHA256()).public_bytes(Encoding.DER)


def delegated(signer: Issued, *usages: x509.ObjectIdentifier) -> Issued:
    """
    @return: a delegate that the authority has certified for some usages.
    """
    return issue(signer, "CN=delegate", usages=usages or (ExtendedKeyUsageOID.OCSP_SIGNING,))


def refusal() -> bytes:
    """
    @return: a response that is none.
    """
    status = ocsp.OCSPResponseStatus.TRY_LATER
    return ocsp.OCSPResponseBuilder.build_unsuccessful(status).public_bytes(Encoding.DER)


__all__ = [
    "GOOD",
    "NOW",
    "REVOKED",
    "UNKNOWN",
    "Issued",
    "authority",
    "certified",
    "delegated",
    "ec",
    "refusal",
    "responded",
]
