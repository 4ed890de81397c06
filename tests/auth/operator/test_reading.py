"""Tests for L{natsbroker.auth.operator.reading}, and for settings that exclude operators."""

from __future__ import annotations

import pytest

from natsbroker.config.model import OperatorMode, Resolver
from tests.auth.operator.keys import ACCOUNT, USER
from tests.config.support import built, complaintsOf, filesystem, settingsOf

OPERATOR = "ODWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435DILF"


def modeOf(text: str) -> OperatorMode:
    """The operator mode's settings of a configuration."""
    return settingsOf(text).operator


def resolverOf(text: str) -> Resolver | None:
    """The resolver of a configuration."""
    return modeOf(f"resolver: {text}").resolver


def test_noOperatorsByDefault() -> None:
    """By default there are no operators."""
    assert modeOf("port: 4222") == OperatorMode()


def test_inline() -> None:
    """A JWT may stand in the file itself."""
    assert modeOf("operator: eyJx.y.z").operators == ("eyJx.y.z",)
    assert modeOf("operators: [eyJa, eyJb]").operators == ("eyJa", "eyJb")


def test_files() -> None:
    """An operator's JWT may be in a file, which is read."""
    files = filesystem({"op.jwt": "-----\neyJx\n-----"})
    assert built("operator: op.jwt", files).settings.operator.operators == ("-----\neyJx\n-----",)


def test_missingFile() -> None:
    """A file that cannot be read is an error."""
    assert complaintsOf("operator: op.jwt") == [
        "s.conf:1:1: operator: error parsing operator JWT: open op.jwt: no such file or directory"
    ]


def test_trustedKeys() -> None:
    """Operators may be named by their keys."""
    mode = modeOf(f"trusted_keys: {OPERATOR}")
    assert mode.trusted_keys == (OPERATOR,) and mode.isOn
    assert modeOf(f"trusted: [{OPERATOR}]").trusted_keys == (OPERATOR,)
    (complaint,) = complaintsOf(f"trusted_keys: {ACCOUNT}")
    assert "required to be a valid public operator nkey" in complaint


@pytest.mark.parametrize("text", ["MEMORY", "MEM", "memory", '"MEM "', "{type: mem}"])
def test_memory(text: str) -> None:
    """The memory resolver has the JWTs of the configuration."""
    assert resolverOf(text) == Resolver("memory")


@pytest.mark.parametrize(
    "text",
    ["URL(http://a:1/jwt/)", "url(http://a:1/jwt/)", "'URL( \"http://a:1/jwt/\" )'"],
)
def test_url(text: str) -> None:
    """The URL resolver fetches JWTs over HTTP."""
    assert resolverOf(text) == Resolver("url", "http://a:1/jwt/")


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "URL()",
        "URL(ftp://a)",
        "URL(a)",
        "URL(http://)",
        "'URL(http://a) x'",
        "{}",
        "{dir: a}",
        "{type: full}",
        "{type: other, dir: a}",
        "{type: full, dir: a, ttl: '1h'}",
        "{type: full, dir: a, hard_delete: true}",
        "{type: full, dir: a, limit: -1}",
        "{type: full, dir: a, timeout: '-1s'}",
        "{type: full, dir: a, interval: '-1s'}",
    ],
)
def test_notResolvers(text: str) -> None:
    """An unknown resolver, or a resolver without a required value, is an error."""
    (complaint,) = complaintsOf(f"resolver: {text}")
    assert "resolver" in complaint


def test_cache() -> None:
    """The cache resolver keeps JWTs in a folder for a time."""
    assert resolverOf("{type: CACHE, dir: a, limit: 5, ttl: '2h', timeout: '3s'}") == Resolver(
        "cache", dir="a", limit=5, ttl=7200.0, timeout=3.0
    )


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("interval: '1m'", "CACHE does not accept sync"),
        ("allow_delete: true", "CACHE does not accept allow_delete"),
        ("hard_delete: false", "CACHE does not accept hard_delete"),
        ("ttl: '-1s'", "is negative"),
    ],
)
def test_notForCaches(more: str, complaint: str) -> None:
    """A key of other resolvers is an error for a cache."""
    (problem,) = complaintsOf(f"resolver {{ type: cache, dir: a, {more} }}")
    assert complaint in problem


def test_folder() -> None:
    """The full resolver stores JWTs in a folder."""
    text = (
        "{type: FULL, dir: './jwt', allow_delete: true, hard_delete: true, limit: 5, timeout: '2s',"
        " interval: '30s'}"
    )
    assert resolverOf(text) == Resolver(
        "full",
        dir="./jwt",
        allow_delete=True,
        hard_delete=True,
        limit=5,
        interval=30.0,
        timeout=2.0,
    )


def test_preload() -> None:
    """JWTs of accounts may be in the configuration, by their keys."""
    text = f"operator: eyJ\nresolver: MEM\nresolver_preload {{ {ACCOUNT}: jwt }}"
    assert modeOf(text).resolver_preload == {ACCOUNT: "jwt"}
    (complaint,) = complaintsOf(f"resolver_preload {{ {USER}: jwt }}")
    assert "is not the public key of an account" in complaint


def test_pinned() -> None:
    """Accounts may be pinned. An empty list is not the same as a missing one."""
    assert modeOf("port: 1").resolver_pinned_accounts is None
    assert modeOf(f"resolver_pinned_accounts: [{ACCOUNT}]").resolver_pinned_accounts == (ACCOUNT,)
    assert modeOf("resolver_pinned_accounts: []").resolver_pinned_accounts == ()
    (complaint,) = complaintsOf("resolver_pinned_accounts: x")
    assert "is not a valid public account nkey" in complaint


def test_tls() -> None:
    """Requests of the resolver have a TLS block of their own."""
    tls = modeOf('resolver_tls { ca_file: "ca.pem" }').resolver_tls
    assert tls is not None and tls.ca_file == "ca.pem"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("accounts { A {} }", "operators do not allow Accounts to be configured directly"),
        ("authorization { users: [{user: a}] }", "operators do not allow users"),
        (f"authorization {{ users: [{{nkey: {USER}}}] }}", "operators do not allow users"),
        (f"trusted_keys: {OPERATOR}", "conflicting options"),
        (f"resolver_preload {{ {ACCOUNT}: jwt }}", "resolver preloads only available"),
        (
            f"resolver: URL(http://a)\nresolver_preload {{ {ACCOUNT}: jwt }}",
            "resolver preloads only available",
        ),
        ("resolver {type: full, dir: a}\nno_system_account: true", "needs a system account"),
    ],
)
def test_notWithOperators(text: str, complaint: str) -> None:
    """With operators, the configuration cannot define accounts and users."""
    (problem,) = complaintsOf(f"operator: eyJ\n{text}")
    assert complaint in problem


def test_noAuthUser() -> None:
    """C{no_auth_user} is refused in operator mode."""
    problems = complaintsOf("operator: eyJ\nno_auth_user: a")
    assert any(
        "no_auth_user not compatible with Trusted Operator" in problem for problem in problems
    )


def test_sentinel() -> None:
    """A default JWT is refused without an operator."""
    assert modeOf("operator: eyJ\ndefault_sentinel: jwt").default_sentinel == "jwt"
    (complaint,) = complaintsOf("default_sentinel: jwt")
    assert "default sentinel requires operators" in complaint


def test_systemAccount() -> None:
    """The system account is one of the operator's accounts, which the file does not define."""
    text = f"operator: eyJ\nsystem_account: {ACCOUNT}"
    assert settingsOf(text).system_account == ACCOUNT
