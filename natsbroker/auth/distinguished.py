"""
Distinguished names, as the names of users and as the subjects of certificates, to be compared.

The real server's reading (C{internal/ldap/dn.go}, observed): types without regard to
case, values exactly; blanks around a part do not count unless they are escaped; the parts of one
subject are as many as those of the other, and what stands between plus signs has no order. A
subject with an attribute that the real server does not know has no distinguished name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cryptography import x509
from cryptography.x509.oid import NameOID

__all__ = ["Distinguished", "Part", "nameOf", "readName"]

#: One part: how many attributes there are, and which.
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

_SPECIAL = frozenset(b' "#+,;<=>\\')
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]{2}")
_EQUALS, _HASH, _COMMA, _PLUS, _BLANK, _BACKSLASH = b"=#,+ \\"


class _Unreadable(ValueError):
    """
    A text is no distinguished name.
    """


def nameOf(subject: x509.Name) -> Distinguished | None:
    """
    The distinguished name of a certificate's subject, the last part first, as one writes it; or
    C{None}.
    """
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
    """
    A user's name read as a distinguished name; C{None} for any other name.
    """
    try:
        return tuple(_DistinguishedNameReader(text).parts()) or None
    except _Unreadable:
        return None


class _DistinguishedNameReader:
    """
    Reads one text, octet by octet.
    """

    def __init__(self, text: str) -> None:
        self._octets = text.encode("utf-8", "surrogateescape")
        self._taken = bytearray()
        self._trailing = 0
        self._kind = ""

    def parts(self) -> Iterator[Part]:
        """
        The parts in their order. What ends in an empty value is no part, at the end of the text.
        """
        attributes: list[tuple[str, str]] = []
        for octet, isEscaped, following in self._signs():
            if isEscaped or octet not in (_EQUALS, _COMMA, _PLUS):
                self._take(octet, isEscaped)
            elif octet == _EQUALS:
                self._kind = self._taking().lower()
                if following == _HASH:
                    raise _Unreadable("a value in BER")
            else:
                attributes.append(self._attribute())
                if octet == _COMMA:
                    yield len(attributes), frozenset(attributes)
                    attributes = []
        if self._taken:
            attributes.append(self._attribute())
            yield len(attributes), frozenset(attributes)

    def _signs(self) -> Iterator[tuple[int, bool, int | None]]:
        """
        Each octet, whether it was escaped, and the one that follows.
        """
        octets, place = self._octets, 0
        while place < len(octets):
            octet, isEscaped = octets[place], False
            if octet == _BACKSLASH:
                place += 1
                if place == len(octets):
                    return
                octet, isEscaped = octets[place], True
                if octet not in _SPECIAL:
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
        """
        What was taken, without blanks at its end.
        """
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
        raise _Unreadable("a backslash before nothing that it escapes")
    return int(digits, 16)
