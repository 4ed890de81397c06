"""
Requests and responses of OCSP (RFC 6960), without a transport. A response counts if the
certificate's issuer or its delegate has signed it, and if it is current.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID


class OCSPError(ValueError):
    """A response that does not count."""


class Status(Enum):
    GOOD = "good"
    REVOKED = "revoked"
    UNKNOWN = "unknown"


_STATUSES = {
    ocsp.OCSPCertStatus.GOOD: Status.GOOD,
    ocsp.OCSPCertStatus.REVOKED: Status.REVOKED,
    ocsp.OCSPCertStatus.UNKNOWN: Status.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class OCSPAnswer:
    """A response; times in seconds since the epoch, C{until} is C{None} if not given."""

    status: Status
    data: bytes
    since: float
    until: float | None

    def isCurrent(self, now: float, skew: float, lasting: float) -> bool:
        """
        Whether the response is current, by clocks that differ by up to C{skew} seconds. C{lasting}
        is the default duration.
        """
        until = self.since + lasting if self.until is None else self.until
        return self.since <= now + skew and now - skew <= until


def requestFor(certificate: x509.Certificate, issuer: x509.Certificate) -> bytes:
    # Responders know certificates by SHA-1 (RFC 5019); nothing depends on its strength.
    builder = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA1())
    return builder.build().public_bytes(Encoding.DER)


def readAnswer(data: bytes, certificate: x509.Certificate, issuer: x509.Certificate) -> OCSPAnswer:
    """
    Read a response. L{OCSPError} if it is not about the certificate, or not from its authority.
    """
    try:
        response = ocsp.load_der_ocsp_response(data)
        if response.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
            raise OCSPError(f"the responder says {response.response_status.name}")
        _checkSignature(response, issuer)
        for single in response.responses:
            if single.serial_number == certificate.serial_number:
                until = single.next_update_utc
                return OCSPAnswer(
                    _STATUSES[single.certificate_status],
                    data,
                    single.this_update_utc.timestamp(),
                    None if until is None else until.timestamp(),
                )
    except (ValueError, UnsupportedAlgorithm, InvalidSignature) as error:
        if isinstance(error, OCSPError):
            raise
        raise OCSPError(str(error) or "wrong signature") from error
    raise OCSPError("the response is about another certificate")


def _checkSignature(response: ocsp.OCSPResponse, issuer: x509.Certificate) -> None:
    candidates = [
        issuer,
        *filter(lambda certificate: _isDelegate(certificate, issuer), response.certificates),
    ]
    for candidate in candidates:
        try:
            _verify(response, candidate.public_key())
        except InvalidSignature:
            continue
        return
    raise OCSPError("neither the issuer nor a delegate of it has signed the response")


def _isDelegate(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    now = datetime.now(timezone.utc)
    isTimely = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
    return isTimely and ExtendedKeyUsageOID.OCSP_SIGNING in usage


def _verify(response: ocsp.OCSPResponse, key: object) -> None:
    signature, signed = response.signature, response.tbs_response_bytes
    algorithm = response.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey) and algorithm is not None:
        key.verify(signature, signed, padding.PKCS1v15(), algorithm)
    elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm is not None:
        key.verify(signature, signed, ec.ECDSA(algorithm))
    elif isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        key.verify(signature, signed)
    else:
        raise InvalidSignature


def respondersOf(certificate: x509.Certificate) -> tuple[str, ...]:
    """The URLs of the responders that a certificate names."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.AuthorityInformationAccess)
    except (ValueError, x509.ExtensionNotFound):
        return ()
    urls = [
        description.access_location.value
        for description in extension.value
        if description.access_method == AuthorityInformationAccessOID.OCSP
        and isinstance(description.access_location, x509.UniformResourceIdentifier)
    ]
    return tuple(url for url in urls if url.startswith(("http://", "https://")))


def mustStaple(certificate: x509.Certificate) -> bool:
    try:
        features = certificate.extensions.get_extension_for_class(x509.TLSFeature).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    return x509.TLSFeatureType.status_request in features


def issuerAmong(
    certificate: x509.Certificate, candidates: list[x509.Certificate]
) -> x509.Certificate | None:
    for candidate in candidates:
        try:
            certificate.verify_directly_issued_by(candidate)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return candidate
    return None


def soon(now: float, answer: OCSPAnswer) -> float:
    """The seconds until the next answer is fetched: half of the remaining time."""
    if answer.until is None:
        return timedelta(days=1).total_seconds()
    return max((answer.until - now) / 2, 120.0)
