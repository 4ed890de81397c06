"""
The thirty cases of TLS, and the tests that try each.

Promises: every case names a test that there is, or says what is still missing for it.
"""

from __future__ import annotations

from tests.listed import Listed as Case

__all__ = ["CASES"]

_HERE = "tests/interop/tls"
_BEGIN = f"{_HERE}/test_beginnings.py"
_CIPHERS = f"{_HERE}/test_ciphers.py"
_CERTIFICATES = f"{_HERE}/test_certificates.py"
_DIAL = f"{_HERE}/test_dialling.py::test_outcome"
#: Routes, leafnodes' hubs and other clusters.
_ROUTES = f"{_HERE}/test_routes.py::test_routes"
_LEAFS = f"{_HERE}/test_leafnodes.py::test_impostors"
_LOWERED = f"{_HERE}/test_leafnodes.py::test_downgrade"
#: Routes and gateways say nothing before the handshake; leafnodes go no further without it.
_FIRST = "tests/net/test_linkprotocol.py::TestHandshake::test_nothingBefore"
_NOT_AT_ALL = "tests/net/test_leafprotocol.py::TestDialling::test_notAtAll"
_MONITORING = f"{_HERE}/test_monitoring.py"
_RELOAD = f"{_HERE}/test_reload.py"
_PRESSURE = f"{_HERE}/test_pressure.py"
_MEMORY = "tests/hosting/test_tls.py"


CASES: dict[int, Case] = {
    1: Case(
        "plaintext CONNECT where TLS is required; bytes injected before the handshake",
        (
            f"{_BEGIN}::TestAfterInfo::test_plain",
            f"{_BEGIN}::TestAfterInfo::test_injected",
            "tests/net/test_tls.py::TestAfterInfo::test_sameTurn",
        ),
        beside=True,
    ),
    2: Case(
        "a silent client, and one that begins and goes no further",
        (f"{_BEGIN}::TestAfterInfo::test_silent", f"{_BEGIN}::TestAfterInfo::test_slow"),
        beside=True,
    ),
    3: Case(
        "TLS 1.0 and 1.1",
        (f"{_CIPHERS}::TestVersions::test_old", f"{_MONITORING}::test_versions"),
        beside=True,
    ),
    4: Case(
        "TLS 1.2 and 1.3, and the minimum version",
        (f"{_CIPHERS}::TestVersions::test_new", f"{_CIPHERS}::TestVersions::test_minimum"),
        beside=True,
    ),
    5: Case(
        "static RSA, triple DES and whatever else is weak",
        (f"{_CIPHERS}::TestSuites::test_weak", f"{_CIPHERS}::TestSuites::test_configured"),
        beside=True,
    ),
    6: Case(
        "the same suites from the file, the command line and an ssl: endpoint (CVE-2021-32026)",
        (f"{_CIPHERS}::TestWays::test_same", f"{_CIPHERS}::TestWays::test_sameWithSettings"),
    ),
    7: Case(
        "handshake_first: INFO is never seen in the clear",
        (f"{_BEGIN}::TestFirst::test_silence", f"{_BEGIN}::TestFirst::test_plain"),
        beside=True,
    ),
    8: Case(
        "handshake_first: auto and a duration",
        (f"{_BEGIN}::TestFirst::test_waits", f"{_BEGIN}::TestFirst::test_quick"),
        beside=True,
    ),
    9: Case(
        "allow_non_tls: the first byte decides, once",
        (
            f"{_BEGIN}::TestOptional::test_plain",
            f"{_BEGIN}::TestOptional::test_pieces",
            f"{_BEGIN}::TestOptional::test_notLater",
        ),
        beside=True,
    ),
    10: Case(
        "downgrade: whoever wanted TLS goes no further",
        (_DIAL, _FIRST, _NOT_AT_ALL, _LOWERED),
    ),
    11: Case(
        "a certificate for another name or address",
        (_DIAL, _ROUTES, _LEAFS),
        beside=True,
    ),
    12: Case(
        "a name in the common name only, and names that make no sense",
        (_DIAL, _ROUTES, _LEAFS, "tests/test_peernames.py::TestDialling::test_names"),
        beside=True,
    ),
    13: Case("wildcards", (_DIAL,)),
    14: Case("expired, and not yet valid", (_DIAL, _ROUTES, _LEAFS), beside=True),
    15: Case(
        "signed by itself, or by an authority that is not ours",
        (_DIAL, _ROUTES, _LEAFS),
        beside=True,
    ),
    16: Case(
        "a certificate for clients shown by a server",
        (_DIAL, _ROUTES, _LEAFS),
        beside=True,
    ),
    17: Case(
        "an authority in between that is not shown",
        (_DIAL, _ROUTES, _LEAFS),
        beside=True,
    ),
    18: Case("MD5, SHA-1, 1024 bits", (_DIAL, _ROUTES, _LEAFS), beside=True),
    19: Case(
        "verify: no certificate, one of another authority, a bad one",
        (f"{_CERTIFICATES}::TestVerify::test_shown", f"{_CERTIFICATES}::TestVerify::test_bad"),
        beside=True,
    ),
    20: Case(
        "no resumption from one listener to another (CVE-2025-68121)",
        (
            f"{_CERTIFICATES}::TestVerify::test_noResumption",
            f"{_MEMORY}::TestClients::test_noResumption",
        ),
        beside=True,
    ),
    21: Case(
        "verify_and_map: kinds of names in their order; distinguished names (CVE-2026-33248)",
        (f"{_CERTIFICATES}::TestMapped::test_same",),
        beside=True,
    ),
    22: Case(
        "a mapped user does not come by name and empty password",
        (
            f"{_CERTIFICATES}::TestMapped::test_byName",
            "tests/hosting/test_sslendpoints.py::TestTerms::test_demands",
        ),
        beside=True,
    ),
    23: Case(
        "pinned_certs, and pins that change cut those who are there",
        (f"{_CERTIFICATES}::TestPinned::test_keys", f"{_RELOAD}::TestPins::test_dropped"),
        beside=True,
    ),
    24: Case(
        "a failure while a certificate is chosen ends the handshake (CVE-2026-27448)",
        (f"{_MEMORY}::TestNames::test_failing", f"{_MEMORY}::TestNames::test_library"),
    ),
    25: Case("no renegotiation", (f"{_MEMORY}::TestRenegotiation::test_refused",)),
    26: Case(
        "handshakes that break off leave nothing behind",
        (f"{_PRESSURE}::test_brokenOff", f"{_PRESSURE}::test_stopsInTime"),
        beside=True,
    ),
    27: Case("a slow reader", (f"{_PRESSURE}::test_slow",), beside=True),
    28: Case(
        "new certificates at HUP, nobody is cut",
        (
            f"{_RELOAD}::test_certificate",
            f"{_RELOAD}::test_broken",
            f"{_RELOAD}::test_endpoint",
            f"{_MONITORING}::test_reload",
        ),
        beside=True,
    ),
    29: Case("a key that others can read is told of", (f"{_MEMORY}::TestFiles::test_readers",)),
    30: Case(
        "ALPN, and HTTP on the port",
        (f"{_BEGIN}::TestOthers::test_alpn", f"{_BEGIN}::TestOthers::test_https"),
        beside=True,
    ),
}
