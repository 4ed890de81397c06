"""
Attempts to bypass authorization, and published flaws of nats-server in authorization, with the
tests of each.
"""

from __future__ import annotations

from tests.listed import Listed

__all__ = ["ADVISORIES", "ATTEMPTS"]

_MATRIX = "tests/authorization/test_matrix.py::test_matrix"
_TRY = "tests/authorization/test_attempts.py"
_STREAMS = "tests/authorization/test_streams.py"
_WEBSOCKET = "tests/websocket/test_protocol.py"
_SETTINGS = "tests/auth/test_defaultauthorizer.py"
_OPERATOR = "tests/auth/operator/test_authorizer.py"
_TOKENS = "tests/auth/operator/test_tokens.py"
_TEMPLATES = "tests/auth/operator/test_granting.py"
_KEYS = "tests/auth/test_nkeys.py"
_ADMISSION = "tests/clients/test_admission.py"
_IMPORTS = "tests/accounts/test_imports.py"
_ROUTE = "tests/routes/test_route.py"
_LEAFS = "tests/authorization/test_leafnodes.py"
_HUB = "tests/leafnodes/test_accepting.py"
_GATEWAY = "tests/gateways/test_gateway.py"
_CROSSING = "tests/authorization/test_gateways.py"

ATTEMPTS: dict[int, Listed] = {
    1: Listed(
        "any verb before CONNECT; PING first where nobody in particular may come",
        (
            _MATRIX,
            f"{_TRY}::TestLogin::test_beforeConnect",
            f"{_SETTINGS}::TestNobody::test_connectionType",
            f"{_ADMISSION}::TestLogin::test_withoutConnectDenied",
            f"{_ROUTE}::TestAccepting::test_lineBeforeConnect",
            f"{_ROUTE}::TestAccepting::test_interestBeforeInfo",
            f"{_HUB}::TestGreeting::test_lineBeforeConnect",
            f"{_GATEWAY}::TestAccepting::test_lineBeforeConnect",
            f"{_WEBSOCKET}::TestHandshake::test_noSessionBefore",
        ),
    ),
    2: Listed("an account named in CONNECT", (f"{_TRY}::TestLogin::test_account",)),
    3: Listed(
        "a second CONNECT keeps subscriptions of the first account",
        (_MATRIX, f"{_TRY}::TestLogin::test_anotherAccount"),
    ),
    4: Listed(
        "no password, an empty one, a user without one",
        (
            f"{_TRY}::TestLogin::test_withoutPassword",
            f"{_TRY}::TestLogin::test_whoHasNone",
            "tests/interop/auth/test_logins.py::test_verdict",
        ),
        beside=True,
    ),
    5: Listed(
        "settings with only the system account",
        (
            f"{_TRY}::TestAmbiguity::test_onlySystem",
            "tests/auth/test_defaultauthorizer.py::TestOnlySystemUsers::test_guests",
        ),
    ),
    6: Listed(
        "denied inside of a wider subscription, plain and in queues",
        (
            f"{_TRY}::TestOverlaps::test_filtered",
            f"{_TRY}::TestOverlaps::test_overlapIsRefused",
            "tests/subjects/test_permissions_real_server.py::TestBesideNatsServer::test_subscribe",
        ),
        beside=True,
    ),
    7: Listed(
        "denied at delivery: live, of imported streams, of NATS Streaming, of JetStream",
        (
            _MATRIX,
            "tests/streaming/requests/test_subscribe.py::TestPermissions::test_inbox",
            f"{_CROSSING}::TestDelivery::test_denied",
            f"{_STREAMS}::TestPermissions::test_delivery",
        ),
    ),
    8: Listed(
        "publishing to a denied subject by a mapping, a header, a reply",
        (
            f"{_TRY}::TestRoundabout::test_mapping",
            f"{_TRY}::TestRoundabout::test_headers",
            f"{_TRY}::TestRoundabout::test_replies",
            f"{_STREAMS}::TestPermissions::test_publish",
            f"{_STREAMS}::TestPermissions::test_deliveredToTheServer",
        ),
    ),
    9: Listed(
        "lying about who asks",
        (
            f"{_IMPORTS}::TestRequestor::test_forged",
            "tests/wire/test_clientinfo.py::TestStamped::test_forged",
            f"{_LEAFS}::test_forged",
            f"{_STREAMS}::TestAccounts::test_requests",
            f"{_STREAMS}::TestAccounts::test_names",
        ),
    ),
    10: Listed(
        "what belongs to the system, to other accounts, to the cluster",
        (
            f"{_TRY}::TestAccounts::test_listening",
            f"{_TRY}::TestAccounts::test_speaking",
            f"{_TRY}::TestRoundabout::test_reserved",
            f"{_LEAFS}::test_anotherAccount",
            f"{_CROSSING}::TestDelivery::test_anotherAccount",
            f"{_CROSSING}::TestSending::test_reserved",
            f"{_STREAMS}::TestAccounts::test_requests",
            f"{_STREAMS}::TestAccounts::test_administration",
        ),
    ),
    11: Listed(
        "a leafnode that takes more than it was given",
        (
            _MATRIX,
            f"{_HUB}::TestPermissions::test_subscribing",
            f"{_HUB}::TestLettingIn::test_secondInfo",
            f"{_LEAFS}::test_anotherAccount",
            f"{_LEAFS}::test_largest",
            "tests/interop/leafnodes/test_settings.py::test_permissions",
        ),
        beside=True,
    ),
    12: Listed(
        "another server's name, or one's own; the wrong password",
        (
            f"{_ROUTE}::TestAccepting::test_sameName",
            f"{_ROUTE}::TestDialling::test_ourselves",
            f"{_ROUTE}::TestAccepting::test_password",
            f"{_ROUTE}::TestAccepting::test_otherClusterInInfo",
            f"{_GATEWAY}::TestAccepting::test_ourName",
            f"{_GATEWAY}::TestAccepting::test_otherName",
            f"{_GATEWAY}::TestAccepting::test_sameServerName",
            f"{_GATEWAY}::TestAccepting::test_password",
            f"{_GATEWAY}::TestDialling::test_wrongGateway",
        ),
    ),
    13: Listed(
        "JWTs: headers, roles, checksums, scopes, numbers, times, templates, activations",
        (
            f"{_TOKENS}::TestHeader::test_otherHeadersAreRefused",
            f"{_TOKENS}::TestHeader::test_publicKeyAsSecret",
            f"{_TOKENS}::TestHeader::test_nothingElseCounts",
            f"{_TOKENS}::TestClaims::test_issuersOfOtherRoles",
            f"{_TOKENS}::TestText::test_variantsAreRefused",
            f"{_TOKENS}::TestText::test_longToken",
            f"{_OPERATOR}::TestConditions::test_times",
            f"{_OPERATOR}::TestConditions::test_revoked",
            f"{_OPERATOR}::TestChain::test_signingKeyOfAnotherAccount",
            f"{_TEMPLATES}::TestExpansion::test_noWiderThanTheTemplate",
            f"{_TEMPLATES}::TestExpansion::test_unknownFunctions",
            "tests/auth/operator/test_userclaims.py::TestUserClaims::test_everyClaim",
            "tests/auth/operator/test_exchangeclaims.py::TestImports::test_activationsOfOthers",
            "tests/auth/test_fields.py::TestMembers::test_notIntegers",
        ),
    ),
    14: Listed(
        "keys: replayed, other, malleable, of small order, seeds; sealed with zeros",
        (
            f"{_SETTINGS}::TestKeys::test_replay",
            f"{_OPERATOR}::TestSignature::test_replay",
            f"{_KEYS}::TestSignatures::test_malleable",
            f"{_KEYS}::TestSignatures::test_smallOrder",
            f"{_KEYS}::TestKeys::test_seedIsRefused",
            "tests/auth/callout/test_xkeys.py::TestKnownAnswers::test_seal",
            "tests/auth/callout/test_xkeys.py::TestSealing::test_notWithZeros",
        ),
    ),
    15: Listed(
        "finding out who exists",
        (
            "tests/authorization/test_enumeration.py::TestSameWork::test_plain",
            "tests/authorization/test_enumeration.py::TestSameWork::test_hashed",
            "tests/authorization/test_enumeration.py::TestSameAnswer::test_wire",
        ),
    ),
    16: Listed(
        "NATS Streaming: in another's name, of another's durable, with names that are none",
        (
            "tests/streaming/requests/test_publish.py::TestPermissions::test_othersClient",
            "tests/streaming/requests/test_subscribe.py::TestPermissions::test_othersClient",
            "tests/streaming/requests/test_close.py::TestClose::test_othersClient",
            "tests/subjects/test_channels.py::test_notClientIDs",
            "tests/subjects/test_channels.py::test_notChannels",
        ),
    ),
    17: Listed(
        "the end of a login", (_MATRIX, "tests/clients/test_timing.py::TestDeadlines::test_expires")
    ),
    18: Listed(
        "a reload that takes something away",
        (
            _MATRIX,
            "tests/clients/test_planners.py::TestAuthorization::test_user",
            "tests/clients/test_planners.py::TestAuthorization::test_permissionIsGone",
        ),
    ),
    19: Listed(
        "a proxy that lies about the source",
        (
            "tests/clients/test_proxied.py::TestProxied::test_notAsked",
            f"{_WEBSOCKET}::TestProxied::test_notAsked",
            "tests/interop/test_proxied.py::test_trusted",
        ),
        beside=True,
    ),
    20: Listed(
        "rules about sources look at the peer's address",
        ("tests/auth/operator/test_userclaims.py::TestSources::test_isFrom",),
    ),
    21: Listed(
        "no check is an assert statement",
        (
            "tests/authorization/test_optimized.py::test_matrix",
            "tests/test_suppressions.py::test_noAsserts",
        ),
    ),
    22: Listed(
        "bytes that would be a command for others",
        (
            f"{_TRY}::TestInjection::test_othersGetWholeMessages",
            f"{_TRY}::TestAmbiguity::test_subjects",
            "tests/clients/test_fuzz.py::test_short",
            f"{_CROSSING}::test_injection",
        ),
    ),
}

