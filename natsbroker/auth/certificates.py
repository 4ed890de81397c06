"""
The users that a client certificate names (C{verify_and_map}), in nats-server's order: e-mail
addresses, DNS names, URIs, then the distinguished name. This is compared part by part, then with
its parts in any order, and last as the text that Go prints.

Distinguished names are read as nats-server does (C{internal/ldap/dn.go}): types ignore case, values
do not, and spaces around a part count only if they are escaped.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

#: One part of a name: the number of its attributes, and the attributes.
Part = tuple[int, frozenset[tuple[str, str]]]

Distinguished = tuple[Part, ...]

_TYPES = {
    NameOID.COMMON_NAME: "cn",
    NameOID.SERIAL_NUMBER: "serialnumber",
    NameOID.COUNTRY_NAME: "c",
    NameOID.LOCALITY_NAME: "l",
    NameOID.STATE_OR_PROVINCE_NAME: "st",
    NameOID.STREET_ADDRESS: "street",
    NameOID.ORGANIZATION_NAME: "o",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "ou",
    NameOID.POSTAL_CODE: "postalcode",
    NameOID.DOMAIN_COMPONENT: "dc",
}

_ESCAPABLE = frozenset(b' "#+,;<=>\\')
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]{2}")
_EQUALS, _HASH, _COMMA, _PLUS, _BLANK, _BACKSLASH = b"=#,+ \\"


class _Unreadable(ValueError):
    pass


def nameOf(subject: x509.Name) -> Distinguished | None:
    """A certificate's subject, the last part first; C{None} if it cannot be compared."""
    parts: list[Part] = []
    for rdn in reversed(list(subject.rdns)):
        attributes = []
        for attribute in rdn:
            kind = _TYPES.get(attribute.oid)
            if kind is None or not isinstance(attribute.value, str):
                return None
            attributes.append((kind, attribute.value))
        parts.append((len(attributes), frozenset(attributes)))
    return tuple(parts) or None


def readName(text: str) -> Distinguished | None:
    """A user's name as a distinguished name; C{None} for any other name."""
    try:
        return tuple(_DistinguishedNameReader(text).parts()) or None
    except _Unreadable:
        return None


class _DistinguishedNameReader:
    def __init__(self, text: str) -> None:
        self._octets = text.encode("utf-8", "surrogateescape")
        self._taken = bytearray()
        self._trailing = 0
        self._kind = ""

    def parts(self) -> Iterator[Part]:
        attributes: list[tuple[str, str]] = []
        for octet, isEscaped, following in self._signs():
            if isEscaped or octet not in (_EQUALS, _COMMA, _PLUS):
                self._take(octet, isEscaped)
            elif octet == _EQUALS:
                self._kind = self._taking().lower()
                if following == _HASH:
                    raise _Unreadable("a value in BER is not supported")
            else:
                attributes.append(self._attribute())
                if octet == _COMMA:
                    yield len(attributes), frozenset(attributes)
                    attributes = []
        if self._taken:
            attributes.append(self._attribute())
            yield len(attributes), frozenset(attributes)

    def _signs(self) -> Iterator[tuple[int, bool, int | None]]:
        octets, place = self._octets, 0
        while place < len(octets):
            octet, isEscaped = octets[place], False
            if octet == _BACKSLASH:
                place += 1
                if place == len(octets):
                    return
                octet, isEscaped = octets[place], True
                if octet not in _ESCAPABLE:
                    octet = _hexadecimal(octets[place : place + 2])
                    place += 1
            place += 1
            yield octet, isEscaped, octets[place] if place < len(octets) else None

    def _take(self, octet: int, isEscaped: bool) -> None:
        if octet == _BLANK and not isEscaped:
            if not self._taken:
                return
            self._trailing += 1
        else:
            self._trailing = 0
        self._taken.append(octet)

    def _taking(self) -> str:
        text = bytes(self._taken[: len(self._taken) - self._trailing])
        self._taken.clear()
        self._trailing = 0
        return text.decode("utf-8", "surrogateescape")

    def _attribute(self) -> tuple[str, str]:
        kind, self._kind = self._kind, ""
        if not kind:
            raise _Unreadable("a value without a type")
        return kind, self._taking()


def _hexadecimal(digits: bytes) -> int:
    if not _HEXADECIMAL.fullmatch(digits):
        raise _Unreadable("a backslash that escapes nothing")
    return int(digits, 16)


