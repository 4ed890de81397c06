"""
Tests for L{natsbroker.config.jetstream}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.jetstream import JetStream


@pytest.mark.parametrize(
    "said",
    [JetStream("hub"), JetStream(will_extend=True), JetStream(default_domains={"A": ""})],
)
def test_isSaid(said: JetStream) -> None:
    """Each of its parts counts."""
    assert said.isSaid
    assert not JetStream().isSaid
