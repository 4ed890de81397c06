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
    """A request names the certificate, as a responder can read it."""
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
    """A delegate that the issuer has certified for it may sign."""
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
    """Any other response does not count."""
    with pytest.raises(OCSPError):
        readAnswer(REFUSED[name], CERTIFICATE, ISSUER)


def test_everyBit() -> None:
    """A response with any bit changed has the same content or is refused."""
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
    """An answer counts in its time, and a little before and after it as clocks differ."""
    assert OCSPAnswer(Status.GOOD, b"", 100, until).isCurrent(now, 30, 300) is isCurrent
    assert not OCSPAnswer(Status.GOOD, b"", 100, None).isCurrent(431, 30, 300)


def test_nextQuestion() -> None:
    """The next question is due at half of the validity, but not at once, and daily without one."""
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
