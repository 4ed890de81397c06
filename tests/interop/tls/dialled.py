"""
Cases of dialling with TLS, and the log lines of a connection that works.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.interop.servers import missing
from tests.interop.tls.authority import Issued, authority, issue, lookalike
from tests.interop.tls.impostors import INFO

CONNECTED = "connected"


#: Twisted lets these pass, and the client does not.
NAMELESS = "TLSError: the "


HERE: dict[str, Any] = {"names": ["localhost"]}


@dataclass(frozen=True)
class Case:
    """
    A server, and the host that the dialling end expects.

    @ivar make: makes its certificates from those of the two authorities.
    @ivar host: the expected host.
    @ivar outcome: the beginning of the result.
    """

    make: Callable[[Issued, Issued], list[Issued]]
    host: str = "localhost"
    outcome: str = "ConnectionEnded"
    more: dict[str, Any] = field(default_factory=dict)


def _below(ours: Issued, shown: bool) -> list[Issued]:
    between = authority("CN=between", ours)
    return [issue(between, **HERE), *([between] if shown else [])]


def _signedWith(digest: str) -> Callable[[Issued, Issued], list[Issued]]:
    """
    A certificate that is good except for the digest of its signature, made with the C{openssl}
    command, because libraries refuse to make it.
    """

    def make(ours: Issued, theirs: Issued) -> list[Issued]:
        if shutil.which("openssl") is None:
            missing("no openssl command")
        good = issue(None, bits=2048, **HERE)
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            ours.write(place, "ca")
            good.write(place, "good")
            (place / "x.cnf").write_text("[x]\nsubjectAltName=DNS:localhost\n")
            run = ["openssl", "x509", "-in", "good.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem"]
            run += [f"-{digest}", "-days", "5", "-set_serial", "7", "-clrext"]
            run += ["-extfile", "x.cnf", "-extensions", "x"]
            done = subprocess.run(run, cwd=place, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return [Issued(x509.load_pem_x509_certificate(done.stdout), good.key)]

    return make


CASES: dict[str, Case] = {
    # The name in the certificate.
    "right name": Case(lambda ours, _: [issue(ours, **HERE)], outcome=CONNECTED),
    "right address": Case(
        lambda ours, _: [issue(ours, addresses=["127.0.0.1"])], "127.0.0.1", CONNECTED
    ),
    "other name": Case(lambda ours, _: [issue(ours, names=["example.com"])]),
    "name in the common name only": Case(
        lambda ours, _: [issue(ours, "CN=localhost")], outcome=NAMELESS
    ),
    "other address": Case(lambda ours, _: [issue(ours, addresses=["127.0.0.2"])], "127.0.0.1"),
    "address as a name": Case(
        lambda ours, _: [issue(ours, names=["127.0.0.1"])], "127.0.0.1", NAMELESS
    ),
    "name for an address": Case(lambda ours, _: [issue(ours, **HERE)], "127.0.0.1"),
    "longer name": Case(lambda ours, _: [issue(ours, names=["localhost.example.com"])]),
    "wildcard": Case(
        lambda ours, _: [issue(ours, names=["*.b.example"])], "a.b.example", CONNECTED
    ),
    "wildcard for two": Case(lambda ours, _: [issue(ours, names=["*.b.example"])], "a.x.b.example"),
    "wildcard for none": Case(lambda ours, _: [issue(ours, names=["*.b.example"])], "b.example"),
    "wildcard in a part": Case(
        lambda ours, _: [issue(ours, names=["a*.b.example"])], "ax.b.example"
    ),
    # Whether it is valid.
    "expired": Case(lambda ours, _: [issue(ours, days=(-9, -1), **HERE)]),
    "not yet valid": Case(lambda ours, _: [issue(ours, days=(1, 9), **HERE)]),
    "for clients": Case(
        lambda ours, _: [issue(ours, usages=[ExtendedKeyUsageOID.CLIENT_AUTH], **HERE)]
    ),
    # Who signed it.
    "self-signed": Case(lambda ours, _: [issue(None, **HERE)]),
    "other authority": Case(lambda _, theirs: [issue(theirs, **HERE)]),
    "authority of the same name": Case(lambda ours, _: [issue(lookalike(ours), **HERE)]),
    "below an authority": Case(lambda ours, _: _below(ours, True), outcome=CONNECTED),
    "below one that is not shown": Case(lambda ours, _: _below(ours, False)),
    "signed by a server": Case(
        lambda ours, _: [issue(server := issue(ours, **HERE), **HERE), server]
    ),
    # How.
    "signed with MD5": Case(_signedWith("md5")),
    "signed with SHA-1": Case(_signedWith("sha1")),
    "signed with SHA-256": Case(_signedWith("sha256"), outcome=CONNECTED),
    "short key": Case(lambda ours, _: [issue(ours, bits=1024, **HERE)]),
    "old version": Case(
        lambda ours, _: [issue(ours, bits=2048, **HERE)],
        more={"newest": ssl.TLSVersion.TLSv1_1},
    ),
    # Its bytes before TLS.
    "downgrade": Case(
        lambda ours, _: [],
        outcome="TLSError: the server does not offer TLS",
        more={"greeting": INFO.replace(b"true", b"false")},
    ),
    "no word of TLS": Case(
        lambda ours, _: [],
        outcome="TLSError: the server does not offer TLS",
        more={"greeting": b"INFO {} \r\n"},
    ),
    "words behind INFO": Case(
        lambda ours, _: [issue(ours, **HERE)],
        outcome="TLSError: the server sent data before TLS could begin",
        more={"greeting": INFO + b"-ERR 'x"},
    ),
}
