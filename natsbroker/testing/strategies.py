"""
Hypothesis strategies for subjects, patterns, messages and operations of clients. They are small and
related, so that subscriptions match messages. Everything is valid unless its name says otherwise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from hypothesis import strategies as st

__all__ = [
    "Chunk",
    "anyBytes",
    "connects",
    "literalSubjects",
    "operations",
    "patterns",
    "payloads",
    "queueNames",
    "scripts",
]

_TOKENS = st.sampled_from([b"a", b"b", b"c"])

#: Tokens without a meaning, of which some look as if they had one.
_ODD_TOKENS = st.sampled_from([b"*a", b"b>", b"**", b"$", "\u00f6".encode(), b"_INBOX", b"\xff"])


@dataclass(frozen=True)
class Chunk:
    client: int
    data: bytes


def literalSubjects() -> st.SearchStrategy[bytes]:
    tokens = st.one_of(_TOKENS, _TOKENS, _TOKENS, _ODD_TOKENS)
    return st.lists(tokens, min_size=1, max_size=4).map(b".".join)


def patterns() -> st.SearchStrategy[bytes]:
    tokens = st.one_of(_TOKENS, _TOKENS, st.just(b"*"), _ODD_TOKENS)
    heads = st.lists(tokens, min_size=1, max_size=3)
    tails = st.sampled_from([[], [], [b">"]])
    return st.builds(lambda head, tail: b".".join(head + tail), heads, tails) | st.just(b">")


def queueNames() -> st.SearchStrategy[bytes]:
    return st.sampled_from([b"", b"", b"", b"q", b"r"])


def payloads() -> st.SearchStrategy[bytes]:
    """Payloads, some of which look like lines of the protocol."""
    tricky = st.sampled_from([b"", b"\r\n", b"\r\nPING\r\n", b"PUB a 1\r\nx\r\n", b"x" * 300])
    return st.one_of(st.binary(max_size=12), tricky)


def connects() -> st.SearchStrategy[bytes]:
    """CONNECT lines with any of the options that change what a client gets."""
    flags = ("verbose", "pedantic", "echo", "headers", "no_responders")
    options = st.fixed_dictionaries({}, optional={flag: st.booleans() for flag in flags})
    quiet = {"verbose": False, "pedantic": False}
    chosen = st.one_of(options, options.map(lambda given: given | quiet))
    return chosen.map(lambda given: b"CONNECT %b\r\n" % json.dumps(given).encode())


def _publishes() -> st.SearchStrategy[bytes]:
    def pub(subject: bytes, reply: bytes, body: bytes, times: int) -> bytes:
        arguments = b" ".join([word for word in (subject, reply, b"%d" % len(body)) if word])
        return b"PUB %b\r\n%b\r\n" % (arguments, body) * times

    def hpub(subject: bytes, reply: bytes, header: bytes, body: bytes) -> bytes:
        sizes = b"%d %d" % (len(header), len(header) + len(body))
        arguments = b" ".join([word for word in (subject, reply, sizes) if word])
        return b"HPUB %b\r\n%b%b\r\n" % (arguments, header, body)

    replies = st.one_of(st.just(b""), st.just(b""), literalSubjects(), st.just(b"_R_.x"))
    headers = st.sampled_from([b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: 1\r\n\r\n", b"x"])
    subjects = st.one_of(literalSubjects(), literalSubjects(), patterns())
    return st.one_of(
        st.builds(pub, subjects, replies, payloads(), st.integers(1, 4)),
        st.builds(hpub, subjects, replies, headers, payloads()),
    )


def operations(sids: int = 4) -> st.SearchStrategy[bytes]:
    """Whole operations of a client that has been let in, payloads included."""
    sid = st.integers(1, sids).map(b"%d".__mod__)

    def sub(pattern: bytes, queue: bytes, name: bytes) -> bytes:
        return b"SUB %b\r\n" % b" ".join([word for word in (pattern, queue, name) if word])

    def unsub(name: bytes, count: int) -> bytes:
        return b"UNSUB %b %d\r\n" % (name, count) if count else b"UNSUB %b\r\n" % name

    return st.one_of(
        _publishes(),
        _publishes(),
        _publishes(),
        st.builds(sub, patterns(), queueNames(), sid),
        st.builds(sub, patterns(), queueNames(), sid),
        st.builds(unsub, sid, st.integers(0, 5)),
        st.sampled_from([b"PING\r\n", b"PONG\r\n", b"ping\r\n", b"+OK\r\n"]),
    )


def scripts(clients: int = 3, steps: int = 12) -> st.SearchStrategy[list[Chunk]]:
    """
    The operations of several clients in turn. Each client begins with CONNECT. A step then has some
    operations, perhaps cut in the middle.

    @param steps: how many steps there are at most, beside the CONNECTs.
    """
    talk = st.lists(operations(), min_size=1, max_size=5).map(b"".join)

    def played(hellos: list[bytes], said: list[tuple[int, bytes, int]]) -> list[Chunk]:
        made = [Chunk(client, hello) for client, hello in enumerate(hellos)]
        for client, data, cut in said:
            parts = data[:cut], data[cut:]
            made += [Chunk(client, part) for part in parts if part]
        return made

    return st.builds(
        played,
        st.lists(connects(), min_size=clients, max_size=clients),
        st.lists(st.tuples(st.integers(0, clients - 1), talk, st.integers(0, 60)), max_size=steps),
    )


def anyBytes() -> st.SearchStrategy[bytes]:
    """Input that need not be valid, and is often almost valid."""
    words = st.sampled_from(
        [
            *b"PUB |HPUB |SUB |UNSUB |CONNECT |INFO |MSG |-ERR |+OK|PING|PONG|foo|a.b".split(b"|"),
            *b'1|12|-1|{}|null|{"verbose":| |\t|\r\n|\n|\r|\x00|\xff|999999999'.split(b"|"),
            b"x" * 40,
        ]
    )
    return st.one_of(
        st.binary(max_size=40),
        st.lists(st.one_of(words, operations(), st.binary(max_size=3)), max_size=10).map(b"".join),
    )
