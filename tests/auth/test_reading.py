"""
Tests for L{natsbroker.auth.reading}.
"""

from __future__ import annotations

import re

import pytest

from natsbroker.auth.reading import EMPTY_ALLOW
from natsbroker.config.errors import ConfigErrors
from natsbroker.config.model import AuthCallout
from natsbroker.config.settings.authorization import (
    AccountLimits,
    AccountSettings,
    AuthorizationSettings,
    MessageTraces,
    Permissions,
    SubjectPermission,
    User,
)
from natsbroker.server.configuration.build import buildText
from natsbroker.subjects.permissions import ResponsePermission
from tests.auth.operator.keys import ACCOUNT, USER
from tests.config.support import built, complaintsOf, settingsOf


def permissionsOf(text: str) -> Permissions | None:
    """The permissions of a user in a configuration."""
    text = f"authorization {{ users: [ {{user: a, permissions: {text} }} ] }}"
    return settingsOf(text).authorization.users[0].permissions


READABLE = [
    ("{}", Permissions()),
    ("{publish: a}", Permissions(SubjectPermission(("a",)))),
    ("{pub: [a, 'b.>']}", Permissions(SubjectPermission(("a", "b.>")))),
    ("{import: {allow: a, deny: [b, c]}}", Permissions(SubjectPermission(("a",), ("b", "c")))),
    ("{publish: {deny: b}}", Permissions(SubjectPermission(None, ("b",)))),
    ("{publish: {deny: []}}", Permissions(SubjectPermission(None, ()))),
    ("{publish: {}}", Permissions()),
    ("{subscribe: ['a q', 'b.* q.>']}", Permissions(None, SubjectPermission(("a q", "b.* q.>")))),
    ("{export: {deny: '>'}}", Permissions(None, SubjectPermission(None, (">",)))),
    (
        "{allow_responses: true}",
        Permissions(SubjectPermission(()), None, ResponsePermission()),
    ),
    ("{allow_responses: false}", Permissions()),
    (
        "{publish: x, allow_responses: {max: 5, ttl: '1m'}}",
        Permissions(SubjectPermission(("x",)), None, ResponsePermission(5, 60.0)),
    ),
    (
        "{publish: {deny: y}, allow_responses: {max: 0, expires: '0s'}}",
        Permissions(SubjectPermission((), ("y",)), None, ResponsePermission()),
    ),
    (
        "{allow_responses: {max: -1, expires: '-1s'}}",
        Permissions(SubjectPermission(()), None, ResponsePermission(-1, -1.0)),
    ),
]


@pytest.mark.parametrize(("text", "permissions"), READABLE)
def test_readable(text: str, permissions: Permissions) -> None:
    """Permissions are read in every form of the configuration."""
    assert permissionsOf(text) == permissions


UNREADABLE = [
    ("{publish: 'a b'}", "publish", 'subject "a b" is not a valid subject'),
    ("{publish: {deny: 'a..b'}}", "publish.deny", 'subject "a..b" is not a valid subject'),
    ("{subscribe: 'a b c'}", "subscribe", 'subject "a b c" is not a valid subject'),
    ("{subscribe: 'a. b'}", "subscribe", 'subject "a." is not a valid subject'),
    ("{subscribe: {allow: 'a b.'}}", "subscribe.allow", 'queue "b." is not a valid queue'),
    ("{publish: []}", "publish", EMPTY_ALLOW),
    ("{subscribe: {allow: [], deny: x}}", "subscribe.allow", EMPTY_ALLOW),
    (
        "{publish: 1}",
        "publish",
        "expected a string or an array of strings or a map, got an integer",
    ),
    ("{allow_responses: 5}", "allow_responses", "expected a boolean or a map, got an integer"),
    ("{allow_responses: {max: x}}", "allow_responses.max", "expected an integer, got a string"),
]


@pytest.mark.parametrize(("text", "path", "message"), UNREADABLE)
def test_unreadable(text: str, path: str, message: str) -> None:
    """An invalid permission is reported with its path."""
    (complaint,) = complaintsOf(f"authorization {{ users: [ {{user: a, permissions: {text} }} ] }}")
    assert complaint.partition(" ")[2] == (f"authorization.users[0].permissions.{path}: {message}")


ONLY_X = Permissions(SubjectPermission(("x",)))


