"""The web pages that may connect, by the C{Origin} that their browsers send."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from natsbroker.config.addresses import splitAddress

_PORTS = {"http": "80", "https": "443"}


class Origin(NamedTuple):
    scheme: str
    host: str
    port: str


def originOf(url: str) -> Origin:
    """An origin. C{ValueError} if it is not an absolute URL with the scheme C{http} or C{https}."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f'unable to parse allowed origin: "{url}" is not a URL') from None
    if parts.scheme not in _PORTS:
        raise ValueError(
            f'unable to parse allowed origin "{url}": allowed origins must be absolute URLs with '
            "http or https scheme"
        )
    if not parts.netloc:
        raise ValueError(f'unable to parse allowed origin "{url}": host is required')
    return Origin(parts.scheme, *_place(parts.netloc, parts.scheme))


def _place(authority: str, scheme: str) -> tuple[str, str]:
    """A host and a port. C{ValueError} if the text is neither a host nor a host and a port."""
    if authority.endswith("]") or ":" not in authority:
        return authority.lower(), _PORTS[scheme]
    host, port = splitAddress(authority)
    return host.lower(), str(port)


@dataclass(frozen=True)
class OriginCheck:
    """C{allowed} is empty to allow any origin."""

    isSame: bool = False
    allowed: frozenset[Origin] = frozenset()

    @classmethod
    def fromSettings(cls, isSame: bool, allowed: Iterable[str]) -> OriginCheck:
        return cls(isSame, frozenset(map(originOf, allowed)))

    def problem(self, origin: str, host: str, isTLS: bool) -> str:
        """
        @param origin: the header of the request; empty for none, as from programs other than
            browsers, which could send anything.
        @param host: the C{Host} of the request.
        @return: the reason why the page may not connect; empty if it may.
        """
        if not origin or not (self.isSame or self.allowed):
            return ""
        try:
            given = originOf(origin)
            own = "https" if isTLS else "http"
            if self.isSame and given != Origin(own, *_place(host, own)):
                return "not same origin"
        except ValueError:
            return "not an http or https URL"
        if self.allowed and given not in self.allowed:
            return "not in the allowed list"
        return ""
