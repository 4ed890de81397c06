"""The blocking connection: with nats-server 2.15, and with servers that send invalid output."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from natsbroker.config.addresses import RemoteURL
from natsbroker.spark.errors import ApiError, ConnectionFailed, OptionError, TimedOut
from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from natsbroker.spark.nats.connection import BlockingConnection, connect
from natsbroker.wire import ops
from natsbroker.wire.serverside import publishLine
from tests.auth.operator.chain import Account, KeyPair, Operator, credentialsFile
from tests.interop.certificates import writeCertificates
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, REAL, Flavour
from tests.spark.peers import peerOf


def echoes(peer: ServerAccess) -> bool:
    """
    @return: whether a message goes to the server and back to another connection.
    """
    with connect(peer) as asking, connect(peer) as answering:
        answering.send(b"SUB echo 7\r\nPING\r\n")
        deadline = time.monotonic() + 10
        while answering.receive(deadline)[0] != ops.PONG:
            pass
        reply = asking.ask("echo", b"hello")
        frame = answering.receive(deadline)
        answering.publish(frame[3].decode(), frame[5])
        return asking.answer(reply) == (0, b"hello")


@pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
class TestCredentials:
    """Every kind of credential, with nats-server and with ours."""

    def test_password(self, flavour: Flavour, startServer: StartServer) -> None:
        """A name and a password, as options or in the address; a wrong one is refused."""
        server = startServer(flavour, "authorization { user: anna, password: apple }\n")
        assert echoes(peerOf(server, user="anna", password="apple"))
        assert echoes(ServerAccess(readAddresses(f"nats://anna:apple@127.0.0.1:{server.port}")))
        with pytest.raises(ConnectionFailed, match=r"127.0.0.1:\d+: Authorization Violation"):
            connect(peerOf(server, user="anna", password="pear"))

    def test_token(self, flavour: Flavour, startServer: StartServer) -> None:
        """A token, as an option or in the address."""
        server = startServer(flavour, "authorization { token: t0ken }\n")
        assert echoes(peerOf(server, token="t0ken"))
        assert echoes(ServerAccess(readAddresses(f"nats://t0ken@127.0.0.1:{server.port}")))

    def test_nkey(self, flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
        """The seed of an nkey in a file."""
        user = KeyPair("U")
        path = tmp_path / "seed"
        path.write_bytes(user.seed)
        server = startServer(flavour, f"authorization {{ users: [ {{ nkey: {user.key} }} ] }}\n")
        assert echoes(peerOf(server, nkeySeedFile=str(path)))

    def test_credentialsFile(
        self, flavour: Flavour, startServer: StartServer, tmp_path: Path
    ) -> None:
        """A JWT and a seed in a file, with a server in operator mode."""
        operator = Operator()
        account, user = Account(operator), KeyPair("U")
        path = tmp_path / "user.creds"
        path.write_text(credentialsFile(account.user(user), user))
        config = (
            f"operator: {operator.jwt()}\nresolver: MEMORY\n"
            f"resolver_preload {{ {account.key}: {account.jwt()} }}\n"
        )
        server = startServer(flavour, config)
        assert echoes(peerOf(server, credentialsFile=str(path)))

    def test_certificate(self, flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
        """A certificate names the user. Without one, or without trust, there is no connection."""
        writeCertificates(tmp_path)
        server = startServer(
            flavour,
            f"tls {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server-key.pem,"
            f" ca_file: {tmp_path}/ca.pem, verify_and_map: true }}\n"
            'authorization { users: [ { user: "alice@example.com" } ] }\n',
        )
        ca = str(tmp_path / "ca.pem")
        cert, key = str(tmp_path / "client.pem"), str(tmp_path / "client-key.pem")
        ours = peerOf(server, tlsCa=ca, tlsCert=cert, tlsKey=key)
        assert echoes(ours)
        with pytest.raises(ConnectionFailed):
            connect(peerOf(server, tlsCa=ca))
        with pytest.raises(ConnectionFailed, match="the certificate is refused"):
            connect(replace(ours, tlsCa=""))
        with pytest.raises(ConnectionFailed, match=r"refused: .*other"):
            connect(replace(ours, tlsServerName="other"))


class TestTLS:
    """TLS that fails."""

    def test_serverWithout(self, startServer: StartServer) -> None:
        """If TLS is required and the server does not offer it, the connection fails."""
        server = startServer(REAL)
        for peer in (
            peerOf(server, tls=True),
            ServerAccess((RemoteURL("127.0.0.1", server.port, isTLS=True),)),
        ):
            with pytest.raises(ConnectionFailed, match="the server does not offer TLS"):
                connect(peer)

    def test_tlsFirst(self, startServer: StartServer, tmp_path: Path) -> None:
        """With C{tlsFirst}, TLS begins before INFO."""
        writeCertificates(tmp_path)
        server = startServer(
            REAL,
            f"tls {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server-key.pem,"
            " handshake_first: true }\n",
        )
        assert echoes(peerOf(server, tlsFirst=True, tlsCa=str(tmp_path / "ca.pem")))


@contextmanager
def scripted(play: Callable[[socket.socket], object]) -> Iterator[ServerAccess]:
    """
    A server that plays something on its first connection.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                play(accepted)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = RemoteURL("127.0.0.1", listener.getsockname()[1])
        yield ServerAccess((address,), connectTimeout=5.0, requestTimeout=0.2)
        thread.join(10)


