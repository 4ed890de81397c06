"""
The C{tls} block, with the defaults of nats-server 2.15. docs/reference/configuration.md has the
meaning of each key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.files import CERTIFICATE, PRIVATE_KEY, pemProblem
from natsbroker.config.ocsp import OCSPPeer, ocspPeerOf
from natsbroker.wire.durations import secondsFrom


@dataclass(frozen=True, slots=True)
class TLSSettings:
    """
    @ivar certs: every (certificate, key) pair of paths, C{cert_file} and C{key_file} first.
    @ivar handshake_first_fallback: seconds to wait for a handshake before INFO is sent
        in the clear after all; 0 for no such fallback.
    @ivar ocsp: the L{natsbroker.ocsp.desk.OCSPTerms} of a broker that runs.
    @ivar place: the dotted path for errors, behind its place in the file if it has one.
    """

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    certs: tuple[tuple[str, str], ...] = ()
    verify: bool = False
    verify_and_map: bool = False
    verify_cert_and_check_known_urls: bool = False
    insecure: bool = False
    timeout: float = 2.0
    min_version: str = "1.2"
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[str, ...] = ()
    pinned_certs: frozenset[str] = frozenset()
    handshake_first: bool = False
    handshake_first_fallback: float = 0.0
    connection_rate_limit: int = 0
    ocsp_peer: OCSPPeer | None = None
    place: str = field(default="tls", compare=False, repr=False)
    ocsp: Any = field(default=None, compare=False, repr=False)


FALLBACK_DELAY = 0.05
"""Seconds that C{handshake_first: auto} waits."""

CIPHER_SUITES = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
INSECURE_CIPHER_SUITES = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
)
CURVES = (
    "X25519MLKEM768",
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
    "X25519",
    "CurveP256",
    "CurveP384",
    "CurveP521",
)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def tlsOf(
    block: ParsedBlock, findings: Diagnostics, name: str = "tls", hasURLs: bool = False
) -> TLSSettings | None:
    """
    @param hasURLs: whether the URLs of peers are configured, which their certificates can name.
    """
    inner = block.block(name)
    if inner is None:
        return None
    key = "verify_cert_and_check_known_urls"
    if inner.flag(key) and not hasURLs:
        findings.errorAt(inner, key, "not supported in this context")
    return _Block(inner, findings).tls()


@dataclass
class _Block:
    _block: ParsedBlock
    _findings: Diagnostics

    def tls(self) -> TLSSettings:
        block = self._block
        self._check()
        first, fallback = self._handshakeFirst()
        return TLSSettings(
            **{
                **block.fieldsOf(TLSSettings),
                "certs": self._certificates(),
                "verify": block.flag("verify") or block.flag("verify_and_map"),
                "pinned_certs": self._pins(),
                "ocsp_peer": ocspPeerOf(block),
                "handshake_first": first,
                "handshake_first_fallback": fallback,
                "place": f"{block.position}: {block.path}" if block.position.source else block.path,
            }
        )

    def _check(self) -> None:
        block = self._block
        if block.text("ca_file"):
            self._checkFile(block, "ca_file", CERTIFICATE)
        version = block.text("min_version", "1.2")
        if version in ("1.0", "1.1"):
            self._error(f"unsupported TLS version: TLS {version}", "min_version")
        elif version not in ("1.2", "1.3"):
            self._error(f"unknown version: {version}", "min_version")
        self._checkNames("cipher_suites", CIPHER_SUITES + INSECURE_CIPHER_SUITES, "cipher")
        suites = block.texts("cipher_suites")
        insecure = [name for name in suites if name in INSECURE_CIPHER_SUITES]
        if insecure and not block.flag("allow_insecure_cipher_suites"):
            self._error(
                "insecure cipher suites configured without 'allow_insecure_cipher_suites' "
                f"option set: {', '.join(insecure)}",
                "cipher_suites",
            )
        self._checkNames("curve_preferences", CURVES, "curve preference")

    def _error(self, message: str, name: str) -> None:
        self._findings.errorAt(self._block, name, message)

    def _certificates(self) -> tuple[tuple[str, str], ...]:
        block = self._block
        single = "cert_file" in block or "key_file" in block
        if "certs" in block and single:
            self._error("cannot combine 'cert_file' option with 'certs' option", "certs")
        entries = [block] if single else block.blocks("certs")
        return tuple(self._pair(entry) for entry in entries)

    def _pair(self, entry: ParsedBlock) -> tuple[str, str]:
        for name, kind in (("cert_file", CERTIFICATE), ("key_file", PRIVATE_KEY)):
            if entry.text(name):
                self._checkFile(entry, name, kind)
            else:
                message = f"missing '{name}' in TLS configuration"
                self._findings.error(message, entry.path, entry.position)
        return entry.text("cert_file"), entry.text("key_file")

    def _checkFile(self, block: ParsedBlock, name: str, kind: str) -> None:
        wrong = pemProblem(block.text(name), kind, self._findings.read)
        if wrong:
            self._findings.errorAt(block, name, wrong)

    def _checkNames(self, name: str, known: tuple[str, ...], what: str) -> None:
        names = self._block.texts(name)
        if name in self._block and not names:
            self._error(f"'{name}' cannot be empty", name)
        for chosen in names:
            if chosen not in known:
                self._error(f"unrecognized {what} {chosen}", name)

    def _pins(self) -> frozenset[str]:
        pins = frozenset(text.lower() for text in self._block.texts("pinned_certs"))
        for pin in sorted(pins):
            if _FINGERPRINT.fullmatch(pin) is None:
                message = f"key {pin} is not the hexadecimal SHA-256 of a public key"
                self._error(message, "pinned_certs")
        return pins

    def _handshakeFirst(self) -> tuple[bool, float]:
        name = "handshake_first"
        text = self._block.take(name, str)
        if text is None:
            return self._block.flag(name), 0.0
        word = text.lower()
        if word in ("true", "on", "false", "off"):
            return word in ("true", "on"), 0.0
        if word in ("auto", "auto_fallback"):
            return True, FALLBACK_DELAY
        try:
            return True, secondsFrom(text)
        except ValueError:
            self._error(f'value "{text}" is invalid', name)
            return False, 0.0


_HELP = """
A tls block names a certificate, its key, and what clients must bring:

    tls {
        cert_file: "server.pem"
        key_file: "server-key.pem"
        ca_file: "clients.pem"
        verify: true
        min_version: "1.2"
    }

"""


def tlsHelp() -> str:
    groups = (
        ("Cipher suites:", CIPHER_SUITES),
        ("With allow_insecure_cipher_suites: true also:", INSECURE_CIPHER_SUITES),
        ("Curve preferences:", CURVES),
    )
    parts = ["\n".join([title, *(f"    {name}" for name in names)]) for title, names in groups]
    return _HELP + "\n\n".join(parts) + "\n"
