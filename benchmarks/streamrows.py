"""
The rows of streams: what is stored before it is acknowledged, and read again.
"""

from __future__ import annotations

from benchmarks.figures import Unit, atLeast, atMost
from benchmarks.row import Figure, Row

__all__ = ["JETSTREAMS", "STREAMS"]

WINDOW = ("--window", "1024", "--size", "128")
STORED = Unit.PER_SECOND
PING = Figure("ping_p99", Unit.MILLISECONDS, "PING p99 of another", limit=atMost(20))

STREAMS = (
    Row(
        "stream-publish",
        "acknowledged publishes, 128 B, window 1,024: synced beside not",
        "store",
        WINDOW,
        (
            Figure("rate", STORED, "acknowledged", atLeast(0.6)),
            PING,
        ),
        setting="stream",
        fresh=True,
    ),
    Row(
        "stream-publish-synced",
        "acknowledged publishes, 128 B, window 1,024: synced beside synced",
        "store",
        WINDOW,
        (
            Figure("rate", STORED, "acknowledged", atLeast(8)),
            PING,
        ),
        setting="stream-synced",
        fresh=True,
    ),
    Row(
        "stream-one-synced",
        "acknowledged publishes, 128 B, one in flight: synced beside synced",
        "store",
        ("--window", "1", "--size", "128"),
        (
            Figure("rate", STORED, "acknowledged", atLeast(1.0)),
            PING,
        ),
        setting="stream-synced",
        fresh=True,
    ),
    Row(
        "stream-replay",
        "replay to one subscriber that acknowledges, 128 B",
        "replay",
        (*WINDOW, "--count", "200000"),
        (Figure("rate", STORED, "", atLeast(0.7)),),
        setting="stream",
        fresh=True,
    ),
    Row(
        "stream-length",
        "memory while a stream grows to ten times its length",
        "length",
        (*WINDOW, "--count", "500000"),
        (Figure("memory", Unit.MEBIBYTES, limit=atMost(16)),),
        setting="stream",
        fresh=True,
    ),
    Row(
        "stream-restart",
        "killed with a million stored messages, until it serves again",
        "restart",
        (*WINDOW, "--count", "1000000"),
        (Figure("seconds", Unit.SECONDS, limit=atMost(2)),),
        setting="stream",
        fresh=True,
    ),
)

THOUSAND = ("--window", "1000", "--size", "128")


def jetstream(key: str, title: str, least: float, setting: str, *load: str) -> Row:
    """
    @return: a row of publishes to JetStream on both sides.
    """
    figures = (
        Figure("rate", STORED, "acknowledged", atLeast(least)),
        PING,
    )
    title = f"JetStream publishes, 128 B, {title}"
    return Row(
        f"jetstream-{key}",
        title,
        "store",
        load,
        figures,
        setting=setting,
        fresh=True,
        quick=load,
    )


def stored(
    key: str,
    title: str,
    kind: str,
    figures: tuple[Figure, ...],
    count: int,
    *load: str,
    quick: int = 20_000,
    setting: str = "jetstream",
) -> Row:
    """
    @param count: the number of messages that are stored first, each on its own subject unless
        C{load} says how many subjects there are.
    @param quick: the same where it is to be quick.
    @return: a row of what is stored in JetStream, 128 bytes each.
    """

    def loadOf(messages: int) -> tuple[str, ...]:
        subjects = () if "--subjects" in load else ("--subjects", str(messages))
        return (*THOUSAND, *load, "--count", str(messages), *subjects)

    return Row(
        f"jetstream-{key}",
        f"JetStream, {title}",
        kind,
        loadOf(count),
        figures,
        setting=setting,
        fresh=True,
        quick=loadOf(min(count, quick)),
    )


def rate(least: float) -> Figure:
    return Figure("rate", STORED, "", atLeast(least))


