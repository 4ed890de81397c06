"""
Tokens that other programs made, and values of every type that a claim may wrongly have.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

KNOWN = dict(
    line.split() for line in Path(__file__).with_name("tokens.txt").read_text().splitlines()
)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("a.>"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["allow", "deny", "start", "end", "max", "ttl"]), inner)
    ),
    max_leaves=6,
)
