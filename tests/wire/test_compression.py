"""
Which compression two servers agree on.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.compression import (
    ACCEPT,
    AUTO,
    FAST,
    LEVELS,
    NO_COMPRESSION,
    OFF,
    UNCOMPRESSED,
    UNSUPPORTED,
    Compression,
    LinkCompression,
)

BETTER, BEST = LEVELS[2:]

USUAL = (0.01, 0.05, 0.1)

S2 = [AUTO, *LEVELS]


def wanted(mode: str) -> Compression:
    """The mode that a side wants."""
    return Compression(mode, USUAL if mode == AUTO else ())


class TestSelection:
    """The mode of a link."""

    @pytest.mark.parametrize("mode", [OFF, UNSUPPORTED])
    @pytest.mark.parametrize("peer", ["", UNSUPPORTED, OFF, ACCEPT, *S2, "gzip"])
    def test_unwanted(self, mode: str, peer: str) -> None:
        """If this side has no compression, the peer's mode is ignored."""
        assert wanted(mode).selected(peer) == mode
        assert not wanted(mode).isOffered

    @pytest.mark.parametrize("mode", [ACCEPT, *S2])
    def test_peerWithout(self, mode: str) -> None:
        """If the peer has no compression, or does not want it, the link has none."""
        assert wanted(mode).isOffered
        assert wanted(mode).selected("") == wanted(mode).selected(UNSUPPORTED) == UNSUPPORTED
        assert wanted(mode).selected(OFF) == OFF

    @pytest.mark.parametrize("mode", [ACCEPT, *S2])
    @pytest.mark.parametrize("peer", ["gzip", "s2", "S2_FAST", "true"])
    def test_unknown(self, mode: str, peer: str) -> None:
        """An unknown mode is an error."""
        with pytest.raises(ValueError, match="unsupported compression mode"):
            wanted(mode).selected(peer)

    def test_accepting(self) -> None:
        """A side with the mode C{accept} takes the peer's mode; two such sides do not compress."""
        assert wanted(ACCEPT).selected(ACCEPT) == OFF
        assert wanted(ACCEPT).selected(AUTO) == FAST
        assert [wanted(ACCEPT).selected(level) for level in LEVELS] == list(LEVELS)

    @pytest.mark.parametrize("mode", S2)
    @pytest.mark.parametrize("peer", [ACCEPT, *S2])
    def test_ownMode(self, mode: str, peer: str) -> None:
        """A side with a mode of its own compresses its output in that mode."""
        assert wanted(mode).selected(peer) == mode

    def test_symmetric(self) -> None:
        """Each side knows whether the peer compresses."""
        modes = [OFF, UNSUPPORTED, ACCEPT, *S2]
        for mine in modes:
            for yours in modes:
                results = wanted(mine).selected(yours), wanted(yours).selected(mine)
                assert len({result in S2 for result in results}) == 1


class TestLevels:
    """The level for a round trip."""

    @pytest.mark.parametrize(
        "thresholds, levels",
        [
            (USUAL, [UNCOMPRESSED, UNCOMPRESSED, FAST, BETTER, BEST]),
            ((0, 0.01), [FAST, FAST, FAST, FAST, FAST]),
            ((0.01,), [UNCOMPRESSED] * 5),
            ((0.01, 0.02), [UNCOMPRESSED, UNCOMPRESSED, FAST, FAST, FAST]),
            ((0, 0, 0.05, 0.06), [BETTER, BETTER, BETTER, BEST, BEST]),
        ],
    )
    def test_thresholds(self, thresholds: tuple[float, ...], levels: list[str]) -> None:
        """The level is that of the first threshold that is not exceeded, or else the last one."""
        auto = Compression(AUTO, thresholds)
        trips = [0.0, 0.01, 0.02, 0.08, 9.0]
        assert [auto.levelFor(AUTO, trip) for trip in trips] == levels

    def test_fixedModes(self) -> None:
        """A mode without thresholds is itself the level."""
        assert [wanted(ACCEPT).levelFor(level, 1.0) for level in LEVELS] == list(LEVELS)

    def test_text(self) -> None:
        """A level is logged as nats-server logs it."""
        assert str(wanted(AUTO)) == "{s2_auto [10ms 50ms 100ms]}"
        assert str(wanted(OFF)) == "{off []}"


