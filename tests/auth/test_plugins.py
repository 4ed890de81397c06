"""
Tests of L{natsbroker.auth.plugins}: the built-in authorization plugins in brokers in memory.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.cred.strcred import makeChecker
from zope.interface.verify import verifyObject

from natsbroker.auth.checkers import IAvatars
from natsbroker.auth.plugins import READY_MADE, CredPlugin, SettingsAvatars
from natsbroker.broker import Broker
from natsbroker.clients.finding import sessionsOf
from natsbroker.errors import BrokerError, Unauthorized
from natsbroker.interfaces import IAuthorizerPlugin
from natsbroker.runtime.reload import ReloadError
from natsbroker.subjects.permissions import PermissionSet
from natsbroker.testing.memory import MemoryBroker, MemoryConnection, MemoryReactor
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.auth.agents import FakeAgent
from tests.auth.hashes import sha
from tests.server.support import Host, logLines, settingsOf

TEXT = """
authorization {
    default_permissions { publish: "public.>" }
    users: [ {user: bob, permissions { publish: bobs }} ]
}
accounts {
    SHOP {
        users: [
            {user: anna, password: "does not count"}
            {user: web, allowed_connection_types: [WEBSOCKET]}
            {nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}
        ]
        limits { max_payload: 5 }
    }
}
"""
KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


class SettingsHost:
    """A host that has only a broker's settings."""

    def __init__(self, text: str = TEXT) -> None:
        self.settings = settingsOf(text)


def avatars(host: Any = None) -> SettingsAvatars:
    """The avatars for a host."""
    settingsHost: Any = host or SettingsHost()
    return SettingsAvatars(settingsHost)


def test_provides() -> None:
    """The avatars of checkers provide their interface."""
    assert verifyObject(IAvatars, avatars())


def test_userOfAnAccount() -> None:
    """An avatar named like a user of an account is in this account, with its limits."""
    assert avatars().grantOf("anna", ConnectRequest()) == Grant("SHOP", "anna", maxPayload=5)


def test_userOfAuthorization() -> None:
    """An avatar named like a user of the authorization block has that user's permissions."""
    expected = Grant(user="bob", publish=PermissionSet([b"bobs"]))
    assert avatars().grantOf("bob", ConnectRequest()) == expected


@pytest.mark.parametrize("name", ["carl", "", KEY])
def test_unknownUserHasDefaultPermissions(name: str) -> None:
    """
    Any other avatar has the default permissions in the global account, also if named like the key
    of a user.
    """
    expected = Grant(user=name, publish=PermissionSet([b"public.>"]))
    assert avatars().grantOf(name, ConnectRequest()) == expected


def test_connectionType() -> None:
    """An avatar is denied on other connection types than those of its user."""
    with pytest.raises(Unauthorized):
        avatars().grantOf("web", ConnectRequest())
    assert avatars().grantOf("web", ConnectRequest(connectionType="WEBSOCKET")).account == "SHOP"


def test_guests() -> None:
    """A guest is the user that C{no_auth_user} names."""
    assert not avatars().hasGuests()
    guests = avatars(SettingsHost(TEXT + "no_auth_user: bob\n"))
    assert guests.hasGuests()
    assert guests.grantOf("", ConnectRequest()).user == "bob"


def test_reload() -> None:
    """Changed settings apply to later logins."""
    host = SettingsHost()
    provider = avatars(host)
    assert provider.grantOf("bob", ConnectRequest()).publish == PermissionSet([b"bobs"])
    host.settings = settingsOf("accounts { A { users: [ {user: bob} ] } }")
    assert provider.grantOf("bob", ConnectRequest()) == Grant("A", "bob")
    assert provider.grantOf("anna", ConnectRequest()) == Grant(user="anna")


ACCOUNTS = """
accounts {
    SHOP { users: [ {user: anna, permissions { publish: "orders.>" }} ] }
    OFFICE { users: [ {user: bob} ] }
}
"""


