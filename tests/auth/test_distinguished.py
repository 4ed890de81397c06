"""
Distinguished names. What nats-server makes of them is compared in
tests/interop/tls/test_certificates.py.
"""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.auth.distinguished import Distinguished, nameOf, readName


def part(*attributes: tuple[str, str]) -> tuple[int, frozenset[tuple[str, str]]]:
    """One part."""
    return len(attributes), frozenset(attributes)


BOB, ACME = part(("cn", "bob")), part(("o", "acme"))


class TestReading:
    """Texts."""

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
    def test_read(self, text: str, expected: Distinguished) -> None:
        """The parts are read as nats-server reads them, its oddities included."""
        assert readName(text) == expected

    @pytest.mark.parametrize(
        "text", ["", " ", "bob", "=", "=x,=y", "CN=#04", "CN=\\zz", "CN=\\6", "x,CN=a"]
    )
    def test_none(self, text: str) -> None:
        """What is no distinguished name is none."""
        assert readName(text) is None

    @given(st.text(alphabet="CNO=,+\\ #6fz\x00\xf6", max_size=12))
    def test_anything(self, text: str) -> None:
        """Whatever a user is called, it is read or it is none."""
        read = readName(text)
        assert read is None or all(count >= len(found) > 0 for count, found in read)


class TestSubjects:
    """Subjects of certificates."""

    def test_order(self) -> None:
        """The last part in the certificate stands first."""
        assert nameOf(x509.Name.from_rfc4514_string("CN=bob,O=acme")) == (BOB, ACME)

    def test_repeated(self) -> None:
        """A part that stands there twice counts twice."""
        name = nameOf(x509.Name.from_rfc4514_string("CN=bob,CN=bob"))
        assert name == readName("CN=bob,CN=bob") != readName("CN=bob")

    @pytest.mark.parametrize("oid", [NameOID.USER_ID, NameOID.EMAIL_ADDRESS, NameOID.TITLE])
    def test_unknown(self, oid: x509.ObjectIdentifier) -> None:
        """One with an attribute that nats-server does not know has no name."""
        attributes = [(NameOID.COMMON_NAME, "bob"), (oid, "x")]
        name = x509.Name([x509.NameAttribute(each, value) for each, value in attributes])
        assert nameOf(name) is None

    def test_empty(self) -> None:
        """Nor has an empty one."""
        assert nameOf(x509.Name([])) is None
