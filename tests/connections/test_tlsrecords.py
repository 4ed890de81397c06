"""
Encryption and decryption of many TLS records at a time.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from OpenSSL import SSL

from natsbroker.config.model import TLSSettings
from natsbroker.connections.tls import Begin
from natsbroker.connections.tlscontext import contextFrom
from natsbroker.connections.tlsrecords import Records, opensslFunctions
from tests.connections.handshakes import Handshake
from tests.connections.recordlayers import Layer, drained, said
from tests.connections.tlspeers import Peer
from tests.interop.tls.authority import authority, issue
from tests.server.support import logLines
from tests.support import COMPILED, PURE, Names, needsCompiled, onEach, pieces, using


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> SSL.Context:
    """The TLS context of a server."""
    folder = tmp_path_factory.mktemp("sealing")
    issue(authority(), "CN=localhost").write(folder, "shown")
    return contextFrom(
        TLSSettings(certs=((str(folder / "shown.pem"), str(folder / "shown-key.pem")),))
    )


def shake(context: SSL.Context) -> Handshake:
    """Two ends that have finished their handshake."""
    return Handshake(context, SSL.Context(SSL.TLS_CLIENT_METHOD)).run()


@pytest.fixture
def shaken(context: SSL.Context) -> Handshake:
    """Two ends that have finished their handshake."""
    return shake(context)


@onEach
class TestRecords:
    """Encryption of all output of a turn together."""

    def records(self, names: Names, shaken: Handshake, layer: Layer) -> Records:
        """The records of the server's end."""
        with using(names):
            seal = shaken.server.seal()
        assert (seal is None) == (names is PURE)
        return Records(shaken.server, layer, seal)

    @pytest.mark.parametrize("size", [1, 16384, 16385, 1_000_000])
    def test_all(self, names: Names, shaken: Handshake, size: int) -> None:
        """All output arrives in order, with one call of the transport."""
        layer = Layer()
        records = self.records(names, shaken, layer)
        data = bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert records.write(data) == b""
        assert len(layer.wires) == 1
        shaken.client.bio_write(layer.wires[0])
        assert drained(shaken.client.recv) == data

    def test_closing(self, names: Names, shaken: Handshake) -> None:
        """Output during the end of a connection is dropped by the layer."""
        layer = Layer()
        layer.disconnecting = True
        assert self.records(names, shaken, layer).write(b"x") == b"x"
        assert layer.wires == []

    def test_failure(self, names: Names, shaken: Handshake) -> None:
        """
        An error of OpenSSL is raised by the layer for the remaining output, and earlier output is
        sent.
        """
        layer = Layer()
        shaken.server.shutdown()
        assert self.records(names, shaken, layer).write(b"x") == b"x"
        assert len(layer.wires) == 1

    def test_before(self, names: Names, shaken: Handshake) -> None:
        """Output that is already in the BIO is sent first, in order, however long it is."""
        layer = Layer()
        records = self.records(names, shaken, layer)
        before = bytes(range(250)) * 400
        rest = memoryview(before)
        while rest:
            rest = rest[shaken.server.send(rest) :]
        assert records.write(b"after") == b""
        shaken.client.bio_write(b"".join(layer.wires))
        assert drained(shaken.client.recv) == before + b"after"

    def test_handedBack(self, names: Names, shaken: Handshake) -> None:
        """A connection whose TLS has ended gives all further output to the layer."""
        with using(names):
            peer = Peer(Begin.AFTER_INFO)
            peer.protocol.connection = shaken.server
            peer.shake()
            shaken.server.shutdown()
            peer.receive()
            peer.protocol.write(b"one")
            peer.protocol.write(b"two")
            assert peer.receive().endswith(b"onetwo")


class Reader:
    """
    The server's end, with a decoder that receives the input.

    @ivar came: the content of the decoder at each call.
    """

    def __init__(self, shaken: Handshake) -> None:
        assert COMPILED is not None
        self.came: list[bytes] = []
        self.server = shaken.server
        self.decoder = COMPILED.Decoder(1 << 22, 1 << 22)
        with using(COMPILED):
            self.seal = shaken.server.seal()
        self.server.readInto(self.seal, self.decoder, self.proceed)

    def proceed(self) -> None:
        """Take the complete lines."""
        while True:
            frame = self.decoder.next()
            if frame is None:
                return
            self.came.append(frame[4])

    def take(self, wires: bytes) -> None:
        """Receive bytes as Twisted's layer does."""
        self.server.bio_write(wires)
        with pytest.raises(SSL.WantReadError):
            self.server.recv(1 << 15)


