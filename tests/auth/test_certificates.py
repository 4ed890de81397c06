"""
The users that a client certificate names.

The texts are those that nats-server 2.15.1 compares; see its C{checkClientTLSCertSubject}.
"""

from __future__ import annotations

import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.certificates import (
    CertificateNames,
    Distinguished,
    described,
    nameOf,
    namesHost,
    readName,
)
from tests.auth.certificates import certificate


@pytest.mark.parametrize(
    ("name", "hosts", "isNamed"),
    [
        ("a.example.com", ["b.example.com", "a.example.com"], True),
        ("A.example.com", ["a.EXAMPLE.com"], True),
        ("a.example.com", ["b.example.com"], False),
        ("a.example.com", [], False),
        ("a.example.com", ["example.com"], False),
        ("*.example.com", ["a.example.com"], True),
        ("*.example.com", ["example.com"], False),
        ("*.example.com", ["b.a.example.com"], False),
        ("a.*.com", ["a.example.com"], False),
        ("*", ["localhost"], True),
    ],
)
def test_hosts(name: str, hosts: list[str], isNamed: bool) -> None:
    """A DNS name stands for a host, and a star as its first label for any one label."""
    assert namesHost(certificate(names=["x.org", name]), hosts) is isNamed
    assert not namesHost(certificate(f"CN={name.replace('*', 'x')}", emails=[name]), hosts)


def part(*attributes: tuple[str, str]) -> tuple[int, frozenset[tuple[str, str]]]:
    """One part of a distinguished name."""
    return len(attributes), frozenset(attributes)


BOB, ACME = part(("cn", "bob")), part(("o", "acme"))


class TestReading:
    """Distinguished names in text form."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("CN=bob,O=acme", (BOB, ACME)),
            ("cn=bob,o=acme", (BOB, ACME)),
            (" CN = bob , O= acme ", (BOB, ACME)),
            ("CN=bob+OU=x,O=acme", (part(("ou", "x"), ("cn", "bob")), ACME)),
            ("CN=b\\6fb,O=acme", (BOB, ACME)),
            ("CN=bob,O=", (BOB,)),
            ("CN=bob,", (BOB,)),
            ("CN=bob\\", (BOB,)),
            ("CN=,O=acme", (part(("cn", "")), ACME)),
            ("CN=a\\,b", (part(("cn", "a,b")),)),
            ("CN=a\\ ", (part(("cn", "a ")),)),
            ("CN=\\20a", (part(("cn", " a")),)),
            ("CN=b\\c3\\b6b", (part(("cn", "b\xf6b")),)),
            ("CN=a=b", (part(("a", "b")),)),
            ("CN=a;b", (part(("cn", "a;b")),)),
        ],
    )
    def test_distinguishedName(self, text: str, expected: Distinguished) -> None:
        """A distinguished name is read as nats-server reads it, oddities included."""
        assert readName(text) == expected

    @pytest.mark.parametrize(
        "text", ["", " ", "bob", "=", "=x,=y", "CN=#04", "CN=\\zz", "CN=\\6", "x,CN=a"]
    )
    def test_invalidName(self, text: str) -> None:
        """A text that is not a distinguished name is refused."""
        assert readName(text) is None

    @given(st.text(alphabet="CNO=,+\\ #6fz\x00\xf6", max_size=12))
    def test_anyName(self, text: str) -> None:
        """Any user name is read as a distinguished name or refused."""
        read = readName(text)
        assert read is None or all(count >= len(names) > 0 for count, names in read)


class TestSubjects:
    """Subjects of certificates."""

    def test_orderOfParts(self) -> None:
        """The last part in the certificate is the first in the text."""
        assert nameOf(x509.Name.from_rfc4514_string("CN=bob,O=acme")) == (BOB, ACME)

    def test_repeated(self) -> None:
        """An attribute that occurs twice is compared twice."""
        name = nameOf(x509.Name.from_rfc4514_string("CN=bob,CN=bob"))
        assert name == readName("CN=bob,CN=bob") != readName("CN=bob")

    @pytest.mark.parametrize("oid", [NameOID.USER_ID, NameOID.EMAIL_ADDRESS, NameOID.TITLE])
    def test_unknownAttribute(self, oid: x509.ObjectIdentifier) -> None:
        """A subject with an attribute that nats-server does not know has no distinguished name."""
        attributes = [(NameOID.COMMON_NAME, "bob"), (oid, "x")]
        name = x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])
        assert nameOf(name) is None

    def test_empty(self) -> None:
        """A certificate with an empty subject has no distinguished name."""
        assert nameOf(x509.Name([])) is None


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
    def test_kindsOfNames(self, kind: str, text: str) -> None:
        """A certificate may name its user by an e-mail address, a DNS name or a URI."""
        assert first(["x", text], **{kind: [text]}) == text

    def test_orderOfNames(self) -> None:
        """
        Alternative names are tried by their kind, and those of one kind in the certificate's order.
        """
        alternatives = {"emails": ["e@x", "f@x"], "names": ["n.x"], "urls": ["u:x"]}
        given = certificate(SUBJECT, **alternatives)
        names = CertificateNames(["u:x", "n.x", "f@x", "e@x"]).namesIn(given)
        assert list(names) == ["e@x", "f@x", "n.x", "u:x"]

    def test_exactName(self) -> None:
        """A user's name must equal the alternative name exactly, wildcards and case included."""
        assert first(["host.example.com"], names=["*.example.com"]) is None
        assert first(["ALICE@example.com"], emails=["alice@example.com"]) is None