INFO = b'INFO {"server_id":"X","max_payload":1048576}\r\n'


def welcome(peer: socket.socket) -> None:
    """
    Let a client in.
    """
    peer.sendall(INFO)
    received = b""
    while not received.endswith(b"PING\r\n"):
        received += peer.recv(4096)
    peer.sendall(b"PONG\r\n")


class TestStrangeServers:
    """Misbehaviour of a server."""

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a NATS server"),
            (b"PING\r\nPONG\r\n", "no greeting"),
            (b"INFO nonsense\r\n", "INFO is malformed"),
            (b"", "closed the connection"),
            (INFO + b"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded"),
            (
                b'INFO {"tls_required":true}\r\nPONG\r\n',
                "the server sent data before TLS could begin",
            ),
        ],
    )
    def test_greeting(self, said: bytes, why: str) -> None:
        """An invalid greeting ends the connection, and the error shows it."""

        def play(peer: socket.socket) -> None:
            peer.sendall(said)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass

        with scripted(play) as peer, pytest.raises(ConnectionFailed, match=why):
            connect(peer)

    def test_pingsBetween(self) -> None:
        """PING and INFO that arrive while an answer is awaited are handled."""
        heard: list[bytes] = []

        def play(peer: socket.socket) -> None:
            welcome(peer)
            line = peer.recv(4096)
            reply = line.split()[2]
            peer.sendall(b'PING\r\nINFO {"server_name":"new"}\r\n+OK\r\n')
            peer.sendall(b"MSG %b.stale 1 1\r\nx\r\nMSG %b 1 2\r\nok\r\n" % (reply, reply))
            heard.append(peer.recv(4096))

        with scripted(play) as peer, connect(peer) as connection:
            assert connection.request("a", b"") == b"ok"
            assert connection.info == {"server_name": "new"}
        assert heard == [b"PONG\r\n"]

    def test_silence(self) -> None:
        """A request without an answer ends at the timeout, and the error names it."""

        def play(peer: socket.socket) -> None:
            welcome(peer)
            while peer.recv(4096):
                pass

        with scripted(play) as peer, connect(peer) as connection:
            with pytest.raises(TimedOut, match=r"no answer to some.thing within 0.2s"):
                connection.request("some.thing")

    def test_goneInBetween(self) -> None:
        """If the server closes the connection while an answer is awaited, the error says so."""

        def play(peer: socket.socket) -> None:
            welcome(peer)
            peer.recv(4096)
            peer.sendall(b"MSG ")

        with scripted(play) as peer, connect(peer) as connection:
            with pytest.raises(ConnectionFailed, match="closed the connection"):
                connection.request("a")

    def test_reset(self) -> None:
        """A connection that is reset counts as closed by the server."""

        def play(peer: socket.socket) -> None:
            welcome(peer)
            peer.recv(4096)
            reset(peer)

        with scripted(play) as peer, connect(peer) as connection:
            with pytest.raises(ConnectionFailed, match=r": the server closed the connection$"):
                connection.request("a")

    def test_resetBeforeSending(self) -> None:
        """
        A connection that is reset counts as closed by the server, also for a client that only
        sends.
        """
        isGone = threading.Event()

        def play(peer: socket.socket) -> None:
            welcome(peer)
            reset(peer)
            isGone.set()

        with scripted(play) as peer, connect(peer) as connection:
            assert isGone.wait(60)
            with pytest.raises(ConnectionFailed, match=r": the server closed the connection$"):
                connection.send(b"PUB a 1\r\nx\r\n")
                connection.send(b"PUB a 1\r\nx\r\n")