ADVISORIES: dict[str, Listed] = {
    "CVE-2020-26149": Listed(
        "our client says what it is asked to say and nothing else",
        ("tests/client/test_options.py::TestOptions::test_nothingElse",),
    ),
    "CVE-2020-26892": Listed(
        "revoked, by key or as a whole, and expired: not let in, and cut",
        (
            f"{_OPERATOR}::TestConditions::test_revoked",
            f"{_OPERATOR}::TestConditions::test_expires",
            "tests/auth/operator/test_accountclaims.py::TestAccountClaims::test_revocations",
        ),
    ),
    "CVE-2020-26521": Listed(
        "claims that are not there, or of another type",
        ("tests/auth/operator/test_userclaims.py::TestUserClaims::test_everyClaim",),
    ),
    "CVE-2020-28466": Listed(
        "accounts that import from each other in a ring",
        ("tests/accounts/test_importchecks.py::TestServices::test_ring",),
    ),
    "CVE-2021-3127": Listed(
        "an activation for another account or subject",
        ("tests/auth/operator/test_exchangeclaims.py::TestImports::test_activationsOfOthers",),
    ),
    "CVE-2021-32026": Listed(
        "the same cipher suites from the command line",
        ("tests/interop/tls/test_ciphers.py::TestWays::test_same",),
    ),
    "CVE-2022-24450": Listed("an account in CONNECT", (f"{_TRY}::TestLogin::test_account",)),
    "CVE-2022-28357": Listed(
        "an account's name as a path",
        ("tests/auth/operator/test_claimsservice.py::TestUpdating::test_keysThatArePaths",),
    ),
    "CVE-2022-29946": Listed(
        "queue subscriptions and what is denied", (f"{_TRY}::TestOverlaps::test_filtered",)
    ),
    "CVE-2022-42709": Listed(
        "a ring through a mapping",
        ("tests/accounts/test_importchecks.py::TestServices::test_ringThroughMappings",),
    ),
    "CVE-2023-47090": Listed(
        "only the system account has users", (f"{_TRY}::TestAmbiguity::test_onlySystem",)
    ),
    "CVE-2023-46129": Listed(
        "sealing with a key of zeros",
        ("tests/auth/callout/test_xkeys.py::TestSealing::test_notWithZeros",),
    ),
    "CVE-2025-30215": Listed(
        "another account's streams by the API",
        (
            f"{_STREAMS}::TestAccounts::test_requests",
            f"{_STREAMS}::TestAccounts::test_administration",
        ),
    ),
    "CVE-2025-68121": Listed(
        "a session from a laxer listener",
        ("tests/interop/tls/test_certificates.py::TestVerify::test_noResumption",),
    ),
    "CVE-2026-29785": Listed(
        "subscriptions before CONNECT of a leafnode",
        (f"{_HUB}::TestGreeting::test_lineBeforeConnect", f"{_LEAFS}::test_garbage"),
    ),
    "CVE-2026-33216": Listed(
        "a password on a monitoring page",
        ("tests/clients/test_connz.py::TestConnz::test_noSecrets",),
    ),
    "CVE-2026-33215": Listed(
        "client ids with odd signs, and those of other users",
        (
            "tests/subjects/test_channels.py::test_notClientIDs",
            "tests/streaming/requests/test_connect.py::TestConnect::test_inboxOfOthers",
        ),
    ),
    "CVE-2026-33217": Listed(
        "permissions hold for every prefix",
        (_MATRIX, f"{_TRY}::TestAccounts::test_listening"),
    ),
    "CVE-2026-33246": Listed("a leafnode's word about who asks", (f"{_LEAFS}::test_forged",)),
    "CVE-2026-33223": Listed(
        "a header about who asks, many times", (f"{_IMPORTS}::TestRequestor::test_forged",)
    ),
    "CVE-2026-33218": Listed(
        "a malformed message of a leafnode before its login", (f"{_LEAFS}::test_garbage",)
    ),
    "CVE-2026-33248": Listed(
        "distinguished names with repetitions, in any order",
        ("tests/interop/tls/test_certificates.py::TestMapped::test_same",),
        beside=True,
    ),
    "CVE-2026-33249": Listed(
        "a trace sent to a subject that is denied", (f"{_TRY}::TestRoundabout::test_headers",)
    ),
    "GHSA-38x3": Listed(
        "somebody in particular for those who bring nothing, on links",
        (
            f"{_ROUTE}::TestAccepting::test_lineBeforeConnect",
            f"{_HUB}::TestGreeting::test_lineBeforeConnect",
            f"{_GATEWAY}::TestAccepting::test_lineBeforeConnect",
        ),
    ),
    "GHSA-wh7g": Listed(
        "denied patterns that overlap", (_MATRIX, f"{_TRY}::TestOverlaps::test_filtered")
    ),
    "GHSA-jx8g": Listed(
        "denied, plainly and in a queue",
        ("tests/subjects/test_permissions_real_server.py::TestBesideNatsServer::test_truthTable",),
        beside=True,
    ),
    "GHSA-3g5q": Listed(
        "a second INFO of a leafnode",
        (f"{_HUB}::TestLettingIn::test_secondInfo", f"{_LEAFS}::test_garbage"),
    ),
    "GHSA-r72h": Listed(
        "a CONNECT that never ends",
        (f"{_LEAFS}::test_lateConnect", f"{_ADMISSION}::TestLogin::test_silentGuest"),
    ),
    "GHSA-p3j5": Listed(
        "a trace that comes over a link", (f"{_CROSSING}::TestDelivery::test_trace",)
    ),
    "GHSA-4g68": Listed(
        "internal subjects to deliver to",
        (f"{_STREAMS}::TestPermissions::test_deliveredToTheServer",),
    ),
    "GHSA-qrcv": Listed(
        "line ends in subjects that are sent on",
        (f"{_TRY}::TestInjection::test_othersGetWholeMessages", f"{_CROSSING}::test_injection"),
    ),
    "GHSA-g33f": Listed(
        "keys that are too short", ("tests/auth/test_nkeys.py::TestKeys::test_lengths",)
    ),
    "GHSA-hmmp": Listed(
        "kinds of connection for those who bring nothing",
        (f"{_SETTINGS}::TestNobody::test_connectionType",),
    ),
    "GHSA-7qmq": Listed(
        "what is replayed to a denied subject",
        (
            "tests/streaming/requests/test_subscribe.py::TestPermissions::test_inbox",
            f"{_STREAMS}::TestPermissions::test_delivery",
        ),
    ),
}
