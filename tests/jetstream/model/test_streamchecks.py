"""
The rules of a stream's configuration that need no other request. The answers of nats-server to many
more are in L{tests.jetstream.model.test_streamupdates}.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import ConfiguredLimits, JetStreamLimits
from natsbroker.jetstream.model.streamchecks import StreamChecker, checkCreateRequest
from natsbroker.jetstream.model.streamconfig import Placement, StorageType, StreamConfig
from natsbroker.steps import finish

_SECOND = 1_000_000_000


def test_completeTwice() -> None:
    """A complete configuration stays as it is."""
    checker = StreamChecker({})
    once = finish(
        checker.complete(StreamConfig(name="S", allow_msg_schedules=True, deny_purge=True))
    )
    assert finish(checker.complete(once, pedantic=True)) == once
    assert once.allow_rollup_hdrs
    assert not once.deny_purge


def test_duplicateWindow() -> None:
    """The server's limit bounds the default and what a request asks for."""
    checker = StreamChecker({}, server=ConfiguredLimits(duplicate_window=60 * _SECOND))
    assert finish(checker.complete(StreamConfig(name="S"))).duplicate_window == 60 * _SECOND
    with pytest.raises(JetStreamError, match="can not be larger then server limit of 1m0s"):
        finish(checker.complete(StreamConfig(name="S", duplicate_window=61 * _SECOND)))
    with pytest.raises(JetStreamError, match="limits are higher than current limits"):
        finish(checker.complete(StreamConfig(name="S"), pedantic=True))


def test_maxBytes() -> None:
    """An account may require a size, and bound it for each storage."""
    limits = JetStreamLimits(
        memory_max_stream_bytes=10, storage_max_stream_bytes=20, max_bytes_required=True
    )
    checker = StreamChecker({}, limits)
    with pytest.raises(JetStreamError, match="account requires a stream config to have max bytes"):
        finish(checker.complete(StreamConfig(name="S")))
    assert finish(checker.complete(StreamConfig(name="S", max_bytes=20))).max_bytes == 20
    with pytest.raises(JetStreamError, match="exceeds account limit max stream bytes"):
        finish(checker.complete(StreamConfig(name="S", max_bytes=11, storage=StorageType.MEMORY)))


def test_emptyPlacement() -> None:
    """A placement that says nothing is left out."""
    config = finish(StreamChecker({}).complete(StreamConfig(name="S", placement=Placement())))
    assert config.placement is None


@pytest.mark.parametrize(
    ("subjects", "text"),
    [
        (("a.>", "a..b"), 'subject "a.>" overlaps with "a..b"'),
        (("a.*", "a."), "invalid subject"),
        ((">", "x."), 'subject ">" overlaps with "x."'),
        (("a.*.b", "a..b"), "invalid subject"),
        (("a.b.>", "a..c.d"), "invalid subject"),
        (("a.b", "a.>.b"), 'subject "a.b" overlaps with "a.>.b"'),
        (("a.*", "a.>.b"), "invalid subject"),
        (("a.>", "a.>.b"), 'subject "a.>" overlaps with "a.>.b"'),
        (("a.*.c", "a.>.b"), "invalid subject"),
        (("a.*.b", "a.>.b"), 'subject "a.*.b" overlaps with "a.>.b"'),
        (("*", "a b"), 'subject "*" overlaps with "a b"'),
        (("a", "*..b"), "invalid subject"),
        (("*.c.>", "*..b"), "invalid subject"),
    ],
)
def test_unfinishedSubjects(subjects: tuple[str, ...], text: str) -> None:
    """A subject is compared with the later ones before those are checked themselves."""
    with pytest.raises(JetStreamError) as caught:
        finish(StreamChecker({}).complete(StreamConfig(name="S", subjects=subjects, no_ack=True)))
    assert caught.value.description == text


def test_pathSeparators() -> None:
    """A name that could be a path is refused in its own words."""
    with pytest.raises(JetStreamError, match="Stream name can not contain path separators"):
        checkCreateRequest(StreamConfig(name="a/b"), "a/b")
