"""
Tests for L{natsbroker.ocsp.responses}.
"""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from natsbroker.ocsp.responses import (
    OCSPAnswer,
    OCSPError,
    Status,
    issuerAmong,
    mustStaple,
    readAnswer,
    requestFor,
    respondersOf,
    soon,
)
from tests.ocsp.authorities import (
    GOOD,
    NOW,
    REVOKED,
    UNKNOWN,
    authority,
    certified,
    delegated,
    refusal,
    responded,
)

OURS, THEIRS, RSA = authority(), authority("CN=another"), authority("CN=rsa", bits=2048)

CERTIFICATE = certified(OURS).certificate

ISSUER = OURS.certificate


def test_request() -> None:
    """A request has the serial number of the certificate."""
    request = ocsp.load_der_ocsp_request(requestFor(CERTIFICATE, ISSUER))
    assert request.serial_number == CERTIFICATE.serial_number


@pytest.mark.parametrize(
    "told, status", [(GOOD, Status.GOOD), (REVOKED, Status.REVOKED), (UNKNOWN, Status.UNKNOWN)]
)
def test_status(told: ocsp.OCSPCertStatus, status: Status) -> None:
    """
    A response of the issuer has the status of the certificate, and the time for which it is valid.
    """
    data = responded(CERTIFICATE, OURS, told)
    answer = readAnswer(data, CERTIFICATE, ISSUER)
    since = NOW.timestamp()
    assert answer == OCSPAnswer(status, data, since, since + 3600)
    assert readAnswer(responded(CERTIFICATE, OURS, lasting=None), CERTIFICATE, ISSUER).until is None


def test_rsa() -> None:
    """Authorities may have RSA keys."""
    made = certified(RSA).certificate
    assert readAnswer(responded(made, RSA), made, RSA.certificate).status is Status.GOOD


def test_delegate() -> None:
    """A response may be signed by a delegate that the issuer has certified for OCSP."""
    data = responded(CERTIFICATE, OURS, delegate=delegated(OURS))
    assert readAnswer(data, CERTIFICATE, ISSUER).status is Status.GOOD


REFUSED = {
    "signature of another": responded(CERTIFICATE, THEIRS, issuer=ISSUER),
    "delegate of another": responded(CERTIFICATE, OURS, delegate=delegated(THEIRS)),
    "no delegate": responded(
        CERTIFICATE, OURS, delegate=delegated(OURS, ExtendedKeyUsageOID.SERVER_AUTH)
    ),
    "another certificate": responded(certified(OURS).certificate, OURS),
    "unsuccessful": refusal(),
    "nonsense": b"\x30\x03\x0a\x01\x09",
    "nothing": b"",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    """Responses with an invalid signature, time or content are refused."""
    with pytest.raises(OCSPError):
        readAnswer(REFUSED[name], CERTIFICATE, ISSUER)


def test_everyBit() -> None:
    """Changing any bit of a response either changes nothing that is read or makes it invalid."""
    data = responded(CERTIFICATE, OURS, REVOKED)
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            assert readAnswer(changed, CERTIFICATE, ISSUER).status is Status.REVOKED
        except OCSPError:
            continue


@pytest.mark.parametrize(
    "now, until, isCurrent",
    [(50, 200, False), (71, 200, True), (229, 200, True), (231, 200, False), (429, None, True)],
)
def test_current(now: float, until: float | None, isCurrent: bool) -> None:
    """A response is valid from its time until its end, with some tolerance for clocks."""
    assert OCSPAnswer(Status.GOOD, b"", 100, until).isCurrent(now, 30, 300) is isCurrent
    assert not OCSPAnswer(Status.GOOD, b"", 100, None).isCurrent(431, 30, 300)


def test_nextQuestion() -> None:
    """
    The next request is due after half of the validity, at least after some time, and daily if there
    is no end.
    """
    assert soon(100, OCSPAnswer(Status.GOOD, b"", 0, 1100)) == 500
    assert soon(100, OCSPAnswer(Status.GOOD, b"", 0, 101)) == 120
    assert soon(100, OCSPAnswer(Status.GOOD, b"", 0, None)) == 86400


def test_responders() -> None:
    """Responders are the HTTP addresses in the certificate."""
    assert respondersOf(CERTIFICATE) == ("http://ocsp.example/",)
    assert respondersOf(certified(OURS, url="").certificate) == ()
    assert respondersOf(certified(OURS, url="ldap://x").certificate) == ()


def test_mustStaple() -> None:
    """A certificate may require that a response is shown with it."""
    assert mustStaple(certified(OURS, must=True).certificate) and not mustStaple(CERTIFICATE)


def test_issuer() -> None:
    """The issuer is the certificate whose key signed, whatever the names are."""
    candidates: list[x509.Certificate] = [authority().certificate, RSA.certificate, ISSUER]
    assert issuerAmong(CERTIFICATE, candidates) == ISSUER
    assert issuerAmong(CERTIFICATE, candidates[:2]) is None
