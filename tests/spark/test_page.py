"""
The page about Spark: its Python runs, in order, in one module, as a reader would type it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.spark.support import BrokerStation, Station, Stream
from tests.test_docs import blocksOf

PAGE = Path(__file__).resolve().parents[2] / "docs" / "topics" / "spark.md"


def test_codeRuns(spark: Any, station: Station, broker: BrokerStation) -> None:
    """Every Python block does what its assertions say."""
    orders = Stream(station.connection, "ORDERS")
    orders.make(subjects=["orders.>"])
    for place, data in (("de", b"one cup"), ("fr", b"two cups"), ("de", b"three cups")):
        orders.publish(f"orders.{place}.created", data, {"Clerk": "Anna"})
    broker.channel([b"a", b"b"], "events.web")
    broker.channel([b"c"], "events.shop")
    names: dict[str, Any] = {
        "__name__": "__main__",
        "servers": station.url,
        "broker": broker.url,
    }
    blocks = [each for each in blocksOf(PAGE.read_text("utf-8")) if each.kind == "python"]
    assert blocks
    for block in blocks:
        code = "\n" * block.line + block.text
        exec(compile(code, str(PAGE), "exec"), names)
