"""
Tests for L{natsbroker.config.blocks}.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.blocks import plainValues
from natsbroker.config.errors import NotSupportedYet, Position, UnknownField
from natsbroker.config.model import Settings
from natsbroker.config.settings.leafnodes import Leafnodes
from tests.config.support import readingOf


class TestValues:
    """Values in a block."""

    def test_types(self) -> None:
        """Each accessor returns the value in its type, or the default."""
        reading, findings = readingOf(
            "server_name: n, port: 5, debug: on, ping_interval: '1m', server_tags: [a, b], "
            "server_metadata {k: v}, tls {verify: true}"
        )
        assert findings.errors == []
        assert (reading.text("server_name"), reading.text("pidfile", "p")) == ("n", "p")
        assert (reading.integer("port"), reading.integer("ping_max", 7)) == (5, 7)
        assert (reading.flag("debug"), reading.flag("logtime", True)) == (True, True)
        assert (reading.seconds("ping_interval"), reading.seconds("write_deadline", 9.0)) == (60, 9)
        assert reading.texts("server_tags") == ("a", "b")
        assert reading.mapping("server_metadata", str) == {"k": "v"}
        tls = reading.block("tls")
        assert tls is not None
        assert tls.flag("verify")
        assert reading.block("cluster") is None

    def test_errorAt(self) -> None:
        """An error is at its key, or at the block if the key is missing."""
        reading, findings = readingOf("port: 1\ntls {\n verify: true }")
        tls = reading.block("tls")
        assert tls is not None
        findings.errorAt(tls, "verify", "no")
        findings.errorAt(tls, "ca_file", "none")
        assert [str(error) for error in findings.errors] == [
            "s.conf:3:2: tls.verify: no",
            "s.conf:2:1: tls.ca_file: none",
        ]

    def test_errorsAt(self) -> None:
        """Each of several errors is at its key."""
        reading, findings = readingOf("port: 1")
        findings.errorsAt(reading, [("port", "no"), ("host", "none")])
        assert [(error.path, error.message) for error in findings.errors] == [
            ("port", "no"),
            ("host", "none"),
        ]

    def test_blockOrEmpty(self) -> None:
        """A missing block is read as an empty one with its path."""
        reading, _ = readingOf("tls { verify: true }")
        assert reading.blockOrEmpty("tls") is reading.block("tls")
        empty = reading.blockOrEmpty("cluster")
        assert (empty.path, empty.position, empty.values) == ("cluster", reading.position, {})

    def test_zeroIsTheDefault(self) -> None:
        """A zero in the file stands for the default."""
        reading, _ = readingOf("port: 0, ping_interval: '0s'")
        assert (reading.integer("port", 4222), reading.seconds("ping_interval", 2.0)) == (4222, 2)

    def test_oneStringForMany(self) -> None:
        """A single string is accepted where a list of strings is expected."""
        reading, _ = readingOf("server_tags: a")
        assert reading.texts("server_tags") == ("a",)

    def test_aliases(self) -> None:
        """A value is read by its canonical name, under every spelling. The last one counts."""
        reading, _ = readingOf("MAX_CONN: 5\nmax_connections: 6")
        assert reading.integer("max_connections") == 6
        assert reading.place("max_connections") == Position("s.conf", 2, 1)

    def test_paths(self) -> None:
        """A block has its path, its position, and those of its keys."""
        reading, _ = readingOf("accounts { A { users: [ {user: a}, {user: b} ] } }")
        ((name, account),) = reading.named("accounts")
        second = account.blocks("users")[1]
        assert (name, account.path) == ("A", "accounts.A")
        assert second.pathTo("user") == "accounts.A.users[1].user"
        assert second.position == Position("s.conf", 1, 36)
        assert second.place("user") == Position("s.conf", 1, 37)
        assert second.place("pass") == second.position

    def test_recorded(self) -> None:
        """A block can be converted to plain values."""
        reading, _ = readingOf("cluster { name: c, tls {verify: true}, accounts: [a] }")
        expected = {"name": "c", "tls": {"verify": True}, "accounts": ["a"]}
        assert plainValues(reading.values["cluster"]) == expected


class TestErrors:
    """Errors of a block."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("port: a", "s.conf:1:1: port: expected an integer, got a string"),
            ("port: yes", "s.conf:1:1: port: expected an integer, got a boolean"),
            ("debug: 1", "s.conf:1:1: debug: expected a boolean, got an integer"),
            ("server_name: 12", "s.conf:1:1: server_name: expected a string, got an integer"),
            ("tls: [a]", "s.conf:1:1: tls: expected a map, got an array"),
            (
                "server_tags: [a, {}]",
                "s.conf:1:18: server_tags[1]: expected a string, got a map",
            ),
            (
                "server_metadata { a: 1 }",
                "s.conf:1:19: server_metadata.a: expected a string, got an integer",
            ),
            (
                "ping_interval: '1d'",
                's.conf:1:1: ping_interval: time: unknown unit "d" in duration "1d"',
            ),
            (
                "ping_interval: 1.5",
                "s.conf:1:1: ping_interval: expected a duration or an integer of seconds, "
                "got a float",
            ),
            ("http: nowhere", 's.conf:1:1: http: could not parse address string "nowhere"'),
        ],
    )
    def test_types(self, text: str, message: str) -> None:
        """A value of a wrong type is reported with position and path."""
        _, findings = readingOf(text)
        assert [str(error) for error in findings.errors] == [message]

    def test_unknown(self) -> None:
        """An unknown key is reported in every block."""
        _, findings = readingOf("a: 1\ntls { b: 2 }\naccounts { A { limits { c: 3 } } }")
        assert [type(error) for error in findings.errors] == [UnknownField] * 3
        assert [error.path for error in findings.errors] == [
            "tls.b",
            "accounts.A.limits.c",
            "a",
        ]

    def test_usedKeysNeedNotBeKnown(self) -> None:
        """A key that a reference uses may have any name, except in C{tls}."""
        _, findings = readingOf("x: 5\nport: $x\nauthorization { y: a, user: $y }")
        assert findings.errors == []
        _, findings = readingOf("tls { x: cert.pem, cert_file: $x }")
        assert [error.path for error in findings.errors] == ["tls.x"]

    def test_usedAccountsAreNone(self) -> None:
        """A key in C{accounts} that a reference uses is not an account."""
        text = "accounts { P { publish: a }, A { default_permissions: $P } }"
        reading, findings = readingOf(text)
        assert findings.errors == []
        assert [name for name, _ in reading.named("accounts")] == ["A"]

    def test_opener(self) -> None:
        """
        A block that names a plugin keeps unknown keys for the plugin. In other blocks they are
        errors.
        """
        reading, findings = readingOf("router { x: [1, {y: z} ], plugin: p }")
        router = reading.block("router")
        assert findings.errors == []
        assert router is not None
        assert router.others == {"x": [1, {"y": "z"}]}
        _, findings = readingOf("router { x: 1 }")
        assert [error.path for error in findings.errors] == ["router.x"]

    def test_notSupportedYet(self) -> None:
        """A key of an unsupported feature is read, checked and reported."""
        reading, findings = readingOf("jetstream { tpm { keys_file: c, pcr: x } }")
        tpm = reading.blockOrEmpty("jetstream").block("tpm")
        assert tpm is not None
        assert tpm.text("keys_file") == "c"
        assert [type(error).__name__ for error in findings.errors] == [
            "ConfigError",
            "NotSupportedYet",
        ]

    def test_notSupportedYetInside(self) -> None:
        """A key of an unsupported feature is reported inside named entries and lists too."""
        _, findings = readingOf("leafnodes { remotes: [ {tls { cert_store: x }}, {url: b} ] }")
        (error,) = findings.errors
        assert isinstance(error, NotSupportedYet)
        path = "leafnodes.remotes[0].tls.cert_store"
        assert str(error) == f"s.conf:1:31: {path}: not supported yet (certificate stores)"

    def test_oldDuration(self) -> None:
        """A bare number of seconds is read with nats-server's warning."""
        reading, findings = readingOf("write_deadline: 5")
        assert reading.seconds("write_deadline") == 5.0
        assert [str(warning) for warning in findings.warnings] == [
            's.conf:1:1: invalid use of field "write_deadline": '
            "write_deadline should be converted to a duration"
        ]