class TestAuthorization:
    """The C{authorization} block."""

    def test_noBlock(self) -> None:
        """No login is required without the block."""
        authorization = settingsOf("port: 1").authorization
        assert authorization == AuthorizationSettings()
        assert not authorization.defined

    def test_singleUser(self) -> None:
        """A user and a password."""
        assert settingsOf("authorization { username: a, password: b }").authorization == (
            AuthorizationSettings(True, "a", "b")
        )

    def test_token(self) -> None:
        """A token."""
        assert settingsOf("authorization { token: t }").authorization == AuthorizationSettings(
            True, token="t"
        )

    @pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("0.5", 0.5), ("'3s'", 3), ("0", 2)])
    def test_timeout(self, text: str, seconds: float) -> None:
        """The timeout is a number of seconds or a duration. Zero means the default."""
        authorization = settingsOf(f"authorization {{ timeout: {text} }}").authorization
        assert authorization.timeout == seconds

    def test_timeoutWithTLS(self) -> None:
        """The default timeout with TLS is one second more than that of the handshake."""
        tls = "tls { cert_file: cert.pem, key_file: key.pem, timeout: 4 }"
        assert settingsOf(tls).authorization.timeout == 5.0

    def test_longTimeout(self) -> None:
        """A long timeout gives a warning, because clients may stay that long without a login."""
        (warning,) = built("authorization { timeout: 1000000 }").warnings
        assert str(warning).startswith("s.conf:1:17: authorization.timeout: 1e+06 seconds is long")

    def test_plugin(self) -> None:
        """A plugin gets every key of the block that is not the broker's."""
        authorization = settingsOf(
            "authorization { plugin: ldap, url: u, timeout: 3 }"
        ).authorization
        assert (authorization.plugin, authorization.options) == ("ldap", {"url": "u"})
        assert authorization.timeout == 3

    def test_users(self) -> None:
        """Users have permissions of their own, or the default ones of the block."""
        authorization = settingsOf(
            "authorization { default_permissions { publish: x }\n"
            "users: [ {user: a, pass: b}, {user: c, permission: {}} ] }"
        ).authorization
        assert authorization.users == (
            User("a", "b", permissions=ONLY_X),
            User("c", permissions=Permissions()),
        )

    def test_connectionTypes(self) -> None:
        """Connection types are read in any case."""
        text = "authorization { users: [ {user: a, connection_types: [standard, MQTT]} ] }"
        (user,) = settingsOf(text).authorization.users
        assert user.allowed_connection_types == frozenset({"STANDARD", "MQTT"})


class TestAccounts:
    """The C{accounts} block."""

    def test_list(self) -> None:
        """Accounts can be a list of names."""
        assert settingsOf("accounts: [A, B]").accounts == {
            "A": AccountSettings("A"),
            "B": AccountSettings("B"),
        }

    def test_described(self) -> None:
        """Accounts have users, limits and default permissions of their own."""
        accounts = settingsOf(
            "accounts { A { users: [ {user: a, pass: b} ], default_permissions { pub: x }\n"
            "limits { max_conn: 5, max_subs: 0, max_payload: 1k } } }"
        ).accounts
        assert accounts == {
            "A": AccountSettings(
                "A",
                (User("a", "b", "A", ONLY_X),),
                AccountLimits(5, 0, 1000, -1),
                ONLY_X,
            )
        }

    def test_sharedPermissions(self) -> None:
        """Permissions that are written once, as a variable, can be used by several users."""
        accounts = settingsOf(
            "accounts { P { publish: x }\n A { users: [ {user: a, permissions: $P} ] } }"
        ).accounts
        assert list(accounts) == ["A"]
        assert accounts["A"].users[0].permissions == ONLY_X


KEY = "UDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435C2U4"
ACCOUNT_KEY = "ADWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435D6HD"

MISTAKES = [
    ("authorization { user: a, token: b }", "1:1: authorization: "
     "Cannot have a user/pass and token"),
    ("authorization { pass: a, token: b }", "1:1: authorization: "
     "Cannot have a user/pass and token"),
    ("authorization { user: a, users: [] }", "1:1: authorization: "
     "Can not have a single user/pass and a users array"),
    ("authorization { token: a, users: [] }", "1:1: authorization: "
     "Can not have a token and a users array"),
    ("authorization { user: a }\naccounts { A { users: [{user: b}] } }", "1:1: authorization: "
     "Can not have a single user/pass and accounts"),
    ("authorization { token: a }\naccounts { A { users: [{user: b}] } }", "1:1: authorization: "
     "Can not have a token and accounts"),
    ("authorization { users: [ {pass: a} ] }", "1:26: authorization.users[0]: "
     "User entry requires a user"),
    ("authorization { users: [ {user: a},\n{user: a} ] }", "2:2: authorization.users[1]: "
     'Duplicate user "a" detected'),
    ("accounts { A { users: [{user: a}] } }\nauthorization { users: [{user: a}] }",
     '2:26: authorization.users[0]: Duplicate user "a" detected'),
    ("authorization { users: [{user: a}] }\naccounts { A { users: [{user: a}] } }",
     '2:25: accounts.A.users[0]: Duplicate user "a" detected'),
    ("authorization { timeout: -1 }", "1:17: authorization.timeout: is negative"),
    ("authorization { users: [ {user: a, clients: [smoke]} ] }",
     '1:36: authorization.users[0].allowed_connection_types: unknown connection type "SMOKE"'),
    ("authorization { user: a, pass: '$2y$15$abc' }",
     "1:26: authorization.pass: bcrypt cost 15 is more than 14"),
    ("authorization { token: '$2a$31$abc' }",
     "1:17: authorization.token: bcrypt cost 31 is more than 14"),
    ("accounts { A { users: [ {user: a, pass: $2a$20$x } ] } }",
     "1:35: accounts.A.users[0].pass: bcrypt cost 20 is more than 14"),
    ("accounts: [A, A]", "1:1: accounts: Duplicate AccountSettings Entry: A"),
    ("accounts: ['$G']", '1:1: accounts: "$G" is a Reserved Account'),
    ("accounts { '$G': {} }", '1:12: accounts.$G: "$G" is a Reserved Account'),
    ("accounts { A { limits { max_conn: -2 } } }",
     "1:25: accounts.A.limits.max_connections: -2 is less than -1, which means no limit"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "complaint"), MISTAKES)
