"""
The settings of OCSP, with the defaults of nats-server 2.15. Times are seconds.
docs/reference/configuration.md has the meaning of each key.
"""

from __future__ import annotations

from dataclasses import dataclass

from natsbroker.config.blocks import Diagnostics, ParsedBlock

MODES = ("auto", "always", "must", "never")

CACHES = ("local", "none")


@dataclass(frozen=True, slots=True)
class OCSP:
    """
    @ivar urls: responders to ask instead of those that a certificate names.
    """

    mode: str = "auto"
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OCSPCache:
    """
    @ivar type: C{memory}, which is the default, is forgotten when the broker ends.
    """

    type: str = "memory"
    local_store: str = "_rc_"
    preserve_revoked: bool = False
    save_interval: float = 300.0


@dataclass(frozen=True, slots=True)
class OCSPPeer:
    verify: bool = False
    allowed_clockskew: float = 30.0
    ca_timeout: float = 2.0
    cache_ttl_when_next_update_unset: float = 3600.0
    warn_only: bool = False
    unknown_is_good: bool = False
    allow_when_ca_unreachable: bool = False


def ocspOf(root: ParsedBlock, findings: Diagnostics) -> OCSP:
    isWanted = root.take("ocsp", bool)
    if isWanted is not None:
        return OCSP("auto" if isWanted else "never")
    block = root.blockOrEmpty("ocsp")
    mode = block.text("mode", "auto").lower()
    if mode not in MODES:
        findings.errorAt(block, "mode", f'unsupported ocsp mode "{mode}"')
    return OCSP(mode, block.texts("urls") or block.texts("url"))


def ocspCacheOf(root: ParsedBlock, findings: Diagnostics) -> OCSPCache:
    isWanted = root.take("ocsp_cache", bool)
    if isWanted is not None:
        return OCSPCache("local" if isWanted else "none")
    block = root.block("ocsp_cache")
    if block is None:
        return OCSPCache()
    kind = block.text("type", "local").lower()
    if kind not in CACHES:
        message = f"error parsing OCSP peer cache config, unknown type [{kind}]"
        findings.errorAt(block, "type", message)
    given = block.fieldsOf(OCSPCache)
    interval = max(block.seconds("save_interval", OCSPCache().save_interval), 1.0)
    return OCSPCache(**{**given, "type": kind, "save_interval": interval})


def ocspPeerOf(block: ParsedBlock) -> OCSPPeer | None:
    """
    @param block: a C{tls} block.
    """
    isWanted = block.take("ocsp_peer", bool)
    if isWanted is not None:
        return OCSPPeer(isWanted)
    inner = block.block("ocsp_peer")
    if inner is None:
        return None
    given = inner.fieldsOf(OCSPPeer)
    return OCSPPeer(**{name: value for name, value in given.items() if value is True or value >= 0})