@given(
    st.dictionaries(
        st.sampled_from(["port", "tls", "accounts", "authorization", "cluster", "users", "bogus"]),
        st.recursive(
            st.sampled_from(["1", "a", "true", "1.5", "'2m'", "2020-01-02T03:04:05Z"]),
            lambda inner: (
                st.lists(inner, max_size=3).map(lambda items: f"[{' , '.join(items)} ]")
                | st.dictionaries(
                    st.sampled_from(
                        ["users", "user", "permissions", "publish", "A", "limits", "tls"]
                    ),
                    inner,
                    max_size=3,
                ).map(lambda keys: "{" + ", ".join(f"{k}: {v} " for k, v in keys.items()) + "}")
            ),
            max_leaves=12,
        ),
        max_size=4,
    )
)
def test_anyTree(keys: dict[str, str]) -> None:
    """Values of any kind give settings or errors, and no exception."""
    _, findings = readingOf("\n".join(f"{key}: {value}" for key, value in keys.items()))
    assert all(str(error).startswith("s.conf:") for error in findings.errors)


def test_fieldsOf() -> None:
    """Keys set the fields that their rows name. A number 0 is omitted, or included on request."""
    root, _ = readingOf(
        "ping_max: 0, server_tags: a, server_metadata { b: c }, listen: 5, max_payload: 7, "
        "leafnodes { isolate: true, authorization { pass: p } }"
    )
    expected = {"max_payload": 7, "server_tags": ("a",), "server_metadata": {"b": "c"}}
    assert root.fieldsOf(Settings) == expected
    assert root.fieldsOf(Settings, zeros=True) == {**expected, "ping_max": 0}
    block = root.blockOrEmpty("leafnodes")
    assert block.fieldsOf(Leafnodes) == {"isolate": True}
    assert block.blockOrEmpty("authorization").fieldsOf(Leafnodes) == {"password": "p"}
