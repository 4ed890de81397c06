"""
The configuration of operator mode, compared with nats-server: resolvers, operators, reloads, and
mistakes.
"""

from __future__ import annotations

import io
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from natsbroker.main import main
from tests.auth.operator.chain import Account, KeyPair, Operator
from tests.interop.auth.peers import Both, Peer
from tests.interop.certificates import writeCertificates
from tests.interop.servers import OURS_FAST, REAL, Server, requireRealServer

OPERATOR, SECOND = Operator(), Operator()
SYSTEM, ONE, TWO = Account(OPERATOR), Account(OPERATOR), Account(OPERATOR)
THREE = Account(SECOND)
USER = KeyPair("U")
EVERYBODY = [SYSTEM, ONE, TWO, THREE]
TEXTS = {account.key: account.jwt() for account in EVERYBODY}
NAMED = OPERATOR.jwt({"system_account": SYSTEM.key})
PRELOAD = "".join(f"{key}: {text}\n" for key, text in TEXTS.items())
MEMORY = f"resolver: MEMORY\nresolver_preload {{\n{PRELOAD}}}\n"


def logins(server: Server) -> list[str]:
    """
    The answers to a user of each account, and to one without credentials.
    """
    answers = []
    for account in EVERYBODY:
        with closing(Peer(server)) as peer:
            answers.append(peer.login(account.user(USER), USER))
    with closing(Peer(server)) as peer:
        answers.append(peer.login(options={"user": "somebody"}))
    return answers


@contextmanager
def running(directory: Path, config: str) -> Iterator[Both]:
    """
    Both servers with a configuration.
    """
    both = Both(directory, config)
    try:
        yield both
    finally:
        both.stop()


NO = "Authorization Violation"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (f"operator: {NAMED}\n{MEMORY}", ["", "", "", NO, NO]),
        (
            f"operators: [{NAMED}, {SECOND.jwt()}]\nsystem_account: {SYSTEM.key}\n{MEMORY}",
            ["", "", "", "", NO],
        ),
        (f"trusted_keys: [{SECOND.key}]\n{MEMORY}", [NO, NO, NO, "", NO]),
        (
            f"operator: {NAMED}\n{MEMORY}resolver_pinned_accounts: [{ONE.key}]\n",
            ["", "", NO, NO, NO],
        ),
        (
            f"operator: {NAMED}\n{MEMORY}"
            f"default_sentinel: {TWO.user(USER, {'bearer_token': True})}\n",
            ["", "", "", NO, ""],
        ),
        (
            f"operator: {OPERATOR.jwt({'strict_signing_key_usage': True})}\n{MEMORY}",
            [NO, NO, NO, NO, NO],
        ),
    ],
    ids=["one", "two", "trusted keys", "pinned", "sentinel", "strict"],
)
def test_whoIsTrusted(tmp_path: Path, config: str, expected: list[str]) -> None:
    """Operators, pinned accounts and the default JWT decide which users are accepted."""
    with running(tmp_path, config) as both:
        assert both.compare(logins) == expected


class TestURL:
    """Accounts from an account server."""

    class Handler(BaseHTTPRequestHandler):
        """An HTTP handler that has the JWTs of two accounts."""

        def do_GET(self) -> None:
            """Answer with a JWT."""
            key = self.path.rpartition("/")[2]
            text = {"": "here", SYSTEM.key: TEXTS[SYSTEM.key], ONE.key: TEXTS[ONE.key]}.get(key)
            body = (text or "").encode()
            self.send_response(200 if text else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *unused: object) -> None:
            """Log nothing."""

    @contextmanager
    def accountServer(self, certificates: Path | None = None) -> Iterator[int]:
        """The port of an account server."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self.Handler)
        if certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates / "server.pem", certificates / "server-key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def test_knownAccounts(self, tmp_path: Path) -> None:
        """Accounts that the account server knows exist, and others do not."""
        with self.accountServer() as port:
            config = f"operator: {NAMED}\nresolver: URL(http://127.0.0.1:{port}/jwt/v1/accounts/)\n"
            with running(tmp_path, config) as both:
                assert both.compare(logins) == ["", "", NO, NO, NO]

    def test_namedByTheOperator(self, tmp_path: Path) -> None:
        """The operator's JWT may give the URL of the account server."""
        with self.accountServer() as port:
            nats = {
                "system_account": SYSTEM.key,
                "account_server_url": f"http://127.0.0.1:{port}/jwt/v1",
            }
            with running(tmp_path, f"operator: {OPERATOR.jwt(nats)}\n") as both:
                assert both.compare(logins) == ["", "", NO, NO, NO]

    def test_secure(self, tmp_path: Path) -> None:
        """An account server with TLS is accepted if its authority is named in C{resolver_tls}."""
        writeCertificates(tmp_path)
        with self.accountServer(tmp_path) as port:
            config = (
                f"operator: {NAMED}\nresolver: URL(https://localhost:{port}/jwt/v1/accounts/)\n"
                f'resolver_tls {{ ca_file: "{tmp_path}/ca.pem" }}\n'
            )
            with running(tmp_path, config) as both:
                assert both.compare(logins) == ["", "", NO, NO, NO]

    def test_untrustedServer(self, tmp_path: Path) -> None:
        """
        If the account server is not trusted, only a user signed by the system account's own key is
        accepted.
        """
        writeCertificates(tmp_path)
        with self.accountServer(tmp_path) as port:
            config = f"operator: {NAMED}\nresolver: URL(https://localhost:{port}/accounts/)\n"
            (tmp_path / "ours").mkdir()
            server = Server(OURS_FAST, tmp_path / "ours", config).start()
            try:
                assert logins(server) == ["", NO, NO, NO, NO]
                assert "could not be fetched" in server.log()
            finally:
                server.stop()


