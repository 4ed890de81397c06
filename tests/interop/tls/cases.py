"""
The thirty cases of TLS, and the tests of each.
"""

from __future__ import annotations

from functools import partial

from tests.listed import Listed as Case
from tests.listed import within

__all__ = ["CASES"]

_HERE = "tests/interop/tls"
_AFTER_INFO = f"{_HERE}/test_beginnings.py::TestAfterInfo"
_FIRST = f"{_HERE}/test_beginnings.py::TestFirst"
_OPTIONAL = f"{_HERE}/test_beginnings.py::TestOptional"
_OTHERS = f"{_HERE}/test_beginnings.py::TestOthers"
_VERSIONS = f"{_HERE}/test_ciphers.py::TestVersions"
_SUITES = f"{_HERE}/test_ciphers.py::TestSuites"
_WAYS = f"{_HERE}/test_ciphers.py::TestWays"
_VERIFY = f"{_HERE}/test_certificates.py::TestVerify"
_MAPPED = f"{_HERE}/test_certificates.py::TestMapped"
_PINNED = f"{_HERE}/test_certificates.py::TestPinned"
_DIAL = f"{_HERE}/test_dialling.py::test_outcome"
_ROUTES = f"{_HERE}/test_routes.py::test_routes"
_LEAFNODES = f"{_HERE}/test_leafnodes.py"
_MONITORING = f"{_HERE}/test_monitoring.py"
_RELOAD = f"{_HERE}/test_reload.py"
_PRESSURE = f"{_HERE}/test_pressure.py"
_MEMORY = "tests/connections/test_tlscontext.py"

#: Clients, routes, leafnodes' hubs and other clusters.
_ALL_WHO_DIAL = (_DIAL, _ROUTES, f"{_LEAFNODES}::test_impostors")
#: Routes and gateways say nothing before the handshake; leafnodes go no further without it.
_LOWERED = (
    "tests/links/test_protocol.py::TestHandshake::test_nothingBefore",
    "tests/leafnodes/test_protocol.py::TestDialling::test_notAtAll",
    f"{_LEAFNODES}::test_downgrade",
)

#: A case whose tests compare with nats-server.
_Beside = partial(Case, beside=True)

CASES: dict[int, Case] = {
    1: _Beside(
        "plaintext CONNECT where TLS is required; bytes injected before the handshake",
        (
            *within(_AFTER_INFO, "test_clearTextAfterwards", "test_injected"),
            "tests/clients/test_tls.py::TestAfterInfo::test_sameTurn",
        ),
    ),
    2: _Beside(
        "a silent client, and one that begins and goes no further",
        within(_AFTER_INFO, "test_silentClient", "test_slow"),
    ),
    3: _Beside(
        "TLS 1.0 and 1.1", (f"{_VERSIONS}::test_oldVersions", f"{_MONITORING}::test_versions")
    ),
    4: _Beside(
        "TLS 1.2 and 1.3, and the minimum version",
        within(_VERSIONS, "test_supportedVersions", "test_minimum"),
    ),
    5: _Beside(
        "static RSA, triple DES and whatever else is weak",
        within(_SUITES, "test_weak", "test_configured"),
    ),
    6: Case(
        "the same suites from the file, the command line and an ssl: endpoint (CVE-2021-32026)",
        within(_WAYS, "test_same", "test_sameWithSettings"),
    ),
    7: _Beside(
        "handshake_first: INFO is never seen in the clear",
        within(_FIRST, "test_silence", "test_clearTextClient"),
    ),
    8: _Beside("handshake_first: auto and a duration", within(_FIRST, "test_waits", "test_quick")),
    9: _Beside(
        "allow_non_tls: the first byte decides, once",
        within(_OPTIONAL, "test_plain", "test_pieces", "test_notLater"),
    ),
    10: Case("downgrade: an end that wants TLS goes no further", (_DIAL, *_LOWERED)),
    11: _Beside("a certificate for another name or address", _ALL_WHO_DIAL),
    12: _Beside(
        "a name in the common name only, and names that make no sense",
        (*_ALL_WHO_DIAL, "tests/connections/test_peernames.py::TestDialling::test_names"),
    ),
    13: Case("wildcards", (_DIAL,)),
    14: _Beside("expired, and not yet valid", _ALL_WHO_DIAL),
    15: _Beside("signed by itself, or by an authority that is not ours", _ALL_WHO_DIAL),
    16: _Beside("a certificate for clients shown by a server", _ALL_WHO_DIAL),
    17: _Beside("an authority in between that is not shown", _ALL_WHO_DIAL),
    18: _Beside("MD5, SHA-1, 1024 bits", _ALL_WHO_DIAL),
    19: _Beside(
        "verify: no certificate, one of another authority, a bad one",
        within(_VERIFY, "test_shown", "test_bad"),
    ),
    20: _Beside(
        "no resumption from one listener to another (CVE-2025-68121)",
        (f"{_VERIFY}::test_noResumption", f"{_MEMORY}::TestClients::test_noResumption"),
    ),
    21: _Beside(
        "verify_and_map: kinds of names in their order; distinguished names (CVE-2026-33248)",
        within(_MAPPED, "test_same"),
    ),
    22: _Beside(
        "a mapped user does not come by name and empty password",
        (
            f"{_MAPPED}::test_byName",
            "tests/clients/test_sslendpoints.py::TestTerms::test_demands",
        ),
    ),
    23: _Beside(
        "pinned_certs, and pins that change cut those who are there",
        (f"{_PINNED}::test_keys", f"{_RELOAD}::TestPins::test_dropped"),
    ),
    24: Case(
        "a failure while a certificate is chosen ends the handshake (CVE-2026-27448)",
        within(f"{_MEMORY}::TestNames", "test_failing", "test_library"),
    ),
    25: Case(
        "no renegotiation", within(f"{_MEMORY}::TestRenegotiation", "test_clientsCannotRenegotiate")
    ),
    26: _Beside(
        "handshakes that break off leave nothing behind",
        within(_PRESSURE, "test_brokenOff", "test_stopsInTime"),
    ),
    27: _Beside("a slow reader", within(_PRESSURE, "test_slow")),
    28: _Beside(
        "new certificates at HUP, nobody is cut",
        (
            *within(_RELOAD, "test_certificate", "test_broken", "test_endpoint"),
            f"{_MONITORING}::test_reload",
        ),
    ),
    29: Case(
        "a key that others can read is reported", within(f"{_MEMORY}::TestFiles", "test_readers")
    ),
    30: _Beside("ALPN, and HTTP on the port", within(_OTHERS, "test_alpn", "test_https")),
}