#: The attributes that Go's C{pkix.Name} prints, in its order. It leaves out domain components.
_PRINTED = (
    (NameOID.SERIAL_NUMBER, "SERIALNUMBER"),
    (NameOID.COMMON_NAME, "CN"),
    (NameOID.POSTAL_CODE, "POSTALCODE"),
    (NameOID.STREET_ADDRESS, "STREET"),
    (NameOID.STATE_OR_PROVINCE_NAME, "ST"),
    (NameOID.LOCALITY_NAME, "L"),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, "OU"),
    (NameOID.ORGANIZATION_NAME, "O"),
    (NameOID.COUNTRY_NAME, "C"),
)

#: Go keeps only the last value of these.
_SINGLE = frozenset({NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER})

_SPECIAL = frozenset(',+"\\<>;')


class CertificateNames:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        parsed = [(name, readName(name)) for name in sorted(self._names)]
        self._distinguished = [
            (name, parsedName) for name, parsedName in parsed if parsedName is not None
        ]

    def namesIn(self, certificate: x509.Certificate) -> Iterator[str]:
        """The users that a certificate names, the best match first; a user may come twice."""
        for candidate in _alternatives(certificate):
            if candidate in self._names:
                yield candidate
        subject = certificate.subject
        parts = nameOf(subject)
        if parts is not None:
            yield from (name for name, wanted in self._distinguished if wanted == parts)
            counted = Counter(parts)
            for name, wanted in self._distinguished:
                if Counter(wanted) == counted:
                    yield name
        for candidate in _printed(subject):
            if candidate in self._names:
                yield candidate


def namesHost(certificate: x509.Certificate, hosts: Iterable[str]) -> bool:
    """
    Whether a DNS name of a certificate is one of some hosts. A star as its first label stands for
    any one label.
    """
    known = [host.lower().split(".") for host in hosts]
    for name in _alternatives(certificate, x509.DNSName):
        first, *others = name.lower().split(".")
        for host in known:
            if host[1:] == others and first in ("*", host[0]):
                return True
    return False


_AlternativeName = type[x509.RFC822Name | x509.DNSName | x509.UniformResourceIdentifier]


def _alternatives(certificate: x509.Certificate, *kinds: _AlternativeName) -> Iterator[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return
    for kind in kinds or (x509.RFC822Name, x509.DNSName, x509.UniformResourceIdentifier):
        yield from extension.value.get_values_for_type(kind)


def _printed(subject: x509.Name) -> Iterator[str]:
    """The subject as Go prints it: first with its domain components at the end, then without."""
    parts = []
    for oid, label in _PRINTED:
        values = [_escaped(attribute.value) for attribute in subject.get_attributes_for_oid(oid)]
        if oid in _SINGLE:
            values = values[-1:]
        if values:
            parts.append("+".join(f"{label}={value}" for value in values))
    text = ",".join(parts)
    domains = [
        f"DC={_text(attribute.value)}"
        for attribute in subject.get_attributes_for_oid(NameOID.DOMAIN_COMPONENT)
    ]
    if domains:
        yield ",".join([text, *domains])
    if text:
        yield text


def described(certificate: x509.Certificate) -> dict[str, str]:
    subject = _shown(certificate.subject)
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    row = {"subject": subject} if subject else {}
    return row | {
        "spki_sha256": hashlib.sha256(key).hexdigest(),
        "cert_sha256": hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
    }


def _shown(subject: x509.Name) -> str:
    """The subject as Go's C{String} gives it: attributes without a name stand at the end."""
    *_, known = "", *_printed(subject)
    named = {oid for oid, _ in _PRINTED}
    if not any(attribute.oid in named for attribute in subject):
        known = ""
    others = [
        f"{attribute.oid.dotted_string}={_escaped(attribute.value)}"
        for attribute in reversed(list(subject))
        if attribute.oid not in named
    ]
    return ",".join([known, *others] if known else others)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _escaped(value: Any) -> str:
    text = _text(value)
    shown = "".join(f"\\{character}" if character in _SPECIAL else character for character in text)
    if text[:1] in (" ", "#"):
        shown = "\\" + shown
    if text.endswith(" ") and len(text) > 1:
        shown = shown[:-1] + "\\ "
    return shown
