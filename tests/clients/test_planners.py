"""
The parts of a broker that apply new settings, each tested on a whole broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from zope.interface import implementer

from natsbroker.auth.authenticator import Authenticator
from natsbroker.clients.protocol import ClientFactory
from natsbroker.clients.tls import TLSClientFactory
from natsbroker.interfaces import IReloadable
from natsbroker.runtime.plugins import Plugins
from natsbroker.runtime.reload import ReloadError
from natsbroker.wire.grants import ConnectRequest, Grant
from tests.interop.certificates import writeCertificates
from tests.server.support import Host, logLines

USERS = 'authorization { users: [{user: u, password: p, permissions: {subscribe: ["a", "b"]}}] }'
HELLO = b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\n'


class TestLimits:
    """Limits of running connections."""

    def test_payload(self) -> None:
        """A reload with a smaller payload limit applies to connected clients."""
        host = Host("max_payload: 100").start()
        client = host.client()
        host.reload("max_payload: 10")
        answer = client.ask(b"PUB foo 11\r\n12345678901\r\n")
        assert answer == b"-ERR 'Maximum Payload Violation'\r\n"

    def test_controlLine(self) -> None:
        """A shorter control line is in force after a reload."""
        host = Host().start()
        client = host.client()
        host.reload("max_control_line: 20")
        answer = client.ask(b"SUB " + b"x" * 20 + b" 1\r\n")
        assert answer == b"-ERR 'maximum control line exceeded'\r\n"

    def test_connections(self) -> None:
        """A reload with a lower connection limit closes the youngest connections."""
        host = Host().start()
        clients = [host.client() for _ in range(3)]
        host.reload("max_connections: 1")
        assert [bool(client.closed) for client in clients] == [False, True, True]
        assert clients[1].receive() == b"-ERR 'maximum connections exceeded'\r\n"

    def test_unchanged(self) -> None:
        """A reload without a change leaves clients alone."""
        host = Host().start()
        client = host.client()
        client.ask(b"SUB foo 1\r\n")
        host.reload("max_payload: 1000")
        assert client.ask(b"PUB foo 2\r\nhi\r\n") == b"MSG foo 1 2\r\nhi\r\n"

    def test_tracing(self) -> None:
        """A reload can switch tracing on and off for connected clients."""
        host = Host().start()
        client = host.client()
        with logLines() as lines:
            client.ask(b"SUB foo 1\r\n")
            assert not any("[TRC]" in line for line in lines)
            host.reload("trace: true")
            client.ask(b"PUB foo 2\r\nhi\r\n")
            assert any("<<- [PUB foo 2]" in line for line in lines)
            assert any("->> [MSG foo 1 2]" in line for line in lines)
            host.reload("trace: false")
            lines.clear()
            assert client.ask(b"PUB foo 2\r\nhi\r\n") == b"MSG foo 1 2\r\nhi\r\n"
            assert not any("[TRC]" in line for line in lines)


class TestAuthorization:
    """Users and permissions of running connections."""

    def test_loginIsRequiredNow(self) -> None:
        """A reload that requires a login disconnects clients without one."""
        host = Host().start()
        client = host.client()
        host.reload(USERS)
        assert client.receive() == b"-ERR 'Authorization Violation'\r\n"
        assert client.closed
        assert b'"auth_required":true' in host.dial().receive()

    def test_permissionIsGone(self) -> None:
        """A reload ends a subscription that is denied now, and the connection stays."""
        host = Host(USERS).start()
        client = host.client(HELLO)
        client.ask(b"SUB a 1\r\nSUB b 2\r\n")
        host.reload(USERS.replace('"a", "b"', '"b"'))
        answer = client.receive()
        assert answer == b'-ERR \'Permissions Violation for Subscription to "a" (sid "1")\'\r\n'
        assert client.ask(b"PUB a 1\r\nx\r\nPUB b 1\r\ny\r\n") == b"MSG b 2 1\r\ny\r\n"

    def test_newPermission(self) -> None:
        """A reload may permit a subscription that was denied before."""
        host = Host(USERS).start()
        client = host.client(HELLO)
        assert client.ask(b"SUB c 1\r\n").startswith(b"-ERR")
        host.reload(USERS.replace('"a", "b"', '"c"'))
        client.receive()
        assert client.ask(b"SUB c 1\r\nPUB c 1\r\nx\r\n") == b"MSG c 1 1\r\nx\r\n"

    def test_password(self) -> None:
        """A reload disconnects a client whose password is wrong now."""
        host = Host(USERS).start()
        client = host.client(HELLO)
        host.reload(USERS.replace("password: p", "password: other"))
        assert client.receive() == b"-ERR 'Authorization Violation'\r\n"

    def test_user(self) -> None:
        """A removed user is cut without an error line, as by nats-server."""
        host = Host(USERS).start()
        client = host.client(HELLO)
        host.reload(USERS.replace("user: u", "user: v"))
        assert (client.receive(), bool(client.closed)) == (b"", True)

    def test_unconcerned(self) -> None:
        """A reload does not affect clients whose users are unchanged."""
        two = USERS.replace("users: [", "users: [{user: w, password: w}, ")
        host = Host(two).start()
        client = host.client(b'CONNECT {"verbose":false,"user":"w","pass":"w"}\r\n')
        client.ask(b"SUB foo 1\r\n")
        host.reload(two.replace("password: p", "password: other"))
        assert client.ask(b"PUB foo 1\r\nx\r\n") == b"MSG foo 1 1\r\nx\r\n"

    def test_account(self) -> None:
        """
        A reload without an account disconnects its users, and a new account has its own users.
        """
        text = "accounts { A { users: [{user: u, password: p}] } }"
        host = Host(text).start()
        client = host.client(HELLO)
        host.reload(text.replace("A {", "B {").replace("user: u", "user: v"))
        assert client.closed
        assert sorted(host.broker.accounts.names()) == ["$G", "$SYS", "B"]

    def test_otherAccount(self) -> None:
        """
        A reload disconnects a client whose user has moved to another account, without an error, as
        by nats-server.
        """
        text = "accounts { A { users: [{user: u, password: p}] } }"
        host = Host(text).start()
        client = host.client(HELLO)
        host.reload(text.replace("A {", "B {"))
        assert (client.receive(), bool(client.closed)) == (b"", True)

    @pytest.mark.parametrize(
        ("before", "after", "answer"),
        [
            ("user: u, password: p", "user: v, password: p", b""),
            ("user: u, password: p", "user: u, password: q", b"-ERR 'Authorization Violation'\r\n"),
            (
                "user: u, password: p",
                "user: u, password: p, allowed_connection_types: [WEBSOCKET]",
                b"-ERR 'Authorization Violation'\r\n",
            ),
        ],
    )
    def test_cut(self, before: str, after: str, answer: bytes) -> None:
        """
        A reload disconnects a removed user without an error, and a user with a new password with an
        error.
        """
        text = "authorization { users: [{%s}, {user: other}] }"
        host = Host(text % before).start()
        client = host.client(HELLO)
        host.reload(text % after)
        assert (client.receive(), client.closed) == (answer, "lost")

    def test_becomesSomebody(self) -> None:
        """
        A client without a user stays connected if the new settings have its user in the same
        account.
        """
        host = Host("server_tags: [a]").start()
        client, nobody = host.client(HELLO), host.client()
        host.reload("authorization { users: [{user: u, password: p}] }")
        assert (client.receive(), client.closed) == (b"", "")
        assert client.session.grant.user == "u"
        assert nobody.receive() == b"-ERR 'Authorization Violation'\r\n"

    def test_fewerConnections(self) -> None:
        """A reload with a lower connection limit of an account closes the youngest connections."""
        text = "accounts { A { users: [{user: u, password: p}], limits { max_connections: %d } } }"
        host = Host(text % 3).start()
        clients = []
        for _ in range(3):
            clients.append(host.client(HELLO))
            host.advance(0.1)
        host.reload(text % 2)
        assert [client.receive() for client in clients] == [
            b"",
            b"",
            b"-ERR 'maximum account active connections exceeded'\r\n",
        ]
        assert [client.closed for client in clients] == ["", "", "lost"]

    def test_fewerSubscriptions(self) -> None:
        """A reload with a lower subscription limit disconnects clients that have more."""
        text = (
            "accounts { A { users: [{user: u, password: p}], limits { max_subscriptions: %d } } }"
        )
        host = Host(text % 3).start()
        one, two = host.client(HELLO), host.client(HELLO)
        one.ask(b"SUB a 1\r\n")
        two.ask(b"SUB a 1\r\nSUB b 2\r\n")
        host.reload(text % 1)
        assert (one.receive(), one.closed) == (b"", "")
        assert two.receive() == b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert (two.closed, two.session.reason) == ("lost", "Maximum Subscriptions Exceeded")

    def test_timeout(self) -> None:
        """A changed login timeout applies to later connections."""
        host = Host(USERS).start()
        host.reload(USERS.replace("users:", "timeout: 5, users:"))
        client = host.dial()
        host.advance(4.8)
        assert not client.closed
        host.advance(0.3)
        assert client.closed


class TestOwnAuthorizer:
    """A custom authorizer."""

    def test_users(self) -> None:
        """A custom authorizer is kept at a reload that changes the users of the settings."""
        asked: list[ConnectRequest] = []

        class Mine(Authenticator):
            def authenticate(self, hello: ConnectRequest) -> Any:
                asked.append(hello)
                return "me"

        host = Host(authorizer=Mine()).start()
        client = host.client()
        host.reload(USERS)
        assert not client.closed
        assert len(asked) == 2
        assert host.broker.clientContext.authorizer.required

    @pytest.mark.parametrize("reloadable", [True, False])
    def test_section(self, reloadable: bool) -> None:
        """
        A custom authorizer may support changes of its section. Otherwise the change needs a
        restart.
        """
        taken: list[Any] = []

        class Mine(Authenticator):
            def grant(self, avatar: Any, hello: ConnectRequest) -> Any:
                return Grant()

        @implementer(IReloadable)
        class Changing(Mine):
            def planReload(self, section: Mapping[str, Any]) -> Callable[[], None]:
                return lambda: taken.append(dict(section))

        class Here:
            name = "mine"

            def makeAuthorizer(self, host: Any, section: Any) -> Any:
                return Changing() if reloadable else Mine()

        text = "authorization { plugin: mine, colour: red }"
        host = Host(text, plugins=Plugins(lambda interface: [Here()])).start()
        if reloadable:
            host.reload(text.replace("red", "blue"))
            assert taken == [{"colour": "blue"}]
        else:
            with pytest.raises(ReloadError, match="authorization plugin"):
                host.reload(text.replace("red", "blue"))


class TestTLS:
    """Certificates."""

    def text(self, folder: Path) -> str:
        """A configuration with the certificate in this folder."""
        return f'tls {{ cert_file: "{folder}/server.pem", key_file: "{folder}/server-key.pem" }}'

    def test_readAnew(self, tmp_path: Path) -> None:
        """A reload reads certificate files again although their names are the same."""
        writeCertificates(tmp_path)
        host = Host(self.text(tmp_path)).start()
        [listener] = host.broker.listeners
        before = listener.factory.terms  # type: ignore[attr-defined]
        host.reload(self.text(tmp_path))
        assert listener.factory.terms is not before  # type: ignore[attr-defined]

    def test_onAndOff(self, tmp_path: Path) -> None:
        """A reload can switch TLS on and off, and INFO shows that."""
        writeCertificates(tmp_path)
        host = Host("host: 127.0.0.1").start()
        listener: Any
        [listener] = host.broker.listeners
        host.reload("host: 127.0.0.1\n" + self.text(tmp_path))
        assert isinstance(listener.factory, TLSClientFactory)
        assert host.broker.clientContext.info.tls_required
        host.reload("host: 127.0.0.1")
        assert isinstance(listener.factory, ClientFactory)
        assert not host.broker.clientContext.info.tls_required

    def test_broken(self, tmp_path: Path) -> None:
        """A key that does not fit is refused, and the old certificate stays in use."""
        writeCertificates(tmp_path)
        host = Host(self.text(tmp_path)).start()
        [listener] = host.broker.listeners
        before = listener.factory.terms  # type: ignore[attr-defined]
        (tmp_path / "server-key.pem").write_bytes((tmp_path / "client-key.pem").read_bytes())
        with pytest.raises(Exception, match="key"):
            host.reload(self.text(tmp_path))
        assert listener.factory.terms is before  # type: ignore[attr-defined]

    def test_pagesNeedIt(self, tmp_path: Path) -> None:
        """TLS cannot be removed while monitoring uses it."""
        writeCertificates(tmp_path)
        host = Host(self.text(tmp_path) + "\nhttps_port: 4003").start()
        with pytest.raises(ReloadError, match="pages need it"):
            host.broker.reload(replace(host.broker.settings, tls=None))
