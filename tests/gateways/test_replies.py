"""
Whose mapped reply subjects are.
"""

from __future__ import annotations

from natsbroker.gateways.replies import ReplyNames, newHash, oldHash

#: A server and its cluster, with what nats-server 2.15.1 calls them (seen on the wire).
SERVER = "NBVJR4V6NQ7R5LYY64LMXG7LUMFBTHFB3O6T6STIAIJP7GPPZRLH2WLH"
CLUSTER = "GA"


def test_newHash() -> None:
    """Six letters, those of nats-server."""
    assert newHash(CLUSTER) == b"F2cAWZ"
    assert newHash(SERVER) == b"lwpwmG"


def test_oldHash() -> None:
    """Four hexadecimal digits of the same digest."""
    assert oldHash(CLUSTER) == b"0fbc"
    assert len(oldHash("\u00e4")) == 4


def test_prefixes() -> None:
    """What is put in front of our own reply subjects, and how those of others begin."""
    names = ReplyNames(CLUSTER, SERVER)
    assert names.prefix == b"_GR_.F2cAWZ.lwpwmG."
    assert names.oldPrefix == b"$GR.%b." % oldHash(CLUSTER)
    assert names.answers == (b"_GR_.F2cAWZ.", names.oldPrefix) == ReplyNames.answersOf(CLUSTER)


def test_destination() -> None:
    """Ours, another member's of our cluster, or of another cluster."""
    names = ReplyNames(CLUSTER, SERVER)
    assert names.destination(b"_GR_.F2cAWZ.lwpwmG._INBOX.x") == (b"", b"_INBOX.x")
    assert names.destination(names.oldPrefix + b"_INBOX.x") == (b"", b"_INBOX.x")
    assert names.destination(b"_GR_.F2cAWZ.abcdef._INBOX.x") == (b"abcdef", b"_INBOX.x")
    assert names.destination(b"_GR_.abcdef.lwpwmG._INBOX.x") is None
    assert names.destination(b"$GR.ffff.x") is None
    assert names.destination(b"_INBOX.x") is None