class TestReload:
    """JWTs of the configuration that change."""

    def test_preload(self, tmp_path: Path) -> None:
        """
        Users that are revoked, or whose account is removed, are disconnected by a reload. New
        accounts can be used, and other users stay.
        """

        def config(*texts: tuple[Account, str]) -> str:
            lines = "\n".join(f"{account.key}: {text}" for account, text in texts)
            return f"operator: {NAMED}\nresolver: MEMORY\nresolver_preload {{\n{lines}\n}}\n"

        new = Account(OPERATOR)
        revoked = TWO.jwt({"revocations": {"*": 1_700_000_000}})
        before = config((SYSTEM, SYSTEM.jwt()), (ONE, ONE.jwt()), (TWO, TWO.jwt()))
        after = config((SYSTEM, SYSTEM.jwt()), (TWO, revoked), (new, new.jwt()))

        def play(server: Server) -> list[str]:
            peers = [Peer(server) for _ in range(3)]
            accounts = (SYSTEM, ONE, TWO)
            for peer, account in zip(peers, accounts, strict=True):
                assert peer.login(account.user(USER), USER) == ""
            with closing(Peer(server)) as peer:
                assert peer.login(new.user(USER), USER) == NO
            server.writeConfig(after)
            server.signal("HUP")
            server.waitForLog("Reloaded server configuration")
            ends = [peers[1].end(), peers[2].end(), peers[0].ask(b"")]
            for account in (ONE, new):
                with closing(Peer(server)) as peer:
                    ends.append(peer.login(account.user(USER), USER))
            for peer in peers:
                peer.close()
            return ends

        with running(tmp_path, before) as both:
            assert both.compare(play) == [NO, "User Authentication Revoked", "", NO, ""]

    def test_otherOperator(self, tmp_path: Path) -> None:
        """A reload that changes the operators is refused, and disturbs no client."""

        other = SECOND.jwt({"system_account": SYSTEM.key})

        def play(server: Server) -> str:
            with closing(Peer(server)) as peer:
                assert peer.login(ONE.user(USER), USER) == ""
                server.writeConfig(f"operator: {other}\n{MEMORY}")
                server.signal("HUP")
                server.waitForLog("config reload not supported for TrustedOperators")
                return peer.ask(b"")

        with running(tmp_path, f"operator: {NAMED}\n{MEMORY}") as both:
            assert both.compare(play) == ""


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (f"operator: {ONE.jwt()}\nresolver: MEM", "error parsing operator JWT"),
        (
            f"operators: [{OPERATOR.jwt()}, {SECOND.jwt()}]",
            "operators require an account resolver to be configured",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver: MEM\naccounts {{ A {{}} }}",
            "operators do not allow Accounts to be configured directly",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver: MEM\n"
            "authorization { users: [{user: a, password: b}] }",
            "operators do not allow users to be configured directly",
        ),
        (
            f"operator: {OPERATOR.jwt()}\nresolver: MEM\ntrusted_keys: {OPERATOR.key}",
            "conflicting options for 'TrustedKeys' and 'TrustedOperators'",
        ),
        (f"operator: {NAMED}\nresolver: MEM", "error resolving system account: account missing"),
        (
            f"operator: {NAMED}\n{MEMORY}system_account: {ONE.key}",
            "system_account in config and operator JWT must be identical",
        ),
        (
            f'operator: {OPERATOR.jwt()}\nresolver {{ type: full, dir: "$DIR/jwt" }}',
            "using nats based account resolver - the system account needs to be specified",
        ),
        (
            f"operator: {NAMED}\n{MEMORY}default_sentinel: {ONE.user(USER)}",
            "default sentinel must be a bearer token",
        ),
        (f"default_sentinel: {ONE.user(USER)}", "default sentinel requires operators and accounts"),
        (
            f"operator: {OPERATOR.jwt({'assert_server_version': '2.16.0'})}\nresolver: MEM",
            "expected minor version 16 > server minor version 15",
        ),
        (f"operator: {NAMED}\n{MEMORY}resolver_pinned_accounts: x", "pinned account key"),
    ],
)
def test_mistakes(tmp_path: Path, config: str, words: str) -> None:
    """
    An invalid configuration is refused before anything listens, with the same error, also with -t.
    """
    requireRealServer()
    server = Server(REAL, tmp_path, config)
    with pytest.raises(RuntimeError) as refused:
        server.start()
    assert words in str(refused.value)
    output, errors = io.StringIO(), io.StringIO()
    path = server.writeConfig(config)
    assert main(["-t", "-c", str(path)], os.environ, output, errors) == 1
    assert words in errors.getvalue()
