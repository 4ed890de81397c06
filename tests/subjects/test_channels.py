"""
The names of NATS Streaming.
"""

from __future__ import annotations

import pytest

from natsbroker.subjects.channels import LONGEST_CHANNEL, RequestSubjects, isChannel, isClientID


@pytest.mark.parametrize("text", ["a", "A-b_9", "-", "x" * 1000])
def test_clientIDs(text: str) -> None:
    """Letters, digits, hyphens and underscores make a client id."""
    assert isClientID(text)


@pytest.mark.parametrize("text", ["", "a.b", "a b", "a\n", "\xe9", "a/b", "*", "a\0"])
def test_notClientIDs(text: str) -> None:
    """Any other text is not a client id."""
    assert not isClientID(text)


@pytest.mark.parametrize("name", [b"foo", b"foo.bar", b"a-b_c", "\xe9".encode(), b"x" * 300])
def test_channels(name: bytes) -> None:
    """A channel's name consists of tokens with full stops between."""
    assert isChannel(name)


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b".",
        b".foo",
        b"foo.",
        b"foo..bar",
        b"foo/bar",
        b"../etc",
        b"*",
        b">",
        b"foo.*",
        b"foo.>",
        b"foo*",
        b"a>b",
        b"foo bar",
        b"foo\0",
        b"foo\r\nPUB",
        b"x" * (LONGEST_CHANNEL + 1),
    ],
)
def test_notChannels(name: bytes) -> None:
    """Wildcards, slashes, blanks, control characters and endless names are refused."""
    assert not isChannel(name)


class TestSubjects:
    """L{Subjects}."""

    def test_subjects(self) -> None:
        """The subjects are those that nats-streaming-server sends to its clients."""
        subjects = RequestSubjects("c")
        assert subjects.discover == b"_STAN.discover.c"
        assert subjects.pings == b"_STAN.discover.c.pings"
        assert subjects.publish == b"_STAN.pub.c"
        assert subjects.subscribe == b"_STAN.sub.c"
        assert subjects.unsubscribe == b"_STAN.unsub.c"
        assert subjects.subClose == b"_STAN.subclose.c"
        assert subjects.close == b"_STAN.close.c"

    def test_discoverPrefix(self) -> None:
        """The discover subject can have a prefix of its own."""
        assert RequestSubjects("c", "my.prefix").discover == b"my.prefix.c"

    @pytest.mark.parametrize(
        ("cluster", "prefix"), [("", "p"), ("a b", "p"), ("x" * 65, "p"), ("*", "p"), ("c", "p.>")]
    )
    def test_invalidNames(self, cluster: str, prefix: str) -> None:
        """A character that cannot stand in a subject is refused."""
        with pytest.raises(ValueError, match="invalid"):
            RequestSubjects(cluster, prefix)
