"""
Who a worker says it is: every kind of credential that NATS servers take.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from natsbroker.client import options
from natsbroker.client.options import ConnectOptions
from natsbroker.spark.errors import OptionError
from natsbroker.spark.nats.addresses import ServerAccess
from natsbroker.wire.nkeys import NkeyError, Role, WrongRole, decodeSeed, encodeKey

_PART = re.compile(r"-{3,}BEGIN (?P<name>[^-\n]+?)-{3,}\s+(?P<text>[\w.=+/-]+)\s+-{3,}END ", re.S)


def connectFields(access: ServerAccess, nonce: str, isTLS: bool) -> dict[str, Any]:
    jwt, nkey, seed = "", "", b""
    if access.credentialsFile:
        jwt, seed = readCredentials(access.credentialsFile)
    elif access.nkeySeedFile:
        seed = readSeed(_contents(access.nkeySeedFile), access.nkeySeedFile)
        nkey = encodeKey(Role.USER, bytes(_keyOf(seed).verify_key))
    sign = (lambda data: _keyOf(seed).sign(data).signature) if seed else None
    known = access.name, access.user, access.password, access.token
    fields = options.connectFields(
        ConnectOptions(*known, nkey, jwt, sign, echo=False), nonce, isTLS
    )
    return {**fields, "lang": "python-natsbroker-spark"}


def readCredentials(path: str) -> tuple[str, bytes]:
    parts = {found["name"]: found["text"] for found in _PART.finditer(_contents(path))}
    jwt, seed = parts.get("NATS USER JWT"), parts.get("USER NKEY SEED")
    if jwt is None or seed is None:
        raise OptionError(f"{path} is no file of credentials: it needs a user's JWT and seed")
    return jwt, readSeed(seed, path)


def readSeed(text: str, path: str) -> bytes:
    """
    The 32 secret bytes of a user's nkey.

    @param path: where the text was found, for the error.
    """
    lines = [each.strip() for each in text.splitlines()]
    seeds = [each for each in lines if each and not each.startswith("#")]
    if len(seeds) != 1:
        raise OptionError(f"{path} must hold the seed of one nkey")
    try:
        return decodeSeed(seeds[0])
    except WrongRole:
        raise OptionError(f"{path} holds a key that is no user's seed") from None
    except NkeyError as error:
        raise OptionError(f"{path} holds no seed of an nkey: {error}") from None


def _keyOf(seed: bytes) -> Any:
    try:
        from nacl.signing import SigningKey
    except ImportError:
        raise OptionError(
            "nkeys and files of credentials need PyNaCl where tasks run: pip install PyNaCl"
        ) from None
    return SigningKey(seed)


def _contents(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not a text") from None