def test_mistakes(text: str, complaint: str) -> None:
    """Users, accounts and secrets that exclude each other are reported."""
    assert complaintsOf(text) == [f"s.conf:{complaint}"]


def test_nkeyWithPassword() -> None:
    """An nkey user has no name and no password."""
    for more in ("user: a", "pass: b"):
        complaints = complaintsOf(f"authorization {{ users: [ {{nkey: {KEY}, {more}}} ] }}")
        (complaint,) = complaints
        assert "Nkey users do not take usernames or passwords" in complaint


def test_nkeyUsers() -> None:
    """A user with an nkey is named by its key, and has permissions and an account like others."""
    users = f"[ {{nkey: {KEY}, connection_types: [standard]}}, {{user: a}} ]"
    settings = settingsOf(f"accounts {{ A {{ users: {users} }} }}")
    key, name = settings.users()
    assert key == User(KEY, "", "A", None, frozenset({"STANDARD"}), nkey=True)
    assert not name.nkey


@pytest.mark.parametrize("key", ["UA", KEY[:-1], KEY.lower(), ACCOUNT_KEY, KEY[:-1] + "A"])
def test_notNkeys(key: str) -> None:
    """An nkey that is not the public key of a user is reported."""
    (complaint,) = complaintsOf(f"authorization {{ users: [ {{nkey: {key}}} ] }}")
    assert "Not a valid public nkey for a user" in complaint


def test_sameNkeyTwice() -> None:
    """A key belongs to one user only."""
    (complaint,) = complaintsOf(
        f"accounts {{ A {{ users: [{{nkey: {KEY}}}] }}, B {{ users: [{{nkey: {KEY}}}] }} }}"
    )
    assert f'Duplicate nkey "{KEY}" detected' in complaint


def test_accountNkey() -> None:
    """The nkey of an account must be the key of an account."""
    settingsOf(f"accounts {{ A {{ nkey: {ACCOUNT_KEY} }} }}")
    (complaint,) = complaintsOf(f"accounts {{ A {{ nkey: {KEY} }} }}")
    assert "Not a valid public nkey for an account" in complaint


def test_cheapBcryptIsFine() -> None:
    """A bcrypt hash with a usual cost gives no warning."""
    secret = "$2b$11$3kIDaCxw.Glsl1.u5nKa6eUnNDLV5HV9tIuUp7EHhMt6Nm9myW1aS"
    assert settingsOf(f"authorization {{ token: '{secret}' }}").authorization.token == secret


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("cluster { authorization { user: $E } }", "1:27: cluster.authorization.user"),
        ("gateway { authorization { pass: $E } }", "1:27: gateway.authorization.pass"),
        ("leafnodes { authorization { nkey: $E } }", "1:29: leafnodes.authorization.nkey"),
        (
            "leafnodes { authorization { users: [{ user: $E, pass: a }] } }",
            "1:39: leafnodes.authorization.users[0].user",
        ),
    ],
)
def test_emptyLoginOfBlocks(text: str, place: str) -> None:
    """An empty login of a link is an error too, with its path."""
    with pytest.raises(ConfigErrors) as raised:
        buildText(text, {"E": ""}, "x.conf")
    assert f"x.conf:{place}: is empty: everybody would be let in" in str(raised.value)


def test_emptyPasswordOfListedUser() -> None:
    """A listed user may have an empty password, as with nats-server."""
    [user] = settingsOf("authorization { users: [{ user: a, pass: '' }] }").authorization.users
    assert (user.user, user.password) == ("a", "")


