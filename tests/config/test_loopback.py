"""
Tests for L{natsbroker.config.loopback}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.loopback import isLoopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost"])
def test_here(host: str) -> None:
    """Nobody else reaches these."""
    assert isLoopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "127.0.0"])
def test_anywhere(host: str) -> None:
    """Others may reach these, or who knows."""
    assert not isLoopback(host)
