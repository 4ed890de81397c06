"""
The C{compression} key of the link blocks. Modes, defaults and errors are those of nats-server 2.15.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.wire.compression import ACCEPT, AUTO, FAST, LEVELS, OFF, UNSUPPORTED, Compression
from natsbroker.wire.durations import durationText

_BETTER, _BEST = LEVELS[2:]

#: The spellings of each mode besides its name.
_SPELLINGS = {
    **dict.fromkeys(("off", "disabled", "false"), OFF),
    "accept": ACCEPT,
    **dict.fromkeys(("not supported", "not_supported"), UNSUPPORTED),
    **dict.fromkeys(("auto", "s2_auto"), AUTO),
    **dict.fromkeys(("fast", "s2_fast"), FAST),
    **dict.fromkeys(("better", "s2_better"), _BETTER),
    **dict.fromkeys(("best", "s2_best"), _BEST),
}

_ON = ("on", "enabled", "true")

#: The longest round trips at which a link is not compressed, is compressed fast, and better.
_THRESHOLDS = (0.01, 0.05, 0.1)

_MOST_THRESHOLDS = 4


def _named(mode: str) -> Compression:
    return Compression(mode, _THRESHOLDS if mode == AUTO else ())


#: The defaults of routes, and of leafnodes.
ACCEPTED, AUTOMATIC = _named(ACCEPT), _named(AUTO)


def compressionOf(
    block: ParsedBlock, findings: Diagnostics, default: Compression, on: str
) -> Compression:
    """
    @param default: the compression where the block says nothing.
    @param on: the mode that C{on} means.
    """
    inner = block.block("compression")
    if inner is None:
        flag = block.take("compression", bool)
        text = block.text("compression", default.mode) if flag is None else str(flag)
        place, name = block, "compression"
    else:
        text = inner.text("mode", default.mode)
        place, name = inner, "mode"
    mode = on if text.lower() in _ON else _SPELLINGS.get(text.lower(), "")
    if not mode:
        findings.errorAt(place, name, f'unsupported compression mode "{text}"')
        return default
    if inner is None or "mode" not in inner or mode != AUTO:
        return _named(mode)
    entries = inner.take("rtt_thresholds", list) or []
    given = [entry for entry in entries if isinstance(entry, float)]
    if not given:
        return _named(mode)
    thresholds = _trimmed(given)
    findings.errorsAt(inner, _problems(thresholds))
    return Compression(mode, thresholds)


def _trimmed(given: list[float]) -> tuple[float, ...]:
    """Thresholds without zeros at their end; what is negative counts as zero."""
    thresholds = [max(threshold, 0.0) for threshold in given]
    while thresholds and not thresholds[-1]:
        thresholds.pop()
    return tuple(thresholds)


def _problems(thresholds: tuple[float, ...]) -> Iterator[tuple[str, str]]:
    name = "rtt_thresholds"
    shown = f"[{' '.join(map(durationText, thresholds))}]"
    used = [threshold for threshold in thresholds if threshold]
    if not used:
        yield name, f'compression mode "{AUTO}" requires at least one RTT threshold'
    elif any(later <= sooner for sooner, later in pairwise(used)):
        yield name, f"RTT threshold values {shown} should be in ascending order"
    elif len(thresholds) > _MOST_THRESHOLDS:
        most = f"no more than {_MOST_THRESHOLDS} RTT thresholds"
        yield name, f'compression mode "{AUTO}" should have {most}: {shown}'
