"""
Strategies for Spark data types.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from natsbroker.spark.codecs.datatypes import (
    TIMESTAMP,
)

SIMPLE = [
    (pa.bool_(), "BOOLEAN"),
    (pa.int8(), "TINYINT"),
    (pa.int16(), "SMALLINT"),
    (pa.int32(), "INT"),
    (pa.int64(), "BIGINT"),
    (pa.float32(), "FLOAT"),
    (pa.float64(), "DOUBLE"),
    (pa.string(), "STRING"),
    (pa.binary(), "BINARY"),
    (pa.date32(), "DATE"),
    (TIMESTAMP, "TIMESTAMP"),
    (pa.timestamp("us"), "TIMESTAMP_NTZ"),
    (pa.decimal128(38, 38), "DECIMAL(38, 38)"),
]


names = st.text("abcdefgh `é,<'", min_size=1, max_size=5)


def structs(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Columns of some types, with names that differ."""
    fields = st.tuples(names, kinds, st.booleans())
    unique = st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field[0].lower())
    return unique.map(lambda chosen: [pa.field(*field) for field in chosen])


types = st.recursive(
    st.sampled_from([kind for kind, _ in SIMPLE]),
    lambda inner: st.one_of(
        inner.map(lambda kind: pa.list_(pa.field("element", kind))),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        structs(inner).map(pa.struct),
    ),
    max_leaves=6,
)