class TestSubject:
    """Users with a distinguished name."""

    def test_sameDistinguishedName(self) -> None:
        """A certificate names the user with the same distinguished name as its subject."""
        assert first([SUBJECT], subject=SUBJECT) == SUBJECT

    def test_spelling(self) -> None:
        """A user's distinguished name may be written in another form with the same meaning."""
        assert first(["CN=b\\6fb,OU=eng"], subject="CN=bob,OU=eng") == "CN=b\\6fb,OU=eng"

    def test_reordered(self) -> None:
        """The parts of a user's distinguished name may be in another order than in the subject."""
        user = "DC=com,DC=example,O=acme,OU=eng,CN=bob"
        assert first([user], subject=SUBJECT) == user

    def test_equalBeforeReordered(self) -> None:
        """A user whose parts are in the same order is preferred."""
        names = CertificateNames(["OU=eng,CN=bob", "CN=bob,OU=eng"]).namesIn(
            certificate("CN=bob,OU=eng")
        )
        assert next(names) == "CN=bob,OU=eng"

    @pytest.mark.parametrize(
        "user", ["CN=bob", "CN=bob,OU=eng", SUBJECT + ",DC=org", "CN=bob,CN=bob,OU=eng,O=acme"]
    )
    def test_otherNumberOfParts(self, user: str) -> None:
        """A user's distinguished name with more or fewer parts does not match."""
        assert first([user], subject=SUBJECT) is None

    def test_multiValued(self) -> None:
        """A part with several values is compared as a whole."""
        subject = "CN=bob+OU=7,O=acme"
        assert first(["OU=7+CN=bob,O=acme"], subject=subject) is not None
        assert first(["CN=bob,OU=8,O=acme"], subject=subject) is None

    def test_unknown(self) -> None:
        """
        A subject with an attribute that nats-server does not know is compared as the text that Go
        prints, which omits the attribute.
        """
        subject = "CN=bob,UID=7,O=acme"
        assert first([subject], subject=subject) is None
        assert first(["CN=bob,O=acme"], subject=subject) is not None

    def test_nul(self) -> None:
        """A NUL does not end a name."""
        assert first(["CN=bob"], subject="CN=bob\\00evil") is None

    @pytest.mark.parametrize("user", ["", "=", "CN", "CN=", "a=b", "CN=a,", "CN=\\zz", "=x,=y"])
    def test_noName(self, user: str) -> None:
        """A user's name that is not a distinguished name is never compared with a subject."""
        assert first([user], subject=SUBJECT) is None


class TestPrinted:
    """The text that Go prints for a subject."""

    def test_withoutDomain(self) -> None:
        """A user may be named by the text without domain components."""
        assert first(["CN=bob,OU=eng,O=acme"], subject=SUBJECT) == "CN=bob,OU=eng,O=acme"

    def test_withDomain(self) -> None:
        """A user named by the text with domain components at its end is preferred."""
        user = "CN=bob,OU=eng,O=acme,DC=com,DC=example"
        assert first([user, "CN=bob,OU=eng,O=acme"], subject=SUBJECT) == user

    def test_orderAsInGo(self) -> None:
        """Go sorts the parts in its own order, and joins values of one kind."""
        subject = "C=CH,ST=ZH,L=Zurich,O=acme,OU=b+OU=a,CN=bob"
        user = "CN=bob,OU=b+OU=a,O=acme,L=Zurich,ST=ZH,C=CH"
        assert user in set(CertificateNames([user]).namesIn(certificate(subject)))

    def test_twoNames(self) -> None:
        """The text has the last of two common names in the certificate's order."""
        assert first(["CN=bob,O=acme"], subject="CN=bob,CN=eve,O=acme") is not None
        assert first(["CN=eve,O=acme"], subject="CN=bob,CN=eve,O=acme") is None

    def test_emptyNameMatchesNobody(self) -> None:
        """A certificate without any name names no user, not even one with an empty name."""
        assert first(["", "x"]) is None


class TestDescribed:
    """The description of certificates in monitoring."""

    @pytest.mark.parametrize(
        ("subject", "shown"),
        [
            ("CN=bob,OU=eng,O=acme", "CN=bob,OU=eng,O=acme"),
            ("CN=b,DC=example,DC=com", "CN=b,0.9.2342.19200300.100.1.25=example,"),
            ("DC=x\\,y", "0.9.2342.19200300.100.1.25=x\\,y"),
        ],
    )
    def test_subject(self, subject: str, shown: str) -> None:
        """Attributes without a known name are shown at the end with their numbers."""
        assert described(certificate(subject))["subject"].startswith(shown)

    def test_digests(self) -> None:
        """The digests are those of the public key and of the whole certificate."""
        given = certificate("CN=x")
        whole = hashlib.sha256(given.public_bytes(Encoding.DER)).hexdigest()
        description = described(given)
        assert (description["cert_sha256"], list(description)[1]) == (whole, "spki_sha256")
        again = described(certificate("CN=y"))
        assert description["spki_sha256"] == again["spki_sha256"] != whole

    def test_certificateWithoutName(self) -> None:
        """A certificate without a name is described without a subject."""
        assert "subject" not in described(certificate(names=["host"]))
