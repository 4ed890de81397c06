"""
From a C{tls} block to an OpenSSL context.

Contexts have TLS 1.2 or newer, the server's choice of cipher, no compression and no renegotiation.
There is no resumption, so that a client cannot avoid the demands of one listener by way of another.
An error names its file, and comes before anything listens.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cryptography import x509
from OpenSSL import SSL
from OpenSSL.SSL import Context
from twisted.logger import Logger

from natsbroker.config.model import TLSSettings
from natsbroker.connections.tls import Begin, ConnectionCreator, TLSTerms

_log = Logger(namespace="natsbroker")

_OPTIONS = (
    SSL.OP_NO_COMPRESSION
    | SSL.OP_CIPHER_SERVER_PREFERENCE
    | SSL.OP_NO_RENEGOTIATION
    | SSL.OP_NO_TICKET
    | SSL.OP_SINGLE_ECDH_USE
)

_VERSIONS = {"1.2": SSL.TLS1_2_VERSION, "1.3": SSL.TLS1_3_VERSION}

#: The default ciphers of TLS 1.2: those with forward secrecy and authenticated encryption.
_DEFAULT_CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
)

#: The default ciphers of TLS 1.3, as nats-server prefers them. OpenSSL would take AES-256 first,
#: whose handshake with SHA-384 costs more.
_DEFAULT_NEWER = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)

#: Go's names of curves as OpenSSL has them, where they differ.
_CURVES = {"CurveP256": "P-256", "CurveP384": "P-384", "CurveP521": "P-521"}


class TLSSettingsError(ValueError):
    """A C{tls} block that no context can be made of."""


@contextmanager
def _placed(tls: TLSSettings) -> Iterator[None]:
    try:
        yield
    except TLSSettingsError as error:
        raise TLSSettingsError(f"{tls.place}: {error}") from error


def termsFrom(tls: TLSSettings, optional: bool, chain: str = "") -> TLSTerms:
    """The terms, where clients may also stay in the clear; L{TLSSettingsError} for wrong files."""
    creator = ConnectionCreator(contextFrom(tls, chain))
    return TLSTerms(creator, _beginOf(tls, optional), tls, optional)


def pagesCreatorFrom(tls: TLSSettings) -> ConnectionCreator:
    """
    The terms for the monitoring pages: those of clients, but without a demand for a certificate.
    """
    return ConnectionCreator(contextFrom(replace(tls, verify=False)))


def _beginOf(tls: TLSSettings, optional: bool) -> Begin:
    if tls.handshake_first:
        return Begin.FIRST_OR_INFO if tls.handshake_first_fallback else Begin.FIRST
    return Begin.BY_CLIENT if optional else Begin.AFTER_INFO


def contextFrom(tls: TLSSettings, chain: str = "") -> Context:
    """
    @param chain: a file with the certificates above our first; empty if its own file has them.
    @raise TLSSettingsError: if the files or names are not right.
    """
    with _placed(tls):
        if not tls.certs:
            raise TLSSettingsError("there is no certificate")
        contexts = [_contextWith(tls, certificate, key) for certificate, key in tls.certs]
        default = contexts[0]
        if tls.ocsp is not None:
            _attempt("ocsp", tls.ocsp.attend, default, tls)
        for certificate in _certificatesIn(chain) if chain else ():
            default.add_extra_chain_cert(certificate)
        if len(contexts) > 1:
            names = [_namesIn(certificate) for certificate, _ in tls.certs]
            named = list(zip(names, contexts, strict=True))
            default.set_tlsext_servername_callback(lambda connection: _choose(connection, named))
        return default


def contextWithout(tls: TLSSettings) -> Context:
    """A context without a certificate, with which every handshake fails."""
    with _placed(tls):
        context = _bareContext(tls, SSL.TLS_SERVER_METHOD)
        _setVerification(context, tls)
        return context


def bothContextsFrom(tls: TLSSettings) -> tuple[Context, Context]:
    """Contexts for answering and dialling, which check certificates unless C{insecure} is set."""
    return contextFrom(replace(tls, verify=True)), diallingContextFrom(tls)


def diallingContextFrom(tls: TLSSettings) -> Context:
    """A context for dialling, which checks certificates unless C{insecure} is set."""
    checking = replace(tls, verify=not tls.insecure)
    with _placed(tls):
        if tls.certs:
            context = _contextWith(checking, *tls.certs[0], SSL.TLS_CLIENT_METHOD)
        else:
            context = _bareContext(checking, SSL.TLS_CLIENT_METHOD)
            _setVerification(context, checking)
        if tls.ocsp is not None:
            tls.ocsp.attendDialling(context)
        return context


def _contextWith(
    tls: TLSSettings, certificate: str, key: str, method: int = SSL.TLS_SERVER_METHOD
) -> Context:
    context = _bareContext(tls, method)
    _attempt(f"cert_file {certificate}", context.use_certificate_chain_file, certificate)
    _attempt(f"key_file {key}", context.use_privatekey_file, key)
    _attempt(f"key_file {key} does not belong to {certificate}", context.check_privatekey)
    _warnOfReaders(key)
    _setVerification(context, tls)
    return context


def _bareContext(tls: TLSSettings, method: int) -> Context:
    context = Context(method)
    context.set_min_proto_version(_VERSIONS[tls.min_version])
    context.set_options(_OPTIONS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    _setCiphers(context, tls.cipher_suites)
    _setCurves(context, tls.curve_preferences)
    return context


def _warnOfReaders(key: str) -> None:
    """Warn of a key that others can read. As in nats-server, it is used nevertheless."""
    mode = stat.S_IMODE(os.stat(key).st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        _log.warn(
            "tls: key_file {path} can be used by others than its owner (mode {mode}); "
            "chmod 600 makes it private",
            path=key,
            mode=f"{mode:04o}",
        )


def _setVerification(context: Context, tls: TLSSettings) -> None:
    if not tls.verify:
        # The settings use no certificates of clients, so none is requested.
        context.set_verify(SSL.VERIFY_NONE)
        return
    if tls.ca_file:
        _attempt(f"ca_file {tls.ca_file}", context.load_verify_locations, tls.ca_file)
        _attempt(f"ca_file {tls.ca_file}", context.load_client_ca, tls.ca_file.encode())
    else:
        context.set_default_verify_paths()
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)


def _setCiphers(context: Context, suites: Sequence[str]) -> None:
    newer = [suite for suite in suites if _isTLS13(suite)]
    older = [_openSSLName(suite) for suite in suites if not _isTLS13(suite)]
    preferred = ":".join(newer or _DEFAULT_NEWER).encode()
    _attempt("cipher_suites", context.set_tls13_ciphersuites, preferred)
    if newer and not older:
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
    ciphers = ":".join(older) if older else _DEFAULT_CIPHERS
    _attempt("cipher_suites", context.set_cipher_list, ciphers.encode())


def _isTLS13(suite: str) -> bool:
    return "_WITH_" not in suite


def _openSSLName(suite: str) -> str:
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_", "-").replace("-CBC", "")
    cipher = cipher.replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
    cipher = cipher.replace("3DES-EDE-SHA", "DES-CBC3-SHA").replace("RC4-128", "RC4")
    prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return prefix + cipher


def _setCurves(context: Context, curves: Sequence[str]) -> None:
    if not curves:
        return
    library: Any = SSL._lib  # type: ignore[attr-defined]
    raw: Any = context
    names = ":".join(_CURVES.get(curve, curve) for curve in curves).encode()
    if library.SSL_CTX_set1_curves_list(raw._context, names) != 1:
        raise TLSSettingsError(
            f"curve_preferences: OpenSSL does not know all of {', '.join(curves)}"
        )


def _attempt(what: str, call: Any, *arguments: Any) -> None:
    try:
        call(*arguments)
    except (SSL.Error, OSError, ValueError) as error:
        reasons = error.args[0] if error.args and isinstance(error.args[0], list) else [(error,)]
        reason = "; ".join(str(part[-1]) for part in reasons) or "unreadable"
        raise TLSSettingsError(f"{what}: {reason}") from error


def _namesIn(path: str) -> list[str]:
    certificate = _certificatesIn(path)[0]
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [name.lower() for name in extension.value.get_values_for_type(x509.DNSName)]


def _certificatesIn(path: str) -> list[x509.Certificate]:
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificates(file.read())
    except (OSError, ValueError) as error:
        raise TLSSettingsError(f"certificates {path}: {error}") from error


def _choose(connection: SSL.Connection, named: Sequence[tuple[list[str], Context]]) -> None:
    wanted = (connection.get_servername() or b"").decode("ascii", "replace").lower()
    wildcard = "*." + wanted.partition(".")[2]
    for names, context in named:
        if wanted in names or wildcard in names:
            connection.set_context(context)
            return