def publishes(*payloads: bytes) -> bytes:
    """The frames of messages."""
    return b"".join(b"PUB a %d\r\n%b\r\n" % (len(payload), payload) for payload in payloads)


@needsCompiled
class TestReading:
    """Decryption of all available input together."""

    @given(st.data())
    def test_anySplit(self, context: SSL.Context, data: st.DataObject) -> None:
        """All messages arrive once and in order, however the bytes are written and cut."""
        payloads = data.draw(st.lists(st.binary(max_size=40_000), min_size=1, max_size=6))
        text = publishes(*payloads)
        places = st.lists(st.integers(1, len(text)), max_size=4)
        shaken = shake(context)
        reader = Reader(shaken)
        written = [said(shaken.client, piece) for piece in pieces(text, data.draw(places))]
        wires = b"".join(written)
        cuts = data.draw(st.lists(st.integers(1, len(wires)), max_size=4))
        for piece in pieces(wires, cuts):
            reader.take(piece)
        assert reader.came == payloads
        assert reader.decoder.received == len(text)

    def test_much(self, shaken: Handshake) -> None:
        """Input that exceeds the shared buffer is handled in parts."""
        reader = Reader(shaken)
        payloads = [bytes([number]) * 1_000_000 for number in range(3)]
        reader.take(said(shaken.client, publishes(*payloads)))
        assert reader.came == payloads
        assert reader.decoder.pending == 0

    def test_answer(self, shaken: Handshake) -> None:
        """A session may answer over the same connection while it handles input."""
        reader = Reader(shaken)
        layer = Layer()
        records = Records(shaken.server, layer, reader.seal)

        def answer() -> None:
            reader.proceed()
            while reader.came:
                records.write(reader.came.pop(0))

        shaken.server.readInto(reader.seal, reader.decoder, answer)
        for payload in (b"one", b"x" * 300_000):
            reader.take(said(shaken.client, publishes(payload)))
        shaken.client.bio_write(b"".join(layer.wires))
        assert drained(shaken.client.recv) == b"one" + b"x" * 300_000

    def test_another(self, context: SSL.Context, shaken: Handshake) -> None:
        """Input of another connection that arrives while one is handled does not mix with it."""
        other = shake(context)
        reader, second = Reader(shaken), Reader(other)

        def meanwhile() -> None:
            second.take(said(other.client, publishes(b"b" * 5000)))
            reader.proceed()

        shaken.server.readInto(reader.seal, reader.decoder, meanwhile)
        whole = publishes(b"a" * 5000, b"c" * 5000)
        for part in (whole[:7000], whole[7000:]):
            reader.take(said(shaken.client, part))
        assert reader.came == [b"a" * 5000, b"c" * 5000]
        assert second.came == [b"b" * 5000] * 2

    def test_closed(self, shaken: Handshake) -> None:
        """Input before the end is handled before the end is reported."""
        reader = Reader(shaken)
        wires = said(shaken.client, publishes(b"last"))
        shaken.client.shutdown()
        shaken.server.bio_write(wires + drained(shaken.client.bio_read))
        with pytest.raises(SSL.ZeroReturnError):
            shaken.server.recv(1)
        assert reader.came == [b"last"]

    def test_broken(self, context: SSL.Context, shaken: Handshake) -> None:
        """
        A record that was changed in transit is reported after the earlier records, and affects no
        other connection.
        """
        errors = []
        for pair in (shake(context), shaken):
            reader = Reader(pair) if pair is shaken else None
            good = said(pair.client, publishes(b"good"))
            bad = bytearray(said(pair.client, publishes(b"bad")))
            bad[-1] ^= 1
            pair.server.bio_write(good + bytes(bad))
            with pytest.raises(SSL.Error) as caught:
                while pair.server.recv(100):
                    pass
            errors.append(str(caught.value))
        assert reader is not None and reader.came == [b"good"]
        assert errors[0] == errors[1]
        unconcerned = shake(context)
        with pytest.raises(SSL.WantReadError):
            unconcerned.server.recv(1)

    def test_after(self, shaken: Handshake) -> None:
        """A connection whose decoder was removed returns its input to the caller."""
        reader = Reader(shaken)
        shaken.server.forget()
        shaken.server.bio_write(said(shaken.client, b"x"))
        assert shaken.server.recv(10) == b"x"
        assert reader.came == []

    def test_failed(self, shaken: Handshake) -> None:
        """An exception of the session that handles input leaves the shared buffer usable."""
        reader = Reader(shaken)

        def fail() -> None:
            raise LookupError

        shaken.server.readInto(reader.seal, reader.decoder, fail)
        shaken.server.bio_write(said(shaken.client, publishes(b"kept")))
        with pytest.raises(LookupError):
            shaken.server.recv(1)
        shaken.server.readInto(reader.seal, reader.decoder, reader.proceed)
        reader.take(said(shaken.client, publishes(b"next")))
        assert reader.came == [b"kept", b"next"]


