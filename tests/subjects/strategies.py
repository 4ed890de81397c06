"""
Hypothesis strategies for related subjects: few tokens, short subjects, and among the tokens the
ones that only look like wildcards.
"""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = [
    "DELIVERABLE",
    "LITERALS",
    "PATTERNS",
    "QUEUES",
    "STREAM_REPLIES",
    "TOKENS",
    "joined",
]

#: Tokens without a meaning, of which some look as if they had one.
TOKENS = st.sampled_from([b"a", b"b", b"c", b"*a", b"a*", b">b", b"b>", b"**", b">>", "ö".encode()])

#: The first three are the ones that matter most.
_COMMON = st.sampled_from([b"a", b"b", b"c"])


def joined(tokens: list[bytes]) -> bytes:
    """
    @return: the subject that has these tokens.
    """
    return b".".join(tokens)


#: Subjects without wildcards.
LITERALS = st.lists(_COMMON | _COMMON | TOKENS, min_size=1, max_size=5).map(joined)

#: Valid subjects, most of them with wildcards.
PATTERNS = st.builds(
    lambda tokens, last: joined(tokens + last),
    st.lists(_COMMON | st.just(b"*") | TOKENS, min_size=1, max_size=4),
    st.sampled_from([[], [], [b">"]]),
) | st.just(b">")

#: What a message may be published to: wildcards in it are taken literally.
DELIVERABLE = LITERALS | PATTERNS

#: Queue names, or patterns of them; none at all quite often.
QUEUES = st.just(b"") | st.sampled_from([b"q", b"v1.a", b"v1.b", b"v1.*", b"v1.>", b"*", b">"])

#: Replies of messages that a JetStream consumer behind a link sends: with the subject in the stream
#: behind an @, and some that only look so.
STREAM_REPLIES = st.sampled_from(
    [
        b"$JS.ACK.S.C.1.2.3.4.5@s.a",
        b"$JS.ACK.S@S.C@C.1.2.3.4.5@s@a",
        b"$JS.ACK.D.hash.S.C.1.2.3.4.5.x@s.a",
        b"$JS.ACK.S.C.1.2.3.4.5@",
        b"$JS.ACK.S.C.1.2.3.4@s.a",
    ]
)
