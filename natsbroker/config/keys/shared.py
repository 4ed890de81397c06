"""
Rows and blocks that several blocks have: C{tls}, permissions, credentials, a listener's address.
"""

from __future__ import annotations

from natsbroker.config.keys.types import (
    ADDRESS,
    ANY_MAP,
    BOOLEAN,
    DURATION,
    INTEGER,
    OLD_DURATION,
    SECONDS,
    STRING,
    WRITE_POLICY,
    BlockSchema,
    BlockType,
    Key,
    ListType,
    Unsupported,
    ValueType,
)

FLAG = Key(BOOLEAN)
TEXT = Key(STRING)
COUNT = Key(INTEGER)
TIME = Key(DURATION, OLD_DURATION)
"""A duration that may still be a bare number of seconds, which earns a warning."""

WAIT = Key(SECONDS, DURATION)
"""Seconds, with a fraction or not, or a duration; no warning."""

SECRET = Key(STRING, isSecret=True)
PROXY_REQUIRED = Key(BOOLEAN, unsupported=Unsupported("trusted proxies", False))

STRINGS = ListType(Key(STRING), "an array of strings")
LIST = Key(STRING, STRINGS)
"""A string or an array of strings."""

NETWORK = {
    "listen": Key(ADDRESS),
    "host": Key(STRING, aliases="net"),
    "port": COUNT,
}
"""Where a listener binds."""

OCSP_PEER = BlockSchema(
    "tls.ocsp_peer",
    {
        "verify": FLAG,
        "allowed_clockskew": WAIT,
        "ca_timeout": WAIT,
        "cache_ttl_when_next_update_unset": WAIT,
        "warn_only": FLAG,
        "unknown_is_good": FLAG,
        "allow_when_ca_unreachable": FLAG,
    },
)

CERTIFICATE = BlockSchema(
    "tls.certs[]",
    {"cert_file": TEXT, "key_file": TEXT},
    variables=False,
)

_STORE = Unsupported("certificate stores")

TLS_SECTION = BlockSchema(
    "tls",
    {
        "cert_file": TEXT,
        "key_file": TEXT,
        "ca_file": TEXT,
        "certs": Key(
            ListType(Key(BlockType(CERTIFICATE)), "an array of maps"), aliases="certificates"
        ),
        "verify": FLAG,
        "verify_and_map": FLAG,
        "verify_cert_and_check_known_urls": FLAG,
        "insecure": FLAG,
        "timeout": WAIT,
        "min_version": TEXT,
        "cipher_suites": Key(STRINGS),
        "allow_insecure_cipher_suites": FLAG,
        "curve_preferences": Key(STRINGS),
        "pinned_certs": Key(STRINGS),
        "connection_rate_limit": COUNT,
        "handshake_first": Key(BOOLEAN, STRING, aliases="first immediate"),
        "ocsp_peer": Key(BOOLEAN, BlockType(OCSP_PEER), unsupported=Unsupported("OCSP", False)),
        "cert_store": Key(STRING, unsupported=_STORE),
        "cert_match_by": Key(STRING, unsupported=_STORE),
        "cert_match": Key(STRING, unsupported=_STORE),
        "cert_match_skip_invalid": Key(BOOLEAN, unsupported=_STORE),
        "ca_certs_match": Key(STRING, STRINGS, unsupported=_STORE),
    },
    variables=False,
)
TLS_KEY = Key(BlockType(TLS_SECTION))

DIRECTION = BlockSchema("permissions.publish", {"allow": LIST, "deny": LIST})

RESPONSES = BlockSchema(
    "permissions.allow_responses",
    {
        "max": Key(INTEGER, aliases="max_msgs max_messages max_responses"),
        "expires": Key(DURATION, aliases="expiration ttl"),
    },
)

PERMISSIONS = BlockSchema(
    "permissions",
    {
        "publish": Key(STRING, STRINGS, BlockType(DIRECTION), aliases="pub import"),
        "subscribe": Key(STRING, STRINGS, BlockType(DIRECTION), aliases="sub export"),
        "allow_responses": Key(BOOLEAN, BlockType(RESPONSES), aliases="publish_allow_responses"),
    },
)

LOGIN = {
    "user": Key(STRING, aliases="username"),
    "pass": Key(STRING, aliases="password", isSecret=True),
}
"""A name and a password."""

COMPRESSION_MODE = BlockSchema(
    "compression",
    {
        "mode": TEXT,
        "rtt_thresholds": Key(
            ListType(Key(DURATION), "an array of durations"), aliases="thresholds rtts rtt"
        ),
    },
)
COMPRESSION = Key(STRING, BOOLEAN, BlockType(COMPRESSION_MODE))

WRITING = {
    "write_deadline": TIME,
    "write_timeout": Key(
        WRITE_POLICY, unsupported=Unsupported("write timeout policies", "default")
    ),
}
"""How patient a listener is with slow readers."""

UNCHECKED: ValueType = ANY_MAP
"""A map that somebody else reads."""
