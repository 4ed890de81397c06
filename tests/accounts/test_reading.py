"""
Tests for L{natsbroker.accounts.reading}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.accounts import (
    Latency,
    MappingDestination,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    SubjectMapping,
)
from tests.config.support import complaintsOf, settingsOf


def exported(text: str) -> tuple[object, ...]:
    """
    @return: the exports of an account A, beside accounts B and C.
    """
    settings = settingsOf(f"accounts {{ A {{ exports: [ {text} ] }}, B {{}}, C {{}} }}")
    return settings.accounts["A"].exports


def imported(text: str, exports: str) -> tuple[object, ...]:
    """
    @return: the imports of an account B from an account A.
    """
    settings = settingsOf(
        f"accounts {{ A {{ exports: [ {exports} ] }}, B {{ imports: [ {text} ] }} }}"
    )
    return settings.accounts["B"].imports


class TestMappings:
    """C{mappings}."""

    def test_forms(self) -> None:
        """A mapping leads to a subject, to a share of the messages, or to several."""
        settings = settingsOf(
            """
            mappings {
                a: b
                "c.*": {dest: "d.$1", weight: 30%}
                e: [ {destination: f, weight: 20}, {dest: g, weight: 80, cluster: h} ]
            }
            """
        )
        assert settings.mappings == (
            SubjectMapping("a", (MappingDestination("b"),)),
            SubjectMapping("c.*", (MappingDestination("d.$1", 30),)),
            SubjectMapping("e", (MappingDestination("f", 20), MappingDestination("g", 80, "h"))),
        )

    def test_account(self) -> None:
        """Each account has its own mappings."""
        settings = settingsOf("accounts { A { maps { a: b } } }")
        assert settings.mappings == ()
        assert settings.accounts["A"].mappings == (SubjectMapping("a", (MappingDestination("b"),)),)

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            (
                'mappings {\n "a.>": b }',
                's.conf:2:2: mappings.a.>: Error adding mapping for "a.>" to "b" : '
                "invalid subject in b",
            ),
            (
                "mappings {\n a: [ {dest: b, weight: 60}, {dest: c, weight: 60} ] }",
                's.conf:2:2: mappings.a: Error adding mapping for "a" : '
                "total weight needs to be <= 100",
            ),
            ("mappings {\n a: [] }", "s.conf:2:2: mappings.a: a mapping needs a destination"),
            (
                "mappings { a: [\n {weight: 5} ] }",
                "s.conf:2:2: mappings.a[0]: a mapping needs a destination",
            ),
            (
                "mappings { a: [\n {dest: b} ] }",
                's.conf:2:2: mappings.a[0]: Missing weight for mapping destination "b"',
            ),
            (
                'accounts { A {\n mappings {\n "a..b": c } } }',
                's.conf:3:2: accounts.A.mappings.a..b: Subject "a..b" is not a valid subject',
            ),
        ],
    )
    def test_mistakes(self, text: str, complaint: str) -> None:
        """An impossible export or import is reported at its place."""
        assert complaintsOf(text) == [complaint]

    def test_oneComplaint(self) -> None:
        """An invalid weight is reported once."""
        assert complaintsOf("mappings { a: [ {dest: b, weight: x} ] }") == [
            's.conf:1:27: mappings.a[0].weight: "x" is not a percentage'
        ]


class TestExports:
    """C{exports}."""

    def test_streams(self) -> None:
        """A stream is exported to all accounts, to some, or to those that its subject names."""
        assert exported(
            '{stream: a}, {stream: b, accounts: [B, C]}, {stream: "c.*", account_token_position: 2}'
        ) == (StreamExport("a"), StreamExport("b", ("B", "C")), StreamExport("c.*", None, 2))

    def test_services(self) -> None:
        """
        An exported service has a response type, a threshold and the accounts that may import it.
        """
        assert exported(
            '{service: a}, {service: b, response: Stream, threshold: "5s", allow_trace: true},'
            "{service: c, response_type: chunk, accounts: [B]}"
        ) == (
            ServiceExport("a"),
            ServiceExport("b", response_type="stream", response_threshold=5.0, allow_trace=True),
            ServiceExport("c", ("B",), response_type="chunked"),
        )

    @pytest.mark.parametrize(
        ("text", "latency"),
        [
            ("x", Latency("x")),
            ("{subject: x}", Latency("x")),
            ("{subject: x, sampling: 5%}", Latency("x", 5)),
            ("{subject: x, sampling: 100}", Latency("x", 100)),
            ("{subject: x, sampling: Headers}", Latency("x", 0)),
        ],
    )
    def test_latency(self, text: str, latency: Latency) -> None:
        """
        Latency is sampled for all requests, for a share of them, or for those whose headers ask for
        it.
        """
        assert exported(f"{{service: a, latency: {text}}}") == (
            ServiceExport("a", latency=latency),
        )

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("{}", ": names neither a stream nor a service"),
            ("{accounts: [B]}", ": names neither a stream nor a service"),
            (
                "{service: a, stream: b}",
                ".stream: Detected stream but already saw a service",
            ),
            ("{stream: a, accounts: []}", ".accounts: an empty list of accounts exports to nobody"),
            ("{stream: 'a..b'}", ': subject "a..b" is not a valid subject'),
            (
                "{stream: a, threshold: '1s'}",
                ".response_threshold: Detected response directive on non-service",
            ),
            (
                "{threshold: '1s', stream: a}",
                ".response_threshold: Detected response directive on non-service",
            ),
            ("{service: a, threshold: '-1s'}", ".response_threshold: is negative"),
            ("{service: a, account_token_position: -1}", ".account_token_position: is negative"),
            (
                "{service: a, latency: {subject: x, sampling: 0}}",
                ".latency.sampling: bad sampling percentage, should be 1-100",
            ),
            (
                "{service: a, latency: {sampling: 1}}",
                ".latency: Latency subject required, but missing",
            ),
        ],
    )
    def test_mistakes(self, text: str, complaint: str) -> None:
        """A mistake in an account's block is reported, and nothing else is."""
        (problem,) = complaintsOf(f"accounts {{ B {{}}, A {{ exports: [ {text} ] }} }}")
        assert f"accounts.A.exports[0]{complaint}" in problem


