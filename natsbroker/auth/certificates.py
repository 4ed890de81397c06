"""
The users that a client certificate names (C{verify_and_map}).

Promises: candidates in the real server's order: e-mail addresses, DNS names, URIs, then the
distinguished name, first compared part by part with users whose names are distinguished names,
then without regard to the order of the parts, and last as the text that Go prints.
Must never know: permissions, connections, or whether the certificate is valid: it was verified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

__all__ = ["CertificateNames"]

#: What Go's C{pkix.Name} prints, in its order; domain components it leaves out.
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

_SPECIAL = frozenset(',+"\\<>;')


class CertificateNames:
    """
    The names of users, to be found in certificates.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        parsed = [(name, _distinguished(name)) for name in self._names]
        self._distinguished = [(name, each) for name, each in parsed if each is not None]

    def namesIn(self, certificate: x509.Certificate) -> Iterator[str]:
        """
        Every user that a certificate names, the best first; a user may come up twice.
        """
        for candidate in _alternatives(certificate):
            if candidate in self._names:
                yield candidate
        subject = certificate.subject
        for name, wanted in self._distinguished:
            if wanted == subject:
                yield name
        parts = Counter(subject.rdns)
        for name, wanted in self._distinguished:
            if Counter(wanted.rdns) == parts:
                yield name
        for candidate in _printed(subject):
            if candidate in self._names:
                yield candidate


def _alternatives(certificate: x509.Certificate) -> Iterator[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return
    for kind in (x509.RFC822Name, x509.DNSName, x509.UniformResourceIdentifier):
        yield from extension.value.get_values_for_type(kind)


def _distinguished(name: str) -> x509.Name | None:
    """
    A user's name read as a distinguished name; C{None} for any other name.
    """
    if "=" not in name:
        return None
    try:
        return x509.Name.from_rfc4514_string(name)
    except ValueError:
        return None


def _printed(subject: x509.Name) -> Iterator[str]:
    """
    The subject as Go prints it: with its domain components at the end, then without any.
    """
    parts = []
    for oid, label in _PRINTED:
        values = [_escaped(each.value) for each in subject.get_attributes_for_oid(oid)]
        if values:
            parts.append("+".join(f"{label}={value}" for value in values))
    text = ",".join(parts)
    domains = [
        f"DC={_text(each.value)}"
        for each in subject.get_attributes_for_oid(NameOID.DOMAIN_COMPONENT)
    ]
    if domains:
        yield ",".join([text, *domains])
    if text:
        yield text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _escaped(value: Any) -> str:
    text = _text(value)
    shown = "".join(f"\\{each}" if each in _SPECIAL else each for each in text)
    if text[:1] in (" ", "#"):
        shown = "\\" + shown
    if text.endswith(" ") and len(text) > 1:
        shown = shown[:-1] + "\\ "
    return shown
