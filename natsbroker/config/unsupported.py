"""
What the broker knows by name and does not do yet: the one place that says so.

This module promises, for the path of a key, why it is refused, or nothing.  When a
feature is built its row is deleted here, and nowhere else.  It must never know how keys
are read.

In a path, C{*} stands for a name that the operator chose and C{[]} for an item of an
array.  A path covers everything below it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOT_YET", "Unsupported", "missing"]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """
    A feature that is not built.

    @ivar feature: its name.
    @ivar off: values of the key that ask for nothing, and so are fine.
    """

    feature: str
    off: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"not supported yet ({self.feature})"


_OFF = (False,)
_PROXIES = Unsupported("trusted proxies", _OFF)
_PROFILING = Unsupported("profiling", (0,))
_WRITE_TIMEOUT = Unsupported("write timeout policies", ("default",))
_SYSLOG = Unsupported("logging to syslog", (False, ""))
_OUTSIDE = "keys and certificates for an external NATS server"
_ENCRYPTION = Unsupported("encryption at rest", _OFF)
_CERTIFICATE_STORE = Unsupported("certificate stores")


def _linkTLS(path: str, what: str) -> dict[str, Unsupported]:
    """
    What TLS between servers does not do.

    @param what: the links.
    """
    return {
        f"{path}.ca_certs_match": _CERTIFICATE_STORE,
        f"{path}.cert_match": _CERTIFICATE_STORE,
        f"{path}.cert_match_by": _CERTIFICATE_STORE,
        f"{path}.cert_match_skip_invalid": _CERTIFICATE_STORE,
        f"{path}.cert_store": _CERTIFICATE_STORE,
        f"{path}.ocsp_peer": Unsupported("OCSP", _OFF),
        f"{path}.verify_and_map": Unsupported(f"users of {what} by certificate", _OFF),
    }


NOT_YET: dict[str, Unsupported] = {
    "accounts.*.msg_trace": Unsupported("message tracing"),
    "accounts.*.users[].proxy_required": _PROXIES,
    "authorization.proxy_required": _PROXIES,
    "authorization.users[].proxy_required": _PROXIES,
    "cluster.authorization.proxy_required": _PROXIES,
    **_linkTLS("cluster.tls", "routes"),
    "cluster.write_timeout": _WRITE_TIMEOUT,
    "feature_flags": Unsupported("feature flags"),
    "gateway.authorization.proxy_required": _PROXIES,
    **_linkTLS("gateway.gateways[].tls", "gateways"),
    **_linkTLS("gateway.tls", "gateways"),
    "gateway.write_timeout": _WRITE_TIMEOUT,
    "jetstream": Unsupported("JetStream", _OFF),
    "leafnodes.authorization.proxy_required": _PROXIES,
    "leafnodes.authorization.users[].proxy_required": _PROXIES,
    "leafnodes.remotes[].jetstream_cluster_migrate": Unsupported("JetStream", _OFF),
    "leafnodes.remotes[].proxy": Unsupported("leafnodes through a proxy"),
    "leafnodes.remotes[].tls.ca_certs_match": _CERTIFICATE_STORE,
    "leafnodes.remotes[].tls.cert_match": _CERTIFICATE_STORE,
    "leafnodes.remotes[].tls.cert_match_by": _CERTIFICATE_STORE,
    "leafnodes.remotes[].tls.cert_match_skip_invalid": _CERTIFICATE_STORE,
    "leafnodes.remotes[].tls.cert_store": _CERTIFICATE_STORE,
    "leafnodes.remotes[].tls.ocsp_peer": Unsupported("OCSP", _OFF),
    "leafnodes.remotes[].ws_compression": Unsupported("leafnodes over WebSocket", _OFF),
    "leafnodes.remotes[].ws_no_masking": Unsupported("leafnodes over WebSocket", _OFF),
    "leafnodes.tls.ca_certs_match": _CERTIFICATE_STORE,
    "leafnodes.tls.cert_match": _CERTIFICATE_STORE,
    "leafnodes.tls.cert_match_by": _CERTIFICATE_STORE,
    "leafnodes.tls.cert_match_skip_invalid": _CERTIFICATE_STORE,
    "leafnodes.tls.cert_store": _CERTIFICATE_STORE,
    "leafnodes.tls.ocsp_peer": Unsupported("OCSP", _OFF),
    "leafnodes.write_timeout": _WRITE_TIMEOUT,
    "mqtt": Unsupported("MQTT"),
    "ocsp": Unsupported("OCSP stapling", _OFF),
    "ocsp_cache": Unsupported("OCSP", _OFF),
    "prof_block_rate": _PROFILING,
    "prof_port": _PROFILING,
    "proxies": _PROXIES,
    "proxy_protocol": Unsupported("the PROXY protocol", _OFF),
    "remote_syslog": _SYSLOG,
    "resolver_tls.ca_certs_match": _CERTIFICATE_STORE,
    "resolver_tls.cert_match": _CERTIFICATE_STORE,
    "resolver_tls.cert_match_by": _CERTIFICATE_STORE,
    "resolver_tls.cert_match_skip_invalid": _CERTIFICATE_STORE,
    "resolver_tls.cert_store": _CERTIFICATE_STORE,
    "resolver_tls.ocsp_peer": Unsupported("OCSP", _OFF),
    "streaming.cluster": Unsupported("clusters of NATS Streaming servers"),
    "streaming.credentials": Unsupported(_OUTSIDE, ("",)),
    "streaming.encrypt": _ENCRYPTION,
    "streaming.encryption_cipher": Unsupported("encryption at rest", ("",)),
    "streaming.encryption_key": Unsupported("encryption at rest", ("",)),
    "streaming.ft_group": Unsupported("fault tolerance groups", ("",)),
    "streaming.nkey_seed_file": Unsupported(_OUTSIDE, ("",)),
    "streaming.partitioning": Unsupported("partitioning", _OFF),
    "streaming.tls": Unsupported(_OUTSIDE, ("",)),
    "syslog": _SYSLOG,
    "tls.ca_certs_match": _CERTIFICATE_STORE,
    "tls.cert_match": _CERTIFICATE_STORE,
    "tls.cert_match_by": _CERTIFICATE_STORE,
    "tls.cert_match_skip_invalid": _CERTIFICATE_STORE,
    "tls.cert_store": _CERTIFICATE_STORE,
    "tls.ocsp_peer": Unsupported("OCSP", _OFF),
    "websocket": Unsupported("WebSocket"),
    "write_timeout": _WRITE_TIMEOUT,
}
"""Path of a key -> the feature that it asks for."""


def missing(path: str, value: object) -> Unsupported | None:
    """
    Say what a key asks for that is not built.

    @param path: with C{*} for names and C{[]} for items.
    @param value: what it is set to.
    @return: L{None} when the broker does what is asked.
    """
    found = NOT_YET.get(path)
    if found is None or any(type(value) is type(off) and value == off for off in found.off):
        return None
    return found
