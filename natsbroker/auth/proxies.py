"""
Proxies that are trusted because they sign the nonce: C{proxy_sig} in CONNECT. (The PROXY protocol
needs no key.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from natsbroker import errors
from natsbroker.auth.nkeys import decodeSignature, isSignature
from natsbroker.wire.grants import ConnectRequest
from natsbroker.wire.nkeys import publicBytes


class TrustedProxies:
    """The trusted proxies. All connections share one object, in which a reload changes the keys."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.use(keys)

    def use(self, keys: Iterable[str]) -> None:
        self._keys = {key: publicBytes(key) for key in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def seen(self, request: ConnectRequest) -> ConnectRequest:
        """
        The request with the key of its trusted proxy, if it has one.

        @raise errors.Unauthorized: for the signature of a proxy that is not trusted.
        """
        text, before = request.text("proxy_sig"), request.granted
        isGone = before is not None and before.proxy and before.proxy not in self._keys
        if not isGone and not (text and self._keys):
            return request
        try:
            signature = decodeSignature(text)
        except ValueError:
            signature = b""
        nonce = request.nonce.encode("ascii")
        for key, public in self._keys.items():
            if nonce and isSignature(signature, nonce, public):
                return replace(request, proxy=key)
        raise errors.Unauthorized("proxy is not trusted", errors.PROXY_NOT_TRUSTED)


def requireProxy(request: ConnectRequest) -> None:
    """Raise L{errors.Unauthorized} if a connection did not come through a trusted proxy."""
    if not request.proxy:
        raise errors.Unauthorized("proxy connection required", errors.PROXY_REQUIRED)
