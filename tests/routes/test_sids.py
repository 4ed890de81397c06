"""
Sids on a classic route.
"""

from __future__ import annotations

import pytest

from natsbroker.routes.sids import LocalSids, RemoteSids


class TestTold:
    """The knowledge of a peer about this member."""

    def test_sidOfAPattern(self) -> None:
        """A pattern has one sid for all its subscriptions. A sid is not used again."""
        told = LocalSids(lambda: 0.0)
        assert list(told.gained(b"foo", b"", 5)) == [b"SUB foo  RSID:1:1\r\n"]
        assert list(told.gained(b"bar", b"", 1)) == [b"SUB bar  RSID:2:1\r\n"]
        assert list(told.lost(b"foo", b"")) == [b"UNSUB RSID:1:1\r\n"]
        assert list(told.gained(b"foo", b"", 1)) == [b"SUB foo  RSID:3:1\r\n"]
        assert len(told) == 0

    def test_group(self) -> None:
        """A queue group has one sid for each of its members."""
        told = LocalSids(lambda: 0.0)
        assert list(told.gained(b"foo", b"q", 2)) == [
            b"SUB foo q QRSID:1:1\r\n",
            b"SUB foo q QRSID:1:2\r\n",
        ]
        assert list(told.gained(b"foo", b"q", 3)) == [b"SUB foo q QRSID:1:3\r\n"]
        assert list(told.gained(b"foo", b"q", 1)) == [
            b"UNSUB QRSID:1:3\r\n",
            b"UNSUB QRSID:1:2\r\n",
        ]
        assert list(told.lost(b"foo", b"q")) == [b"UNSUB QRSID:1:1\r\n"]

    def test_sameInterestHasTheSameSids(self) -> None:
        """Interest that is sent again has the same sids."""
        told = LocalSids(lambda: 0.0)
        lines = list(told.gained(b"foo", b"q", 2)) + list(told.gained(b"bar", b"", 1))
        assert list(told.gained(b"foo", b"q", 2)) + list(told.gained(b"bar", b"", 1)) == lines

    def test_mostMembers(self) -> None:
        """A queue group is announced with a limited number of members."""
        told = LocalSids(lambda: 0.0)
        lines = list(told.gained(b"foo", b"q", 1 << 30))
        assert len(lines) == len(set(lines)) == 128
        assert list(told.gained(b"foo", b"q", 1 << 20)) == []
        assert list(told.gained(b"foo", b"q", 127)) == [b"UNSUB QRSID:1:128\r\n"]
        assert list(told.gained(b"foo", b"q", 129)) == [b"SUB foo q QRSID:1:128\r\n"]
        assert len(list(told.lost(b"foo", b"q"))) == 128

    def test_memory(self) -> None:
        """The sids of a queue group that has ended are remembered for half a minute."""
        now = [0.0]
        told = LocalSids(lambda: now[0])
        list(told.gained(b"foo", b"q", 1))
        assert told.group(b"QRSID:1:1") == b"q"
        list(told.lost(b"foo", b"q"))
        now[0] = 29.9
        assert told.group(b"QRSID:1:7") == b"q"
        now[0] = 30.0
        assert told.group(b"QRSID:1:1") == b"" and len(told) == 0

    @pytest.mark.parametrize("sid", [b"QRSID:2:1", b"QRSID", b"QRSID:x:1", b"RSID:1:1"])
    def test_unknown(self, sid: bytes) -> None:
        """An unknown sid belongs to no group."""
        told = LocalSids(lambda: 0.0)
        list(told.gained(b"foo", b"q", 1))
        assert told.group(sid) == b""


class TestHeard:
    """The interest that a peer has sent."""

    def test_add(self) -> None:
        """A sid means one pattern until it is withdrawn."""
        heard = RemoteSids()
        assert heard.add(b"RSID:1:1", b"foo", b"")
        assert not heard.add(b"RSID:1:1", b"bar", b"")
        assert (heard.weight(b"foo", b""), heard.weight(b"bar", b"")) == (1, 0)
        known = heard.get(b"RSID:1:1")
        assert known is not None
        heard.remove(known)
        assert heard.get(b"RSID:1:1") is None and len(heard) == 0
        assert heard.add(b"RSID:1:1", b"bar", b"")

    def test_choose(self) -> None:
        """Members of a queue group are chosen in turn. Of plain sids, the oldest is chosen."""
        heard = RemoteSids()
        for sid in (b"1", b"2", b"3"):
            heard.add(sid, b"foo", b"q")
            heard.add(b"p" + sid, b"foo", b"")
        assert [heard.choose(b"foo", b"q").sid for _ in range(6)] == [b"1", b"2", b"3"] * 2
        assert {heard.choose(b"foo", b"").sid for _ in range(3)} == {b"p1"}
        with pytest.raises(KeyError):
            heard.choose(b"bar", b"")

    def test_maximum(self) -> None:
        """A maximum includes messages that were sent before it was set."""
        heard = RemoteSids()
        heard.add(b"1", b"foo", b"")
        one = heard.choose(b"foo", b"")
        one.sent = 2
        assert not one.isFull
        one.maximum = 3
        assert not one.isFull
        one.sent += 1
        assert one.isFull

    def test_clear(self) -> None:
        """No data is left of a peer that has disconnected."""
        heard = RemoteSids()
        heard.add(b"1", b"foo", b"q")
        heard.clear()
        assert len(heard) == 0 and heard.weight(b"foo", b"q") == 0
