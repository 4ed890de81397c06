"""
The table of rows, compared with the targets of the project.
"""

from __future__ import annotations

import re

import pytest

from benchmarks.figures import Bound
from benchmarks.measure import KINDS
from benchmarks.rows import LINKS, QUICK, ROWS, Row, choose
from benchmarks.settings import SETTINGS


def row(key: str) -> Row:
    """
    @return: the row with this key.
    """
    (chosen,) = choose([key])
    return chosen


def test_keysAreUnique() -> None:
    """No two rows share a key, and keys can be typed without quotes."""
    keys = [entry.key for entry in ROWS]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", key) for key in keys)


@pytest.mark.parametrize("benchmark", ROWS, ids=lambda benchmark: str(benchmark.key))
def test_rowCanBeMeasured(benchmark: Row) -> None:
    """Every row names a measurement and settings that exist, and TLS goes with a TLS setting."""
    assert benchmark.kind in KINDS
    assert all(setting in SETTINGS for setting in benchmark.settings)
    assert ("--tls" in benchmark.load) == SETTINGS[benchmark.setting].encrypted


@pytest.mark.parametrize(
    ("key", "fast", "old"),
    [
        ("one-16", 4.0, 2.0),
        ("fan8-128", 4.0, 2.0),
        ("one-1024", 1.8, None),
        ("publish-16384", 1.2, None),
        ("headers-128", 2.5, 2.0),
        ("others-wild-16", 2.5, 2.0),
        ("queue-1024", 1.8, None),
    ],
)
def test_throughputTargets(key: str, fast: float, old: float | None) -> None:
    """Throughput targets depend on size and kind. The pure path has 0.15 of nats-server."""
    (figure,) = row(key).figures
    assert figure.fast == Bound(fast, least=True)
    assert figure.pure == Bound(0.15, least=True)
    assert figure.old == (Bound(old, least=True) if old else None)


@pytest.mark.parametrize(("key", "most"), [("request-1", 1.0), ("request-16", 1.2)])
def test_latencyTargets(key: str, most: float) -> None:
    """The latency rows have targets for both percentiles, as upper bounds."""
    bounds = {figure.key: figure.fast for figure in row(key).figures}
    assert bounds == {"p50": Bound(most, least=False), "p99": Bound(most, least=False)}


def test_permissionsAreComparedWithOurs() -> None:
    """
    Rows with permissions compare our server with itself without them, and allow a loss of 15
    percent.
    """
    permissions = row("permissions-one-128")
    assert permissions.settings == ("permissions", "plain")
    assert permissions.figures[0].fast == Bound(0.85, least=True)


def test_relayTargets() -> None:
    """The relay rows run our server with permissions, with a target of 0.8 of the relay in C."""
    rows = choose(["relay-*"])
    assert {entry.key for entry in rows} == {
        "relay-publish-16",
        *(f"relay-one-{size}" for size in (16, 128, 1024, 16384)),
        *(f"relay-fan8-{size}" for size in (16, 128)),
    }
    for entry in rows:
        assert (entry.setting, entry.figures[0].fast) == ("permissions", Bound(0.8, least=True))


def test_tlsTargets() -> None:
    """The throughput target over TLS is that of nats-server."""
    assert row("tls-one-1024").figures[0].fast == Bound(1.0, least=True)


@pytest.mark.parametrize("kind", [kind for kind, _ in LINKS])
@pytest.mark.parametrize("size", [16, 128, 1024, 16384])
def test_linkTargets(kind: str, size: int) -> None:
    """The throughput target over a link between two servers is that of nats-server."""
    entry = row(f"{kind}-{size}")
    assert entry.figures[0].fast == Bound(1.0, least=True)
    assert SETTINGS[entry.setting].far


def test_jetstreamTargets() -> None:
    """
    The JetStream rows run JetStream on both servers. Only nats-server may sync after its
    acknowledgements.
    """
    assert row("jetstream-publish").figures[0].fast == Bound(1.5, least=True)
    assert row("jetstream-one-synced").figures[0].fast == Bound(1.0, least=True)
    assert "--headers" in row("jetstream-publish-ids").load
    for name in ("jetstream", "jetstream-synced"):
        assert SETTINGS[name].text == SETTINGS["jetstream"].theirs
    assert "sync_interval: always" in SETTINGS["jetstream-synced"].theirs
    relaxed = SETTINGS["jetstream-relaxed"]
    assert relaxed.text == relaxed.theirs
    assert 'sync_interval: "2m"' in relaxed.theirs


def test_storedTargets() -> None:
    """
    The rows about stored JetStream messages have their targets, and fewer messages in a quick run.
    """
    least = {
        "put": 1.2,
        "put-synced": 2.0,
        "put-relaxed": 1.2,
        "get": 1.5,
        "batch": 2.0,
        "ordered": 2.0,
        "filter": 1.0,
    }
    for key, bound in least.items():
        assert row(f"jetstream-{key}").figures[0].fast == Bound(bound, least=True)
    for key in ("direct", "last"):
        assert row(f"jetstream-{key}").figures[0].fast == Bound(1.0, least=False)
    assert row("jetstream-idle").figures[0].limit == Bound(0.01, least=False)
    assert row("jetstream-filter").figures[1].limit == Bound(20, least=False)
    for quick in (one for one in ROWS if one.quick and "--count" in one.load):
        counts = [int(load[load.index("--count") + 1]) for load in (quick.quick, quick.load)]
        assert counts[0] <= min(counts[1], 100_000)


def test_streamTargets() -> None:
    """The rows of NATS Streaming have targets relative to nats-server with and without syncs."""
    assert row("stream-publish").figures[0].fast == Bound(0.6, least=True)
    assert row("stream-publish-synced").figures[0].fast == Bound(8, least=True)
    assert row("stream-replay").figures[0].fast == Bound(0.7, least=True)
    assert row("stream-restart").figures[0].limit == Bound(2, least=False)
    assert "sync_interval: always" in SETTINGS["stream-synced"].theirs
    assert "sync" not in SETTINGS["stream"].theirs


def test_chooseKeepsOrder() -> None:
    """Rows come in the table's order, each once, for any order of the patterns."""
    assert [entry.key for entry in choose(["storm", "request-*", "request-1"])] == [
        "request-1",
        "request-16",
        "request-64",
        "storm",
    ]


def test_chooseRefusesUnknown() -> None:
    """A pattern that names no row is an error."""
    with pytest.raises(LookupError, match="no row is called 'speed'"):
        choose(["one-16", "speed"])


def test_quickRowsExist() -> None:
    """Quick rows are part of the table."""
    assert 0 < len(choose(QUICK)) < len(ROWS)
