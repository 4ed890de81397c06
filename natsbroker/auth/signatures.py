"""
Whether a connection has the key that it names.

Only a signature of this connection's own nonce counts, so that what was overheard on one
connection is of no use on another.
"""

from __future__ import annotations

from natsbroker import errors
from natsbroker.auth.nkeys import Role, decodeKey, isSignature
from natsbroker.auth.octets import decodeSignature
from natsbroker.wire.grants import ConnectRequest

__all__ = ["checkSignature"]


def checkSignature(key: str, request: ConnectRequest) -> None:
    """
    Check that a connection's nonce is signed with a user's key.

    @raise errors.Unauthorized: if not, or if there is no nonce.
    """
    nonce, text = request.nonce, request.text("sig")
    if not nonce or not text:
        raise errors.Unauthorized("nothing is signed")
    try:
        signature, public = decodeSignature(text), decodeKey(key, Role.USER)
    except ValueError as error:
        raise errors.Unauthorized(f"the signature is none: {error}") from error
    if not isSignature(signature, nonce.encode("ascii"), public):
        raise errors.Unauthorized("the nonce is not signed with the user's key")
