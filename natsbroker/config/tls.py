"""
A C{tls} block as frozen values.

This module promises the defaults of nats-server 2.15, in the spelling of the file.  It must
never know how a handshake is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["TLS"]


@dataclass(frozen=True, slots=True)
class TLS:
    """
    A C{tls} block.  The files are named, not read.

    @ivar certs: every (certificate, key) pair of paths; the first is C{cert_file} and
        C{key_file} where those are used.
    @ivar verify: clients must present a certificate that C{ca_file} vouches for.
    @ivar verify_and_map: and that certificate names the user.
    @ivar insecure: do not check the peer's certificate where we are the TLS client.
    @ivar timeout: seconds for the handshake.
    @ivar min_version: C{"1.2"} or C{"1.3"}.
    @ivar cipher_suites: names as in C{--help_tls}, best first; empty for the defaults.
    @ivar curve_preferences: names as in C{--help_tls}; empty for the defaults.
    @ivar pinned_certs: lower-case hexadecimal SHA-256 of the public key of each client
        certificate that is accepted; empty for any.
    @ivar handshake_first: handshake before INFO is sent.
    @ivar handshake_first_fallback: seconds to wait for a handshake before INFO is sent
        in the clear after all; 0 for no such fallback.
    @ivar connection_rate_limit: handshakes a second; 0 for any number.
    @ivar place: what an error calls the block: its dotted path, behind its place in the file if it
        stands there; not compared.
    """

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    certs: tuple[tuple[str, str], ...] = ()
    verify: bool = False
    verify_and_map: bool = False
    insecure: bool = False
    timeout: float = 2.0
    min_version: str = "1.2"
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[str, ...] = ()
    pinned_certs: frozenset[str] = frozenset()
    handshake_first: bool = False
    handshake_first_fallback: float = 0.0
    connection_rate_limit: int = 0
    place: str = field(default="tls", compare=False, repr=False)
