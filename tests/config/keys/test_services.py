"""
Tests for L{natsbroker.config.keys.services}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import NotSupportedYet
from natsbroker.config.keys.services import STORE_LIMITS, STREAMING
from tests.config.support import built, complaintsOf, errorsOf

NKEY = "UC6NLCN7AS34YOJVCYD4PJ3QB7QGLYG5B5IMBT25VW5K4TNUJODM7BOX"

VALID = [
    "jetstream { tpm { keys_file: f, pcr: 1 } }",
]


@pytest.mark.parametrize("text", VALID)
def test_valid(text: str) -> None:
    """A block that nats-server accepts is refused only because it is not supported yet."""
    assert [type(error) for error in errorsOf(text)] == [NotSupportedYet]


SUPPORTED = [
    "accounts { A { msg_trace { dest: x, sampling: 50% } } }",
    """websocket {
        listen: "127.0.0.1:-1", no_tls: true, origins: ["http://a"], handshake_timeout: 2
        headers { X-A: b }, authorization { user: a, pass: b, timeout: 1 }
    }""",
    "jetstream: true, mqtt { port: -1, ack_wait: '1m', max_inflight: 10, stream_replicas: 1 }",
    "ocsp { mode: always, url: a }",
    "ocsp_cache { type: local, save_interval: 10 }",
    f"proxies {{ trusted: [ {{key: {NKEY}}}, {{public_key: {NKEY}}} ] }}",
    "jetstream: enabled",
    "jetstream { max_outstanding_catchup: 64MB }",
    "jetstream { key: k }",
    "jetstream { prev_key: k }",
    "jetstream { cipher: AES, ek: k }",
    """jetstream {
        store_dir: "js", max_mem: 1GB, max_file: 10G, domain: d, sync: always, strict: false
        limits { max_ack_pending: 10, duplicate_window: "1m", max_request_batch: 10 }
    }""",
    "jetstream { sync_interval: '10s', max_buffered_msgs: 10, request_queue_limit: 5 }",
    """jetstream { limits {
        default_max_consumers: 5
        batch { max_inflight_per_stream: 1, max_inflight_total: 2, max_msgs: 3, timeout: "4s" }
    } }""",
    "jetstream { enabled: false, key: k, limits { batch { max_msgs: 10 } } }",
    "accounts { A { jetstream { max_mem: 1k, streams: 3, max_bytes_required: true } } }",
    "resolver { type: full, dir: a, allow_delete: true, limit: 5, interval: '1m' }",
    "resolver { type: cache, dir: a, ttl: '1h' }",
    "resolver: MEMORY",
    """mappings {
        a: b, c: [ {dest: d, weight: 50%}, {destination: e, weight: 50} ], f: {dest: g, weight: 9}
    }""",
    """accounts { B {}, A { exports: [
        {stream: "a.>", accounts: [B]}, {service: s, response: stream, threshold: "1s"}
        {service: l, latency: x}, {service: m, latency: {sampling: headers, subject: y} }
    ] } }""",
    """accounts {
        A { imports: [ {stream: {account: B, subject: x}, prefix: p} ], maps { a: b } }
        B { exports: [ {stream: x} ] }
    }""",
]


@pytest.mark.parametrize("text", SUPPORTED)
def test_supported(text: str) -> None:
    """A block of a supported feature is accepted."""
    assert built(text).warnings == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "jetstream { limits { bogus: 1 } }",
            's.conf:1:22: unknown field "bogus" in jetstream.limits',
        ),
        (
            "jetstream: maybe",
            "s.conf:1:1: jetstream: Expected 'enabled' or 'disabled' for string value, got 'maybe'",
        ),
        ("mqtt { port: a }", "s.conf:1:8: mqtt.port: expected an integer, got a string"),
        (
            "mappings { a: [ {dest: b, weight: 101} ] }",
            's.conf:1:27: mappings.a[0].weight: "101" is not a percentage',
        ),
        (
            "accounts { A { exports: [ {strem: x} ] } }",
            's.conf:1:28: unknown field "strem" in accounts.A.exports[0], did you mean "stream"?',
        ),
    ],
)
def test_mistakes(text: str, complaint: str) -> None:
    """Mistakes in a block are reported, also if it is not supported yet."""
    assert complaint in complaintsOf(text)


SPELLINGS = """
    id cid cluster_id discover_prefix st store_type store storetype dir datastore sd stan_debug
    sv stan_trace ns nats_server nats_server_url credentials secure tls limits store_limits
    storelimits file file_options sql sql_options hbi hb_interval server_to_client_hb_interval hbt
    hb_timeout server_to_client_hb_timeout hbf hb_fail_count server_to_client_hb_fail_count
    ft_group ft_group_name partitioning cluster syslog_name encrypt encryption_cipher
    encryption_key username user password pass token nkey_seed_file replace_durable
    replace_durables replace_duplicate_durable replace_duplicate_durables
"""

LIMITS = """
    mc max_channels maxchannels channels channels_limits channelslimits per_channel
    per_channel_limits msu max_subs max_subscriptions maxsubscriptions mm max_msgs maxmsgs max_count
    maxcount mb max_bytes maxbytes ma max_age maxage mi max_inactivity maxinactivity
"""


@pytest.mark.parametrize("spelling", SPELLINGS.split())
def test_spellings(spelling: str) -> None:
    """Every spelling that nats-streaming-server reads is known, in any case."""
    assert STREAMING.canonical(spelling.upper()) is not None


@pytest.mark.parametrize("spelling", LIMITS.split())
def test_limits(spelling: str) -> None:
    """Every spelling of a limit is a known key."""
    assert STORE_LIMITS.canonical(spelling) is not None
