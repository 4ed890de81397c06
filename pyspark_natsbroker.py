"""
Spark looks in modules whose names begin with C{pyspark_} for data sources: this one makes
C{format("natsbroker")} work without registration.
"""

from natsbroker.spark.datasource.source import NatsBrokerSource as DefaultSource

__all__ = ["DefaultSource"]