def login(broker: MemoryBroker, user: str, password: str) -> MemoryConnection:
    """A connection with a user's name and password."""
    return broker.connect({"verbose": False, "user": user, "pass": password})


def block(options: str) -> str:
    """An authorization block."""
    return f"authorization {{ {options} }}\n"


def reload(broker: MemoryBroker, text: str) -> None:
    """Reload another configuration with the same address."""
    settings = settingsOf(text)
    broker.broker.reload(replace(settings, host=broker.broker.settings.host))


def account(broker: MemoryBroker, user: str) -> str:
    """The account of a user's only connection."""
    [owner] = [
        session.grant.account
        for session in sessionsOf(broker.broker.clientContext.connections)
        if session.grant is not None and session.grant.user == user
    ]
    return str(owner)


def test_provide() -> None:
    """Each built-in authorizer is a plugin with a name."""
    assert all(map(IAuthorizerPlugin.providedBy, READY_MADE))
    assert sorted(plugin.name for plugin in READY_MADE) == ["cred", "htpasswd", "http"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("plugin: htpasswd", "file is missing"),
        ("plugin: htpasswd, file: 1", "file must be a string"),
        ("plugin: htpasswd, file: x, files: y", 'unknown option "files"'),
        ("plugin: cred", "checkers is missing"),
        ("plugin: cred, checkers: 'nothing:x'", 'checker "nothing" cannot be made'),
        ("plugin: cred, checkers: 'memory:s3cret'", 'checker "memory" cannot be made'),
        ("plugin: cred, checkers: ['sshkey']", "no checker|checks no cred"),
        ("plugin: cred, checkers: 'memory:a:b', x: 1", 'unknown option "x"'),
        ("plugin: http", "url is missing"),
        ("plugin: http, url: 'ftp://x/'", "url must use https"),
        ("plugin: http, url: 'https://'", "url must use https"),
        ("plugin: http, url: 'https://a:b@x/'", "url must use https"),
        ("plugin: http, url: 'https://x:99999/'", "url must use https"),
        ("plugin: http, url: 'https://x/#y'", "url must use https"),
        ("plugin: http, url: 'http://10.0.0.1/'", "insecure_http"),
        ("plugin: http, url: 'http://example.com/'", "insecure_http"),
        ("plugin: http, url: 'https://x/', cache: -1", "cache must be"),
        ("plugin: http, url: 'https://x/', max_concurrent: 0", "max_concurrent must be"),
        ("plugin: http, url: 'https://x/', ca_file: '/missing'", "No such file.*/missing"),
        ("plugin: http, url: 'https://x/', cert_file: '/x'", "need each other"),
        ("plugin: http, url: 'https://x/', key_file: '/x'", "need each other"),
        ("plugin: http, url: 'https://x/', cert_file: '/x', key_file: '/x'", "No such file"),
        ("plugin: http, url: 'https://x/', ca_file: '/dev/null'", "no certificate"),
        ("plugin: http, url: 'https://x/', verify: false", 'unknown option "verify"'),
    ],
)
def test_sections(text: str, why: str) -> None:
    """An invalid section is refused with an error that hides secrets."""
    name = text.split(",")[0].split()[1]
    with pytest.raises(BrokerError, match=f'authorization plugin "{name}": .*({why})') as refused:
        Host(block(text))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "url: 'http://127.0.0.1:1/'",
        "url: 'http://[::1]:1/x?y'",
        "url: 'http://localhost/'",
        "url: 'http://example.com/', insecure_http: true",
        "url: 'https://example.com/', request_timeout: '2s', headers: {A: b}, nonce: true",
    ],
)
def test_urls(text: str) -> None:
    """A URL must use https, unless it is of this machine or C{insecure_http} is set."""
    host = Host(block(f"plugin: http, {text}"))
    assert host.broker.clientContext.authorizer.nonce == ("nonce" in text)


