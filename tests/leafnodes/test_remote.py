"""
The order in which the addresses of a remote are dialled.
"""

from __future__ import annotations

from random import Random

from natsbroker.leafnodes.remote import LeafRemote
from natsbroker.leafnodes.terms import LeafRemoteTerms, LeafURL

A, B, C = LeafURL("a.example", 1, "u", "p"), LeafURL("10.0.0.2", 2), LeafURL("10.0.0.3", 3)


def remote(*urls: LeafURL, shuffled: bool = False) -> LeafRemote:
    """Somebody to dial."""
    return LeafRemote(LeafRemoteTerms(urls, "A", isShuffled=shuffled), Random(1))


def test_turns() -> None:
    """Every address has its turn."""
    target = remote(A, B, C)
    assert [target.next() for _ in range(4)] == [A, B, C, A]
    single = remote(A)
    assert [single.next() for _ in range(2)] == [A, A]


def test_shuffled() -> None:
    """The order is another one each time, unless it matters."""
    firsts = {
        LeafRemote(LeafRemoteTerms((A, B, C), "A"), Random(seed)).next() for seed in range(20)
    }
    assert firsts == {A, B, C}


def test_learned() -> None:
    """What the peer tells comes before what the settings say, each once."""
    target = remote(A)
    target.next()
    target.learn([C, LeafURL("a.example", 1)])
    assert target.urls == [C, A] and target.next() == C
    target.learn([])
    assert target.urls == [A]


def test_login() -> None:
    """An address without a user has the settings'."""
    target = remote(A)
    target.next()
    target.learn([C])
    target.next()
    assert target.login() == LeafURL("10.0.0.3", 3, "u", "p")
    plain = remote(B)
    plain.next()
    assert plain.login() == B


def test_name() -> None:
    """A certificate is for the name that was dialled, or for the first that there is."""
    target = remote(A, B)
    assert target.next() == A and target.name == "a.example"
    assert target.next() == B and target.name == "a.example"
    bare = remote(B)
    assert bare.next() == B and bare.name == "10.0.0.2"
    bare.learn([LeafURL("b.example", 5)])
    assert bare.next() and bare.name == "b.example"


def test_delay() -> None:
    """A delay holds once."""
    target = remote(A)
    target.delay = 30.0
    assert (target.takeDelay(), target.takeDelay()) == (30.0, 0.0)
