"""
A Spark Declarative Pipeline: a channel as a streaming table, and a view of it.

Run it where it stands, with PySpark 4.1 or later: C{spark-pipelines run}.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import pipelines
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.functions import sum as total

spark = SparkSession.active()


@pipelines.table
def orders() -> Any:
    """Each message of the channel once, however often the pipeline runs."""
    log = spark.readStream.format("natsbroker").options(
        servers=os.environ["NATS_SERVERS"], channel="orders", startingOffsets="earliest"
    )
    order = from_json(col("data").cast("string"), "place STRING, cups INT")
    return log.load().select("seq", "time", order.alias("order")).select("seq", "time", "order.*")


@pipelines.materialized_view
def totals() -> Any:
    """The number of cups that each place has ordered."""
    return spark.read.table("orders").groupBy("place").agg(total("cups").alias("cups"))