class TestHtpasswd:
    """Users in an htpasswd file."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """A file with Anna and Carl."""
        path = tmp_path / "users"
        path.write_text(f"anna:{sha('apple')}\ncarl:{sha('cherry')}\n")
        return path

    def text(self, path: Path) -> str:
        """A configuration whose plugin reads the file at C{path}."""
        return f"authorization {{ plugin: htpasswd, file: '{path}' }}\n{ACCOUNTS}"

    def test_login(self, path: Path) -> None:
        """A user in the file is accepted under its name."""
        with MemoryBroker(configText=self.text(path)) as broker:
            anna = login(broker, "anna", "apple")
            assert account(broker, "anna") == "SHOP"
            assert b"Permissions Violation" in anna.request(b"PUB secret 0\r\n\r\n")
            login(broker, "carl", "cherry")
            assert account(broker, "carl") == "$G"
            assert login(broker, "anna", "cherry").closed == "lost"
            assert login(broker, "bob", "").closed == "lost"
            assert broker.connect({"verbose": False}).closed == "lost"

    def test_fileChanges(self, path: Path) -> None:
        """A user who is removed from the file is disconnected, and other users are not."""
        with MemoryBroker(configText=self.text(path)) as broker:
            anna, carl = login(broker, "anna", "apple"), login(broker, "carl", "cherry")
            path.write_text(f"anna:{sha('apple')}\n")
            broker.advance(3)
            assert (anna.closed, carl.closed) == ("", "lost")

    def test_missing(self, path: Path) -> None:
        """The broker does not start without the file."""
        path.unlink()
        reactor = MemoryReactor()  # type: ignore[no-untyped-call]
        broker = Broker(settingsOf(self.text(path)), reactor=reactor)
        broker.startService()
        results: list[Any] = []
        broker.whenReady().addErrback(results.append)
        broker.reactor.advance(0)
        assert results[0].check(BrokerError)
        assert "No such file" in str(results[0].value)

    def test_reload(self, path: Path) -> None:
        """A reload takes another file and changed permissions."""
        other = path.with_name("other")
        other.write_text(f"anna:{sha('apple')}\n")
        with MemoryBroker(configText=self.text(path)) as broker:
            anna, carl = login(broker, "anna", "apple"), login(broker, "carl", "cherry")
            new = self.text(other).replace("orders.>", "secret")
            reload(broker, new)
            assert (anna.closed, carl.closed) == ("", "lost")
            assert anna.request(b"PUB secret 0\r\n\r\n") == b""
            assert b"Permissions Violation" in anna.request(b"PUB orders.1 0\r\n\r\n")

    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            ("users'", "missing'", "No such file"),
            ("file:", "files:", "unknown option|file is missing"),
            ("plugin: htpasswd,", "plugin: http,", "not supported"),
        ],
    )
    def test_wrongReload(self, path: Path, old: str, new: str, why: str) -> None:
        """A reload with an invalid section changes nothing."""
        with MemoryBroker(configText=self.text(path)) as broker:
            with pytest.raises(ReloadError, match=why):
                reload(broker, self.text(path).replace(old, new))
            assert login(broker, "carl", "cherry").closed == ""

    def test_nameInLog(self, path: Path) -> None:
        """The log names the authorization plugin when the broker starts."""
        with logLines() as lines, MemoryBroker(configText=self.text(path)):
            pass
        assert any("authorizer=htpasswd" in line for line in lines)


class TestCred:
    """Checkers of C{twisted.cred}."""

    def test_namedCheckers(self) -> None:
        """Checkers are configured as for C{--auth}, and asked in order."""
        text = "authorization { plugin: cred, checkers: ['memory:anna:apple', 'memory:bob:b'] }"
        with MemoryBroker(configText=text + ACCOUNTS) as broker:
            login(broker, "anna", "apple")
            login(broker, "bob", "b")
            assert (account(broker, "anna"), account(broker, "bob")) == ("SHOP", "OFFICE")
            assert login(broker, "anna", "b").closed == "lost"

    def test_givenCheckers(self) -> None:
        """A program can pass checker objects to the broker."""
        plugin = CredPlugin([makeChecker("memory:anna:apple")])
        with MemoryBroker(configText=ACCOUNTS, authorizer=plugin) as broker:
            login(broker, "anna", "apple")
            assert account(broker, "anna") == "SHOP"
            assert login(broker, "bob", "").closed == "lost"

    def test_guests(self) -> None:
        """A client without credentials is C{no_auth_user}, with any checkers."""
        text = "no_auth_user: bob\n" + ACCOUNTS
        plugin = CredPlugin([makeChecker("memory:anna:apple")])
        with MemoryBroker(configText=text, authorizer=plugin) as broker:
            broker.connect({"verbose": False})
            assert account(broker, "bob") == "OFFICE"
            assert login(broker, "bob", "x").closed == "lost"

    def test_reload(self) -> None:
        """A reload that removes a user disconnects the avatar with its name."""
        plugin = CredPlugin([makeChecker("memory:anna:apple:bob:b")])
        with MemoryBroker(configText=ACCOUNTS, authorizer=plugin) as broker:
            anna, bob = login(broker, "anna", "apple"), login(broker, "bob", "b")
            reload(broker, ACCOUNTS.replace("{user: bob}", "{user: carl}"))
            assert (anna.closed, bob.closed) == ("", "lost")


class TestHTTP:
    """A service over HTTP."""

    @pytest.fixture
    def agent(self, monkeypatch: pytest.MonkeyPatch) -> FakeAgent:
        """The agent that is asked instead of the service."""
        agent = FakeAgent()
        monkeypatch.setattr("natsbroker.auth.plugins.agentFor", lambda *a, **k: agent)
        return agent

    def test_login(self, agent: FakeAgent) -> None:
        """The service decides about the name, the account and the permissions."""
        text = "authorization { plugin: http, url: 'https://x/' }\n" + ACCOUNTS
        with MemoryBroker(configText=text) as broker:
            anna = login(broker, "anna", "apple")
            assert json.loads(agent.requests[0][2])["connect"]["user"] == "anna"
            agent.answer(200, b'{"user":"clerk","account":"OFFICE"}')
            assert anna.request(b"PING\r\n") == b"PONG\r\n"
            assert account(broker, "clerk") == "OFFICE"

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (403, b""),
            (500, b""),
            (200, b"yes"),
            (200, b'{"user":"x","account":"NOWHERE"}'),
            (200, b'{"user":"x","expires":0}'),
        ],
    )
    def test_denied(
        self, agent: FakeAgent, status: int, body: bytes, flushLoggedErrors: Any
    ) -> None:
        """
        A login is denied if the service denies it, fails, or gives an invalid, unknown or expired
        grant.
        """
        with MemoryBroker(configText="authorization { plugin: http, url: 'https://x/' }") as broker:
            anna = login(broker, "anna", "apple")
            agent.answer(status, body)
            broker.advance(0.1)
            assert anna.closed == "lost"
            flushLoggedErrors(Exception)

    def test_serviceHangs(self, agent: FakeAgent) -> None:
        """A login is denied if the service does not answer, and the log has the reason."""
        text = "authorization { plugin: http, url: 'https://x/' }"
        with logLines() as lines, MemoryBroker(configText=text) as broker:
            anna = login(broker, "anna", "apple")
            broker.advance(1.4)
            assert anna.closed == ""
            broker.advance(0.2)
            assert anna.closed == "lost"
        assert any("authorization service failed" in line for line in lines)

    def test_reload(self, agent: FakeAgent) -> None:
        """A reload takes another URL, and is refused if the URL is invalid."""
        text = "authorization { plugin: http, url: '%s' }"
        with MemoryBroker(configText=text % "https://x/") as broker:
            reload(broker, text % "https://y/")
            login(broker, "anna", "apple")
            assert agent.requests[-1][1] == "https://y/"
            with pytest.raises(ReloadError, match="url must use https"):
                reload(broker, text % "nothing")
            login(broker, "anna", "apple")
            assert agent.requests[-1][1] == "https://y/"
