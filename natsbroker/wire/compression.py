"""
The compression of a link, as in nats-server 2.15. From its own mode and the mode in the peer's
first INFO, each side concludes whether the link is compressed. The sender of each direction chooses
its level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

OFF = "off"
ACCEPT = "accept"
UNSUPPORTED = "not supported"
AUTO = "s2_auto"

UNCOMPRESSED = "s2_uncompressed"
FAST = "s2_fast"

#: The levels of S2, the one that compresses most last.
LEVELS = (UNCOMPRESSED, FAST, "s2_better", "s2_best")


@dataclass(frozen=True, slots=True)
class Compression:
    """
    @ivar mode: C{OFF}, C{ACCEPT}, C{UNSUPPORTED}, C{AUTO} or one of L{LEVELS}.
    @ivar thresholds: of C{AUTO}: the longest round trip, in seconds, for each of L{LEVELS}; 0 for
        an unused one.
    """

    mode: str = UNSUPPORTED
    thresholds: tuple[float, ...] = ()

    @property
    def isOffered(self) -> bool:
        return self.mode not in (OFF, UNSUPPORTED)

    def __str__(self) -> str:
        thresholds = " ".join(
            f"{threshold * 1000:g}ms" if threshold else "0s" for threshold in self.thresholds
        )
        return f"{{{self.mode} [{thresholds}]}}"

    def selected(self, peer: str) -> str:
        """
        The mode of a link: C{OFF} or C{UNSUPPORTED} without S2; otherwise C{AUTO} or one of
        L{LEVELS}.

        @raise ValueError: if the mode in the peer's first INFO is unknown.
        """
        if not self.isOffered:
            return self.mode
        if peer in ("", UNSUPPORTED):
            return UNSUPPORTED
        if peer not in (OFF, ACCEPT, AUTO, *LEVELS):
            raise ValueError(f"unsupported compression mode {peer!r}")
        if peer == OFF:
            return OFF
        if self.mode != ACCEPT:
            return self.mode
        if peer == ACCEPT:
            return OFF
        return FAST if peer == AUTO else peer

    def levelFor(self, mode: str, roundTrip: float) -> str:
        """The level of a mode from L{selected}. With C{AUTO}, the round trip in seconds decides."""
        if mode != AUTO:
            return mode
        thresholds = self.thresholds
        for place, threshold in enumerate(thresholds):
            if threshold and roundTrip <= threshold:
                return LEVELS[place]
        return LEVELS[3 if len(thresholds) >= 3 else len(thresholds) - 1]


#: The compression of a kind of link that is never compressed.
NO_COMPRESSION = Compression()


class LinkCompression:
    """
    @ivar mode: the mode of the link, from L{Compression.selected}; until then this side's own.
    @ivar level: the level at which this side sends, which monitoring shows: one of L{LEVELS},
        C{OFF} or C{UNSUPPORTED}.
    """

    __slots__ = ("_isAgreed", "_use", "level", "mode", "wanted")

    def __init__(self, wanted: Compression, use: Callable[[str], object]) -> None:
        self.wanted = wanted
        self.mode = wanted.mode
        self.level = UNSUPPORTED
        self._isAgreed = False
        self._use = use

    @property
    def isOn(self) -> bool:
        return self.mode in (AUTO, *LEVELS)

    def select(self, peer: str) -> None:
        self.mode = self.wanted.selected(peer)
        self._isAgreed = True
        if not self.isOn:
            self.level = self.mode

    def begin(self, roundTrip: float) -> None:
        self._useLevel(self.wanted.levelFor(self.mode, roundTrip))

    def measured(self, roundTrip: float) -> None:
        """Send at the level for a new round trip, in the mode C{AUTO}."""
        if self.mode == AUTO and self.level in LEVELS:
            self._useLevel(self.wanted.levelFor(AUTO, roundTrip))

    def change(self, wanted: Compression, roundTrip: float) -> bool:
        """
        Change the level. The peer does not learn of it. Return whether another mode is needed, on
        which both sides can agree only over a new connection.
        """
        isSame, self.wanted = wanted == self.wanted, wanted
        if isSame or not self._isAgreed:
            # The peer may have this side's INFO already, which cannot be withdrawn.
            return not isSame
        if self.level == UNSUPPORTED:
            return False
        if self.level == wanted.mode:
            self.mode = wanted.mode
            return False
        if self.level == OFF or wanted.mode in (OFF, ACCEPT):
            return True
        if wanted.mode == UNSUPPORTED:
            # As in nats-server, which goes on compressing what it sends.
            self._useLevel(FAST)
            self.mode = self.level = UNSUPPORTED
        else:
            self.mode = wanted.mode
            self._useLevel(wanted.levelFor(wanted.mode, roundTrip))
        return False

    def _useLevel(self, level: str) -> None:
        if level != self.level:
            self.level = level
            self._use(level)