class Used:
    """
    The compression of a link, and the levels that it asked its transport for.
    """

    def __init__(self, mode: str, peer: str | None = None) -> None:
        self.levels: list[str] = []
        self.link = LinkCompression(wanted(mode), self.levels.append)
        if peer is not None:
            self.link.select(peer)
            if self.link.isOn:
                self.link.begin(0.001)


class TestLink:
    """From the first INFO to a reload."""

    def test_beforeTheAgreement(self) -> None:
        """Before both sides agree on a mode, nothing is compressed."""
        used = Used(FAST)
        assert used.link.level == UNSUPPORTED and not used.levels
        used.link.measured(1.0)
        assert not used.link.change(wanted(FAST), 0.0) and used.link.change(wanted(OFF), 0.0)
        assert not used.levels

    @pytest.mark.parametrize("peer, level", [("", UNSUPPORTED), (OFF, OFF)])
    def test_withoutS2(self, peer: str, level: str) -> None:
        """A link without S2 shows the reason."""
        used = Used(FAST, peer)
        assert not used.link.isOn and used.link.level == level and not used.levels

    def test_auto(self) -> None:
        """The level follows the round trip; the transport is only called when the level changes."""
        used = Used(AUTO, ACCEPT)
        for trip in (0.002, 0.02, 0.03, 0.2, 0.001):
            used.link.measured(trip)
        assert used.levels == [UNCOMPRESSED, FAST, BEST, UNCOMPRESSED]
        assert used.link.mode == AUTO and used.link.level == UNCOMPRESSED

    def test_fixed(self) -> None:
        """A fixed mode has one level."""
        used = Used(BETTER, ACCEPT)
        used.link.measured(1.0)
        assert used.levels == [BETTER]

    @pytest.mark.parametrize(
        "mode, peer, after, isOver, level",
        [
            (FAST, FAST, FAST, False, FAST),
            (FAST, FAST, BEST, False, BEST),
            (FAST, FAST, AUTO, False, UNCOMPRESSED),
            (AUTO, FAST, FAST, False, FAST),
            (AUTO, FAST, AUTO, False, UNCOMPRESSED),
            (FAST, FAST, OFF, True, FAST),
            (FAST, FAST, ACCEPT, True, FAST),
            (OFF, FAST, FAST, True, OFF),
            (ACCEPT, ACCEPT, FAST, True, OFF),
            (ACCEPT, ACCEPT, OFF, False, OFF),
            (FAST, "", BEST, False, UNSUPPORTED),
            (UNSUPPORTED, FAST, BEST, False, UNSUPPORTED),
            (BEST, FAST, UNSUPPORTED, False, UNSUPPORTED),
        ],
    )
    def test_reloadChangesLevel(
        self, mode: str, peer: str, after: str, isOver: bool, level: str
    ) -> None:
        """A reload changes the level of a link, unless both sides must agree again."""
        used = Used(mode, peer)
        assert used.link.change(wanted(after), 0.001) is isOver
        assert used.link.level == level

    def test_changeToFixed(self) -> None:
        """After a change to a fixed mode, the level does not follow the round trip any more."""
        used = Used(AUTO, ACCEPT)
        used.link.measured(0.02)
        assert not used.link.change(wanted(FAST), 0.02)
        used.link.measured(1.0)
        assert used.levels == [UNCOMPRESSED, FAST]

    def test_changeOfThresholds(self) -> None:
        """New thresholds are in force at once."""
        used = Used(AUTO, ACCEPT)
        used.link.change(Compression(AUTO, (0.0, 0.01)), 0.001)
        assert used.levels == [UNCOMPRESSED, FAST]

    def test_unsupported(self) -> None:
        """
        A link whose compression is switched off by a reload stays compressed, as nats-server's
        does.
        """
        used = Used(BEST, ACCEPT)
        used.link.change(NO_COMPRESSION, 0.0)
        assert used.levels == [BEST, FAST] and used.link.level == UNSUPPORTED
        assert not used.link.change(wanted(OFF), 0.0)
