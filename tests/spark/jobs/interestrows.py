"""
Rows of interest as the senders and the receivers report them.
"""

from __future__ import annotations

from tests.spark.eventlogs import event, interest, traffic


def sender(seconds: float = 10, mode: str = "optimistic", **counts: int) -> list[bytes]:
    """The events of the cluster B, which sends to A."""
    link = traffic("X", "", "gateway", "A")
    del link["subject_prefix"]
    return [
        event(
            "traffic",
            seconds,
            [traffic("X", "a.b.>", "gateway", "A", msgs_out=200, bytes_out=2000, **counts)],
            server="SB",
            cluster="B",
        ),
        event("interest", seconds, [{**link, "mode": mode}], server="SB", cluster="B"),
    ]


def receiver(seconds: float = 10, messages: int = 150, patterns: int = 1) -> list[bytes]:
    """The events of the cluster A, which receives."""
    row = traffic(
        *("X", "a.b.>", "gateway", "B"),
        msgs_in=messages,
        bytes_in=10 * messages,
        no_interest=messages,
        rs_minus_sent=7,
    )
    return [
        event("traffic", seconds, [row], server="SA", cluster="A"),
        event("interest", seconds, [interest("X", "wanted", patterns)], server="SA", cluster="A"),
    ]
