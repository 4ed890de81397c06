"""
The compression settings of a block.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.compression import Compression
from tests.config.support import built, complaintsOf

AUTO = Compression("s2_auto", (0.01, 0.05, 0.1))


def compressionOf(text: str) -> Compression:
    """The compression of routes."""
    cluster = built(f"cluster {{ {text} }}").settings.cluster
    assert cluster is not None
    return cluster.compression


@pytest.mark.parametrize(
    "text, mode",
    [
        ("", "accept"),
        ("compression {}", "accept"),
        ("compression { rtt_thresholds: ['5ms'] }", "accept"),
        ("compression: true", "s2_fast"),
        ("compression: on", "s2_fast"),
        ("compression: 'on'", "s2_fast"),
        ("compression: Enabled", "s2_fast"),
        ("compression: false", "off"),
        ("compression: 'off'", "off"),
        ("compression: disabled", "off"),
        ("compression: ACCEPT", "accept"),
        ("compression: fast", "s2_fast"),
        ("compression: S2_FAST", "s2_fast"),
        ("compression: better", "s2_better"),
        ("compression: s2_better", "s2_better"),
        ("compression: best", "s2_best"),
        ("compression: s2_best", "s2_best"),
        ("compression: 'not supported'", "not supported"),
        ("compression: not_supported", "not supported"),
        ("compression { mode: best, rtts: ['5ms'] }", "s2_best"),
    ],
)
def test_modes(text: str, mode: str) -> None:
    """Compression modes have several spellings, and one of them has thresholds."""
    assert compressionOf(text) == Compression(mode)


@pytest.mark.parametrize(
    "text, thresholds",
    [
        ("compression: auto", AUTO.thresholds),
        ("compression: s2_auto", AUTO.thresholds),
        ("compression { mode: s2_auto }", AUTO.thresholds),
        ("compression { mode: s2_auto, rtt_thresholds: [] }", AUTO.thresholds),
        ("compression { mode: auto, rtt_thresholds: ['5ms', '1s'] }", (0.005, 1.0)),
        ("compression { mode: auto, thresholds: ['0', '-1s', '1s', '0'] }", (0.0, 0.0, 1.0)),
        ("compression { mode: auto, rtts: ['1ms', '0', '2ms', '3ms'] }", (0.001, 0, 0.002, 0.003)),
        ("compression { mode: auto, rtt: ['1ms', '0', '0', '0', '0'] }", (0.001,)),
    ],
)
def test_thresholds(text: str, thresholds: tuple[float, ...]) -> None:
    """A negative threshold counts as zero, and trailing zeros are ignored."""
    assert compressionOf(text) == Compression("s2_auto", thresholds)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("compression: gzip", 'compression: unsupported compression mode "gzip"'),
        ("compression: s2_uncompressed", 'unsupported compression mode "s2_uncompressed"'),
        ("compression { mode: s2 }", 'compression.mode: unsupported compression mode "s2"'),
        ("compression: 1", "expected a string or a boolean or a map, got an integer"),
        ("compression: [fast]", "expected a string or a boolean or a map, got an array"),
        ("compression { mode: fast, foo: 1 }", 'unknown field "foo"'),
        (
            "compression { mode: auto, rtts: ['10'] }",
            'time: missing unit in duration "10"',
        ),
        (
            "compression { mode: auto, rtts: ['5ms', '2ms'] }",
            "RTT threshold values [5ms 2ms] should be in ascending order",
        ),
        (
            "compression { mode: auto, rtts: ['5ms', '0', '5ms'] }",
            "RTT threshold values [5ms 0s 5ms] should be in ascending order",
        ),
        (
            "compression { mode: auto, rtts: ['1ms', '2ms', '3ms', '4ms', '5ms'] }",
            'compression mode "s2_auto" should have no more than 4 RTT thresholds: '
            "[1ms 2ms 3ms 4ms 5ms]",
        ),
        (
            "compression { mode: auto, rtts: ['0', '0'] }",
            'compression mode "s2_auto" requires at least one RTT threshold',
        ),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    """An invalid value is refused, with nats-server's error if it has one."""
    (complaint,) = complaintsOf(f"cluster {{ {text} }}")
    assert problem in complaint


def test_keyOfComplaint() -> None:
    """An error about compression is reported at its key."""
    text = "cluster {\n  compression {\n    mode: x\n  }\n}"
    assert complaintsOf(text)[0].startswith("s.conf:3:5: cluster.compression.mode: ")