ASSETS = Row(
    "jetstream-idle",
    "JetStream, 1,000 streams with 10,000 consumers that nobody uses",
    "assets",
    ("--connections", "1000", "--count", "10000"),
    (
        Figure("cores", Unit.TIMES, "of a processor", limit=atMost(0.01)),
        Figure("memory", Unit.MEBIBYTES, "memory", atMost(0.5)),
    ),
    setting="jetstream",
    fresh=True,
    quick=("--connections", "100", "--count", "1000"),
)

JETSTREAMS = (
    jetstream("publish", "window 1,000: synced beside not", 1.5, "jetstream", *THOUSAND),
    jetstream(
        "publish-eight",
        "8 publishers: synced beside not",
        1.5,
        "jetstream",
        *(*THOUSAND, "--publishers", "8"),
    ),
    jetstream(
        "publish-ids",
        "with Nats-Msg-Id, window 1,000: synced beside not",
        1.5,
        "jetstream",
        *(*THOUSAND, "--headers"),
    ),
    jetstream(
        "publish-synced", "window 1,000: synced beside synced", 50, "jetstream-synced", *THOUSAND
    ),
    jetstream(
        "one-synced",
        "one in flight: synced beside synced",
        1.0,
        "jetstream-synced",
        *("--window", "1", "--size", "128"),
    ),
    Row(
        "jetstream-push",
        "JetStream replay to a push consumer that acknowledges, 128 B",
        "replay",
        (*THOUSAND, "--count", "200000"),
        (rate(1.5), PING),
        setting="jetstream",
        fresh=True,
        quick=(*THOUSAND, "--count", "20000"),
    ),
    Row(
        "jetstream-pull",
        "JetStream replay to a pull consumer that acknowledges, 500 a request, 128 B",
        "replay",
        (*THOUSAND, "--count", "200000", "--in-flight", "500"),
        (rate(2.0), PING),
        setting="jetstream",
        fresh=True,
        quick=(*THOUSAND, "--count", "20000", "--in-flight", "500"),
    ),
    stored(
        "put",
        "key-value puts of 8 writers, one in flight each: synced beside not",
        "keys",
        (rate(1.2),),
        10_000,
        *("--publishers", "8"),
    ),
    stored(
        "put-synced",
        "key-value puts of 8 writers, one in flight each: synced beside synced",
        "keys",
        (rate(2.0),),
        10_000,
        *("--publishers", "8"),
        setting="jetstream-synced",
    ),
    stored(
        "put-relaxed",
        "key-value puts of 8 writers, one in flight each: neither synced",
        "keys",
        (rate(1.2),),
        10_000,
        *("--publishers", "8"),
        setting="jetstream-relaxed",
    ),
    stored(
        "get", "key-value gets, 16 in flight", "gets", (rate(1.5),), 10_000, "--in-flight", "16"
    ),
    stored(
        "direct",
        "direct gets by sequence, one in flight",
        "gets",
        (Figure("p50", Unit.MICROSECONDS, "p50", atMost(1.0)),),
        100_000,
        *("--wild", "--subjects", "1"),
    ),
    stored(
        "batch",
        "batched direct gets, 1,000 a request",
        "batches",
        (rate(2.0),),
        100_000,
        *("--subjects", "1"),
    ),
    stored(
        "last",
        "last messages of subjects, among a million",
        "gets",
        (Figure("p50", Unit.MICROSECONDS, "p50", atMost(1.0)),),
        1_000_000,
    ),
    stored(
        "ordered",
        "replay to an ordered consumer",
        "ordered",
        (rate(2.0), PING),
        200_000,
        *("--subjects", "1"),
    ),
    stored(
        "filter",
        "replay of 100,000 subjects to a consumer with a filter that matches all",
        "ordered",
        (rate(1.0), PING),
        100_000,
        "--wild",
    ),
    ASSETS,
    Row(
        "jetstream-restart",
        "JetStream, killed with ten million stored messages, until it serves again",
        "restart",
        (*THOUSAND, "--count", "10000000"),
        (Figure("seconds", Unit.SECONDS, "", atMost(0.5)),),
        setting="jetstream",
        fresh=True,
        quick=(*THOUSAND, "--count", "100000"),
    ),
)