class TestSeals:
    """The conditions for a compiled seal."""

    def test_notCompiled(self, shaken: Handshake) -> None:
        """There is no seal without the compiled lane."""
        with using(PURE):
            assert shaken.server.seal() is None

    @needsCompiled
    def test_nowhere(self, shaken: Handshake, monkeypatch: pytest.MonkeyPatch) -> None:
        """There is no seal if the cryptography package does not give the address of OpenSSL."""
        assert COMPILED is not None
        monkeypatch.setattr("natsbroker.connections.tlsrecords.opensslFunctions", tuple)
        with using(COMPILED):
            assert shaken.server.seal() is None

    def test_opensslFunctionsAreKnown(self) -> None:
        """
        The private names of the cryptography package with the addresses of OpenSSL exist. Without
        them TLS falls back to pyOpenSSL, which is slower, and only this test reports that.
        """
        functions = opensslFunctions()
        assert len(functions) == 7 and all(functions)

    @needsCompiled
    def test_connectionHasASeal(self, shaken: Handshake) -> None:
        """The private names of pyOpenSSL with the address of a connection exist."""
        assert COMPILED is not None
        with using(COMPILED):
            assert shaken.server.seal() is not None

    @needsCompiled
    def test_waitingMovesOn(self, shaken: Handshake) -> None:
        """The buffers of a seal take over the records that wait in the buffers before."""
        assert COMPILED is not None
        server, client = shaken.server, shaken.client
        server.bio_write(said(client, b"came"))
        server.send(b"goes")
        with using(COMPILED):
            assert server.seal() is server.seal() is not None
        server.renewBuffers()
        client.bio_write(drained(server.bio_read))
        assert (server.recv(10), client.recv(10)) == (b"came", b"goes")

    def test_missingFunctionsAreLogged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The fallback without private names of cryptography is logged once."""
        opensslFunctions.cache_clear()
        monkeypatch.setattr("natsbroker.connections.tlsrecords.import_module", lambda name: None)
        try:
            with logLines() as lines:
                assert opensslFunctions() == opensslFunctions() == ()
        finally:
            opensslFunctions.cache_clear()
        [line] = lines
        assert line.startswith(
            "[WRN] TLS connections do not use the lane: cryptography does not tell"
        )

    @needsCompiled
    @pytest.mark.parametrize("missing", range(10))
    def test_addresses(self, missing: int) -> None:
        """A missing address is refused."""
        assert COMPILED is not None
        addresses = [8] * 10
        addresses[missing] = 0
        with pytest.raises(ValueError, match="an address is missing"):
            COMPILED.Seal(None, *addresses[:8]).use(*addresses[8:])

    @needsCompiled
    def test_switchedOff(self, shaken: Handshake) -> None:
        """There is no seal if the settings disable the lane."""
        assert COMPILED is not None
        with using(COMPILED):
            peer = Peer(Begin.AFTER_INFO)
            peer.world.context.fastLane = False
            peer.protocol.connection = shaken.server
            peer.shake()
        shaken.server.bio_write(said(shaken.client, b"PING\r\n"))
        assert shaken.server.recv(10) == b"PING\r\n"
