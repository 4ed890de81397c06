"""
The users that a client certificate names.

The texts are those that nats-server 2.15.1 looks for; see its C{checkClientTLSCertSubject}.
"""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from natsbroker.auth.certificates import CertificateNames, described
from tests.auth.certificates import certificate

SUBJECT = "CN=bob,OU=eng,O=acme,DC=example,DC=com"


def first(users: list[str], **more: object) -> str | None:
    """The first user that a certificate names."""
    return next(CertificateNames(users).namesIn(certificate(**more)), None)  # type: ignore[arg-type]


class TestAlternatives:
    """Alternative names."""

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("emails", "alice@example.com"),
            ("names", "host.example.com"),
            ("urls", "spiffe://example/alice"),
        ],
    )
    def test_each(self, kind: str, text: str) -> None:
        """An e-mail address, a DNS name or a URI may be a user."""
        assert first(["x", text], **{kind: [text]}) == text

    def test_order(self) -> None:
        """They are tried in this order, and each kind in the certificate's order."""
        alternatives = {"emails": ["e@x", "f@x"], "names": ["n.x"], "urls": ["u:x"]}
        given = certificate(SUBJECT, **alternatives)
        found = CertificateNames(["u:x", "n.x", "f@x", "e@x"]).namesIn(given)
        assert list(found) == ["e@x", "f@x", "n.x", "u:x"]

    def test_exact(self) -> None:
        """A name must be the same, wildcards and case included."""
        assert first(["host.example.com"], names=["*.example.com"]) is None
        assert first(["ALICE@example.com"], emails=["alice@example.com"]) is None


class TestSubject:
    """The distinguished name."""

    def test_equal(self) -> None:
        """A user whose name is that distinguished name is meant."""
        assert first([SUBJECT], subject=SUBJECT) == SUBJECT

    def test_spelling(self) -> None:
        """It may be written in another way that means the same."""
        assert first(["CN=b\\6fb,OU=eng"], subject="CN=bob,OU=eng") == "CN=b\\6fb,OU=eng"

    def test_reordered(self) -> None:
        """Its parts may stand in another order."""
        user = "DC=com,DC=example,O=acme,OU=eng,CN=bob"
        assert first([user], subject=SUBJECT) == user

    def test_equalBeforeReordered(self) -> None:
        """The user with the same order is preferred."""
        found = CertificateNames(["OU=eng,CN=bob", "CN=bob,OU=eng"]).namesIn(
            certificate("CN=bob,OU=eng")
        )
        assert next(found) == "CN=bob,OU=eng"

    @pytest.mark.parametrize(
        "user", ["CN=bob", "CN=bob,OU=eng", SUBJECT + ",DC=org", "CN=bob,CN=bob,OU=eng,O=acme"]
    )
    def test_partsMustAllBeThere(self, user: str) -> None:
        """More or fewer parts are another name."""
        assert first([user], subject=SUBJECT) is None

    def test_multiValued(self) -> None:
        """Parts of several values are compared as a whole."""
        subject = "CN=bob+OU=7,O=acme"
        assert first(["OU=7+CN=bob,O=acme"], subject=subject) is not None
        assert first(["CN=bob,OU=8,O=acme"], subject=subject) is None

    def test_unknown(self) -> None:
        """Where the subject has an attribute that nats-server does not know, only the text that Go
        prints counts, which is without it."""
        subject = "CN=bob,UID=7,O=acme"
        assert first([subject], subject=subject) is None
        assert first(["CN=bob,O=acme"], subject=subject) is not None

    def test_nul(self) -> None:
        """A NUL in a name ends nothing."""
        assert first(["CN=bob"], subject="CN=bob\\00evil") is None

    @pytest.mark.parametrize("user", ["", "=", "CN", "CN=", "a=b", "CN=a,", "CN=\\zz", "=x,=y"])
    def test_noName(self, user: str) -> None:
        """A user whose name cannot be read as one is no distinguished name."""
        assert first([user], subject=SUBJECT) is None


class TestPrinted:
    """The text that Go prints of a subject."""

    def test_withoutDomain(self) -> None:
        """The domain components are left out."""
        assert first(["CN=bob,OU=eng,O=acme"], subject=SUBJECT) == "CN=bob,OU=eng,O=acme"

    def test_withDomain(self) -> None:
        """With them at the end, in the certificate's order, it is tried before."""
        user = "CN=bob,OU=eng,O=acme,DC=com,DC=example"
        assert first([user, "CN=bob,OU=eng,O=acme"], subject=SUBJECT) == user

    def test_order(self) -> None:
        """Go sorts the parts in its own way, and joins values of one kind."""
        subject = "C=CH,ST=ZH,L=Zurich,O=acme,OU=b+OU=a,CN=bob"
        user = "CN=bob,OU=b+OU=a,O=acme,L=Zurich,ST=ZH,C=CH"
        assert user in set(CertificateNames([user]).namesIn(certificate(subject)))

    def test_twoNames(self) -> None:
        """Of two common names it prints the last in the certificate's order."""
        assert first(["CN=bob,O=acme"], subject="CN=bob,CN=eve,O=acme") is not None
        assert first(["CN=eve,O=acme"], subject="CN=bob,CN=eve,O=acme") is None

    def test_nothing(self) -> None:
        """A certificate without any name names nobody."""
        assert first(["", "x"]) is None


class TestDescribed:
    """What monitoring tells."""

    @pytest.mark.parametrize(
        ("subject", "shown"),
        [
            ("CN=bob,OU=eng,O=acme", "CN=bob,OU=eng,O=acme"),
            ("CN=b,DC=example,DC=com", "CN=b,0.9.2342.19200300.100.1.25=example,"),
            ("DC=x\\,y", "0.9.2342.19200300.100.1.25=x\\,y"),
        ],
    )
    def test_subject(self, subject: str, shown: str) -> None:
        """Attributes without a name stand at the end with their numbers."""
        assert described(certificate(subject))["subject"].startswith(shown)

    def test_digests(self) -> None:
        """The digests are those of the key and of the whole."""
        given = certificate("CN=x")
        whole = hashlib.sha256(given.public_bytes(Encoding.DER)).hexdigest()
        found = described(given)
        assert (found["cert_sha256"], list(found)[1]) == (whole, "spki_sha256")
        again = described(certificate("CN=y"))
        assert found["spki_sha256"] == again["spki_sha256"] != whole

    def test_nobody(self) -> None:
        """Who has no name is shown none."""
        assert "subject" not in described(certificate(names=["host"]))