class TestImports:
    """C{imports}."""

    def test_streams(self) -> None:
        """A stream is imported under its own subjects, with a prefix, or under other subjects."""
        imports = imported(
            """
            {stream: {account: A, subject: "a.>"}, share: true}
            {stream: {account: A, subject: "b.>"}, prefix: "x"}
            {stream: {account: A, subject: "c.>"}, prefix: "x.y."}
            {stream: {account: A, subject: "d.*"}, to: "z.$1", allow_trace: true}
            """,
            '{stream: ">"}',
        )
        assert imports == (
            StreamImport("A", "a.>", "a.>"),
            StreamImport("A", "b.>", "x.b.>"),
            StreamImport("A", "c.>", "x.y.c.>"),
            StreamImport("A", "d.*", "z.$1", allow_trace=True),
        )

    def test_services(self) -> None:
        """
        A service is imported under its own subject or under another one. A prefix has no effect.
        """
        imports = imported(
            """
            {service: {account: A, subject: "a"}, prefix: x}
            {service: {account: A, subject: "b"}, to: "c", share: true}
            """,
            '{service: ">"}',
        )
        assert imports == (
            ServiceImport("A", "a", "a"),
            ServiceImport("A", "b", "c", share=True),
        )

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("{to: b}", ": names neither a stream nor a service"),
            ("{stream: {account: A}}", ".stream: Expect an account name and a subject"),
            ("{stream: {account: A, subject: a}, prefix: b, to: c}", ".to: Stream import can not"),
            ("{to: c, prefix: b, stream: {account: A, subject: a}}", ".to: Stream import can not"),
            (
                "{stream: {account: A, subject: a}, prefix: 'b.*'}",
                ': Error adding stream import "a": stream import prefix can not contain wildcard',
            ),
            (
                "{allow_trace: true, service: {account: A, subject: a}}",
                ".allow_trace: Detected allow_trace directive on a non-stream",
            ),
            ("{stream: {account: A, subject: 'a..b'}}", '.stream: subject "a..b" is not a valid'),
        ],
    )
    def test_mistakes(self, text: str, complaint: str) -> None:
        """A mistake in a list of mappings is reported, and nothing else is."""
        (problem,) = complaintsOf(
            "accounts { A { exports: [ {stream: a}, {service: a} ] },"
            f"B {{ imports: [ {text} ] }} }}"
        )
        assert f"accounts.B.imports[0]{complaint}" in problem

    def test_places(self) -> None:
        """
        A mismatch of exports and imports is reported at the import, wherever the export stands.
        """
        (problem,) = complaintsOf(
            "accounts {\n A { exports: [ {stream: a} ] }\n B {\n  imports: [\n"
            "   {stream: {account: A, subject: a}}\n   {stream: {account: A, subject: b}}\n"
            "  ]\n }\n}"
        )
        assert problem == (
            's.conf:6:4: accounts.B.imports[1]: Error adding stream import "b": '
            "stream import not authorized"
        )

    def test_otherErrorsFirst(self) -> None:
        """Exports and imports are compared only if nothing else is wrong with them."""
        (problem,) = complaintsOf(
            "bogus: 1\naccounts { B { imports: [ {stream: {account: A, subject: a}} ] } }"
        )
        assert 'unknown field "bogus"' in problem