@pytest.mark.parametrize("name", ["user", "pass", "token"])
@pytest.mark.parametrize("text", ["$EMPTY", '""'])
def test_emptyLogin(name: str, text: str) -> None:
    """An empty variable in a login is an error, and does not open the broker to everyone."""
    with pytest.raises(ConfigErrors) as raised:
        buildText(f"authorization {{ {name}: {text} }}", {"EMPTY": ""}, "x.conf")
    message = f"x.conf:1:17: authorization.{name}: is empty: everybody would be let in"
    assert str(raised.value) == message


CURVE = "XDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435DRXO"


def block(text: str) -> str:
    """
    A configuration with auth callout.
    """
    return f"authorization {{ users: [{{user: a, password: b}}], auth_callout {{ {text} }} }}"


def test_noCalloutByDefault() -> None:
    """No callout service is asked by default."""
    assert settingsOf("port: 4222").authorization.auth_callout is None


def test_requiredKeys() -> None:
    """
    The issuer and the users of a callout are required; its account is the global one by default.
    """
    callout = settingsOf(block(f"issuer: {ACCOUNT}, auth_users: [a]")).authorization.auth_callout
    assert callout == AuthCallout(ACCOUNT, "$G", ("a",))


def test_allKeys() -> None:
    """All keys of a callout are read, also under their other names."""
    text = f"issuer: {ACCOUNT}, users: [a], acc: A, key: {CURVE}, allowed_accounts: [A, B]"
    callout = settingsOf(f"{block(text)}, accounts {{ A {{}}, B {{}} }}").authorization.auth_callout
    assert callout == AuthCallout(ACCOUNT, "A", ("a",), CURVE, ("A", "B"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("auth_users: [a]", "Authorization callouts require an issuer to be specified"),
        (f"issuer: {USER}, auth_users: [a]", "Expected callout user to be a valid public account"),
        (f"issuer: {ACCOUNT}", "Authorization callouts require authorized users to be specified"),
        (f"issuer: {ACCOUNT}, auth_users: []", "require authorized users to be specified"),
        (
            f"issuer: {ACCOUNT}, auth_users: [a], xkey: {USER}",
            "Expected callout xkey to be a valid public xkey",
        ),
        (f"issuer: {ACCOUNT}, auth_users: [a], bogus: 1", 'unknown field "bogus"'),
    ],
)
def test_calloutMistakes(text: str, complaint: str) -> None:
    """An invalid callout is refused with nats-server's error."""
    (problem,) = complaintsOf(block(text))
    assert complaint in problem


def test_operators() -> None:
    """A callout is refused in operator mode, where the JWTs of accounts configure it."""
    problems = complaintsOf(
        f"operator: eyJ\nauthorization {{ auth_callout {{ issuer: {ACCOUNT}, auth_users: [a] }} }}"
    )
    assert any("operators do not allow authorization callouts" in problem for problem in problems)


def test_plugin() -> None:
    """A plugin and a callout together are refused."""
    text = f"authorization {{ plugin: p, auth_callout {{ issuer: {ACCOUNT}, auth_users: [a] }} }}"
    (problem,) = complaintsOf(text)
    assert "auth_callout and a plugin exclude each other" in problem


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("t.x", MessageTraces("t.x")),
        ("{ dest: t.x, sampling: 5 }", MessageTraces("t.x", 5)),
        ('{ dest: t.x, sampling: "50%" }', MessageTraces("t.x", 50)),
    ],
)
def test_messageTraces(value: str, expected: MessageTraces) -> None:
    """An account may have a destination for traces, and a percentage of traced messages."""
    settings = settingsOf(f"accounts {{ A {{ msg_trace: {value} }} }}")
    assert settings.accounts["A"].trace == expected
    assert settingsOf("accounts { A {} }").accounts["A"].trace == MessageTraces()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('"a.*"', 'Trace destination "a.*" is not valid'),
        ('{ dest: "a.*" }', 'Trace destination "a.*" is not valid'),
        ("{ dest: a, sampling: 0 }", "sampling value 0 is invalid, needs to be [1..100]"),
    ],
)
def test_wrongMessageTraces(value: str, problem: str) -> None:
    """An invalid trace destination is an error."""
    with pytest.raises(ConfigErrors, match=re.escape(problem)):
        settingsOf(f"accounts {{ A {{ msg_trace: {value} }} }}")


@pytest.mark.parametrize("block", ["services", "plugins"])
def test_otherKinds(block: str) -> None:
    """A user may be restricted to a connection type that the file has a section for."""
    users = "authorization { users: [{user: a, pass: b, allowed_connection_types: [lines]}] }"
    (user,) = settingsOf(f"{users}, {block} {{ lines {{}} }}").users()
    assert user.allowed_connection_types == frozenset({"LINES"})
