"""
Tests for L{natsbroker.streaming.reading}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.errors import ConfigErrors, NotSupportedYet
from natsbroker.config.settings.streaming import Streaming
from natsbroker.server.configuration.build import buildText
from natsbroker.streaming.reading import storeNamed


def built(text: str) -> Streaming | None:
    """The settings of NATS Streaming that a file gives."""
    return buildText(text, {}, "s.conf").settings.streaming


def errorsOf(text: str) -> list[str]:
    """All errors in a file."""
    with pytest.raises(ConfigErrors) as raised:
        buildText(text, {}, "s.conf")
    return str(raised.value).splitlines()


def test_absent() -> None:
    """Without the block there is no NATS Streaming."""
    assert built("port: 4222") is None


def test_empty() -> None:
    """An empty block gives all defaults."""
    assert built("streaming {}") == Streaming()


def test_allSettings() -> None:
    """Every setting can be given, under nats-streaming-server's names."""
    text = """
        accounts { A {} }
        streaming {
            id: c, discover_prefix: "_X.y", account: A, store: FILE, dir: d
            hb_interval: "1s", hb_timeout: "500ms", hb_fail_count: 0, replace_durable: true
            sd: true, sv: true, file { crc: true }
            store_options { max_size: 5 }
            store_limits {
                max_channels: 10, max_subs: 11, max_msgs: 12, max_bytes: 13KB, max_age: "14s"
                max_inactivity: "15s"
                channels {
                    "foo.*" { max_msgs: 1, max_age: "1h" }
                    bar { max_subs: 0, max_bytes: -5, max_inactivity: "-1s" }
                }
            }
        }
    """
    assert built(text) == Streaming(
        cluster_id="c",
        discover_prefix="_X.y",
        account="A",
        store="lmdb",
        dir="d",
        store_options={"max_size": 5},
        max_channels=10,
        max_subs=11,
        max_msgs=12,
        max_bytes=13 * 1024,
        max_age=14.0,
        max_inactivity=15.0,
        channels={
            "foo.*": {"max_msgs": 1, "max_age": 3600.0},
            "bar": {"max_subs": 0, "max_bytes": 0, "max_inactivity": 0.0},
        },
        hb_interval=1.0,
        hb_timeout=0.5,
        hb_fail_count=0,
        replace_durable=True,
    )


def test_jetStream() -> None:
    """Channels are given to accounts by name or pattern."""
    text = 'jetstream {}, streaming { jetstream_accounts { "a.>": "$G" } }'
    assert built(text) == Streaming(jetstream_accounts={"a.>": "$G"})


def test_otherServer() -> None:
    """The URL of another NATS server, and the credentials for it, are read."""
    text = "streaming { ns: 'nats://a,b:1', user: u, pass: p, token: t, secure: true }"
    assert built(text) == Streaming(
        nats_server="nats://a,b:1", username="u", password="p", token="t", secure=True
    )


def test_zero() -> None:
    """A limit of 0 means no limit, not the default."""
    streaming = built("streaming { limits { mc: 0, mm: 0, mb: 0 } }")
    assert streaming is not None
    assert (streaming.max_channels, streaming.max_msgs, streaming.max_bytes) == (0, 0, 0)


def test_sql() -> None:
    """The options of a database are passed to the store."""
    streaming = built("streaming { st: SQL, sql { driver: postgres, source: x, max_conns: 4 } }")
    assert streaming is not None
    assert streaming.store == "postgres"
    assert streaming.store_options == {"driver": "postgres", "source": "x", "max_open_conns": 4}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("MEMORY", "memory"),
        ("File", "lmdb"),
        ("sql", "postgres"),
        ("PostgreSQL", "postgres"),
        ("MyStore", "MyStore"),
    ],
)
def test_storeNamed(given: str, meant: str) -> None:
    """
    nats-streaming-server's names of stores, in any case, mean the built-in stores; other names are
    plugins.
    """
    assert storeNamed(given) == meant


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("max_channels: -1", "max channels limit cannot be negative (-1)"),
        ("max_subs: -1", "max subscriptions limit cannot be negative (-1)"),
        ("max_msgs: -1", "max messages limit cannot be negative (-1)"),
        ("max_bytes: -1", "max bytes limit cannot be negative (-1)"),
        ('max_age: "-1s"', "max age limit cannot be negative (-1s)"),
        ('max_inactivity: "-2s"', "max inactivity limit cannot be negative (-2s)"),
        ('channels { "foo..bar" {} }', 'invalid channel name "foo..bar"'),
        ('channels { "foo/bar" {} }', 'invalid channel name "foo/bar"'),
        ('channels { "foo*" {} }', 'invalid channel name "foo*"'),
        (
            "max_channels: 1, channels { a {}, b {}, c.* {} }",
            "too many channels defined (2). The max channels limit is set to 1",
        ),
    ],
)
def test_invalidLimits(text: str, error: str) -> None:
    """An invalid limit is an error, in nats-streaming-server's words, with its place."""
    [problem] = errorsOf(f"streaming {{\n store_limits {{\n  {text}\n }}\n}}")
    assert problem.startswith("s.conf:3:")
    assert problem.endswith(error)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('id: "a b"', "streaming.cluster_id"),
        ('id: ""', "streaming.cluster_id"),
        ("id: " + "x" * 65, "streaming.cluster_id"),
        ('discover_prefix: "a.>"', "streaming.discover_prefix"),
        ('hb_interval: "0s"', "streaming.hb_interval"),
        ('hbt: "-1s"', "streaming.hb_timeout"),
        ("hb_fail_count: -1", "streaming.hb_fail_count"),
        ("store: file", "streaming.dir"),
        ("store: sql", "streaming.store: for SQL stores, the source must be specified"),
        ("ns: 'nats://u:secret@:x'", "nats_server: error parsing NATS server url"),
        ("ns: 'nats://a,ws://b'", "nats_server: NATS servers over WebSocket (ws://) are not"),
        ("ns: 'nats://a', account: A", "nats_server: on another NATS server the user determines"),
        ("max_msgs: 5", "unknown field"),
        ('hb_interval: "soon"', "streaming.hb_interval"),
    ],
)
def test_mistakes(text: str, path: str) -> None:
    """Each mistake is reported with its key."""
    [error] = errorsOf(f"streaming {{ {text} }}")
    assert path in error


@pytest.mark.parametrize(
    "text",
    [
        "cluster { node_id: a }",
        "partitioning: true",
        "encrypt: true",
        "encryption_key: secret",
        "ft_group: g",
        "nkey_seed_file: k",
        "credentials: c",
        "tls { client_cert: c }",
    ],
)
def test_notYet(text: str) -> None:
    """A key of nats-streaming-server that is not supported is refused by its name."""
    with pytest.raises(ConfigErrors) as raised:
        built(f"streaming {{ {text} }}")
    assert [type(error) for error in raised.value.errors] == [NotSupportedYet]


@pytest.mark.parametrize(
    "text", ["partitioning: false", "encrypt: false", "secure: false", 'ft_group: ""']
)
def test_disabledClustering(text: str) -> None:
    """An unsupported feature may be disabled explicitly."""
    assert built(f"streaming {{ {text} }}") == Streaming()