def reset(peer: socket.socket) -> None:
    """
    Close at once, with a RST.
    """
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


class TestServers:
    """Several servers, and their refusals."""

    def test_nextServer(self, startServer: StartServer) -> None:
        """A server that is down is skipped. If all are down, the error names each."""
        server = startServer(REAL)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            gone = listener.getsockname()[1]
        addresses = readAddresses(f"127.0.0.1:{gone},127.0.0.1:{server.port}")
        for first in range(3):
            with connect(ServerAccess(addresses), first) as connection:
                assert connection.info["port"] == server.port
        with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{gone}: Connection refused"):
            connect(ServerAccess(addresses[:1]))

    def test_badFileIsNotPassedOver(self, startServer: StartServer) -> None:
        """A missing credentials file is an error at once, without trying other servers."""
        server = startServer(REAL, "authorization { token: t }\n")
        with pytest.raises(OptionError, match="cannot read /nowhere/x"):
            connect(peerOf(server, credentialsFile="/nowhere/x"))

    def test_nobodyAnswers(self, startServer: StartServer) -> None:
        """A request to a subject without a subscriber ends at once."""
        with connect(peerOf(startServer(REAL))) as connection:
            with pytest.raises(ApiError, match=r"no responders for no\.body") as caught:
                connection.request("no.body")
            assert caught.value.code == 503

    @pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)
    def test_noHeaders(self, flavour: Flavour, startServer: StartServer) -> None:
        """A server without headers reports no missing responders, so the request times out."""
        server = startServer(flavour, "no_header_support: true\n")
        assert echoes(peerOf(server))
        peer = replace(peerOf(server), requestTimeout=0.5)
        with connect(peer) as connection, pytest.raises(TimedOut, match=r"no answer to no\.body"):
            connection.request("no.body")

    def test_permission(self, startServer: StartServer) -> None:
        """
        A request without permission raises that error. The inbox prefix can be one that is allowed.
        """
        server = startServer(
            REAL,
            "authorization { users: [ { user: anna, password: apple, permissions:"
            ' { publish: ["ok"], subscribe: ["mine.>"] } } ] }\n',
        )
        peer = peerOf(server, user="anna", password="apple")
        with pytest.raises(ConnectionFailed, match="Permissions Violation for Subscription"):
            connect(peer)
        with connect(replace(peer, inboxPrefix="mine")) as connection:
            with pytest.raises(ApiError, match="Permissions Violation for Publish"):
                connection.request("secret")
            with pytest.raises(ApiError, match="no responders for ok"):
                connection.request("ok")

    def test_composed(self, startServer: StartServer) -> None:
        """Requests are composed correctly, whether subject and headers change or not."""
        with connect(peerOf(startServer(REAL))) as connection:
            for subject in (b"a", b"a", b"b", b"b"):
                for headers in (b"", b"NATS/1.0\r\n\r\n"):
                    reply, parts = connection.composed(subject, b"data", headers)
                    size = len(headers) + 4
                    line = publishLine(subject, reply, len(headers), size)
                    assert b"".join(parts) == line + headers + b"data\r\n"
            with pytest.raises(ValueError, match="not a subject"):
                connection.composed(b"b.*", b"", b"")

    def test_invalidSubject(self, startServer: StartServer) -> None:
        """A subject that would break the line is refused before it is sent."""
        with connect(peerOf(startServer(REAL))) as connection:
            with pytest.raises(ValueError, match="not a subject to publish to"):
                connection.request("a b\r\nPUB c")

    def test_closedTwice(self, startServer: StartServer) -> None:
        """After the end nothing can be sent. Closing again does nothing."""
        server = startServer(REAL)
        connection = BlockingConnection(peerOf(server), readAddresses(server.url)[0])
        connection.close()
        connection.close()
        with pytest.raises(ConnectionFailed):
            connection.send(b"PING\r\n")
