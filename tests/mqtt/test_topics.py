"""Topics of MQTT as subjects of NATS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.mqtt.topics import TopicError, TopicFilter, filterOf, subjectOf, topicOf
from natsbroker.subjects.grammar import isValidLiteral

#: Topics with their subjects. tests/interop/mqtt/test_topics.py asks nats-server for the same.
TOPICS = [
    ("foo", b"foo"),
    ("foo/bar", b"foo.bar"),
    ("/", b"/./"),
    ("//", b"/././"),
    ("/foo", b"/.foo"),
    ("foo/", b"foo./"),
    ("foo//", b"foo././"),
    ("foo//bar", b"foo./.bar"),
    ("foo///bar", b"foo././.bar"),
    ("/foo/bar/", b"/.foo.bar./"),
    ("foo.bar", b"foo//bar"),
    (".", b"//"),
    ("..", b"////"),
    ("./.", b"//.//"),
    ("/.", b"/.//"),
    ("foo./bar", b"foo//.bar"),
    ("foo/.bar", b"foo.//bar"),
    ("$SYS/x", b"$SYS.x"),
    ("grün/ß", "grün.ß".encode()),
    ("a*b/c>d", b"a*b.c>d"),
]

#: Filters with what is subscribed to.
FILTERS = [
    ("foo/bar", (b"foo.bar",)),
    ("#", (b">",)),
    ("+", (b"*",)),
    ("foo/#", (b"foo.>", b"foo")),
    ("/#", (b"/.>", b"/")),
    ("+/#", (b"*.>", b"*")),
    ("+/+", (b"*.*",)),
    ("foo/+/bar", (b"foo.*.bar",)),
    ("/+", (b"/.*",)),
    ("+/", (b"*./",)),
    ("foo.bar/#", (b"foo//bar.>", b"foo//bar")),
]


class TestSubjects:
    """Topics to subjects, and back."""

    @pytest.mark.parametrize(("topic", "subject"), TOPICS)
    def test_bothWays(self, topic: str, subject: bytes) -> None:
        """A topic has a subject, and the subject has the topic."""
        assert subjectOf(topic) == subject
        assert topicOf(subject) == topic.encode()

    @given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1))
    def test_anyTopic(self, topic: str) -> None:
        """A topic that has a subject has one of its own."""
        try:
            subject = subjectOf(topic)
        except TopicError:
            return
        assert isValidLiteral(subject)
        if not set(topic) & set("+#"):
            assert topicOf(subject) == topic.encode()

    @pytest.mark.parametrize(
        "topic", ["a b", "a\tb", "a\nb", "a\rb", "\x01", "a/\x7f", "a/*", "*/a", "a/>", ">"]
    )
    def test_noSubject(self, topic: str) -> None:
        """A topic with blanks, control characters or wildcards of NATS has no subject."""
        with pytest.raises(TopicError):
            subjectOf(topic)

    @pytest.mark.parametrize("subject", [b"\xff", b"a.\xed\xa0\x80", b"a.#", b"+", b"a+b"])
    def test_noTopic(self, subject: bytes) -> None:
        """A subject that is not UTF-8, or has wildcards of MQTT, has no topic."""
        assert topicOf(subject) == b""

    @pytest.mark.parametrize(("subject", "topic"), [(b"a/b", b"ab"), (b"a/b.c", b"ab/c")])
    def test_lostSlash(self, subject: bytes, topic: bytes) -> None:
        """A slash within a token is lost."""
        assert topicOf(subject) == topic


class TestFilters:
    """Filters of subscriptions."""

    @pytest.mark.parametrize(("text", "subjects"), FILTERS)
    def test_subjects(self, text: str, subjects: tuple[bytes, ...]) -> None:
        """A filter is one subject, or two if it ends with C{#}."""
        assert filterOf(text) == TopicFilter(subjects)

    @pytest.mark.parametrize(
        "text",
        ["", "a/#/b", "#/a", "a#", "a+", "+a/b", "a/b#", "##", "a b", "a/*", ">", "a/\x7f", "*/b"],
    )
    def test_malformed(self, text: str) -> None:
        """Wildcards have a level of their own, and C{#} is the last one."""
        with pytest.raises(TopicError):
            filterOf(text)

    def test_shared(self) -> None:
        """A shared subscription names its queue group."""
        assert filterOf("$share/g/a/#") == TopicFilter((b"a.>", b"a"), b"g")
        assert filterOf("$share/g//a").subjects == (b"/.a",)
        assert filterOf("$share/g/a", mayShare=False) == TopicFilter((b"$share.g.a",))

    @pytest.mark.parametrize(
        "text", ["$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a"]
    )
    def test_noGroup(self, text: str) -> None:
        """A shared subscription without a group or a filter is malformed."""
        with pytest.raises(TopicError):
            filterOf(text)

    @pytest.mark.parametrize(
        ("text", "isHiding"), [("#", True), ("+/a", True), ("$SYS/#", False), ("a/#", False)]
    )
    def test_reserved(self, text: str, isHiding: bool) -> None:
        """Topics with a dollar do not match if the first level of the filter is a wildcard."""
        assert filterOf(text).hidesReserved is isHiding
