"""
The JetStream API, as nats-server 2.15 answers it.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.errors import ApiError, OptionError
from natsbroker.spark.logs.apis import NO_STREAM, StreamApi, checkedName
from natsbroker.spark.nats.connection import connect
from tests.interop.conftest import StartServer
from tests.interop.servers import REAL
from tests.spark.peers import peerOf
from tests.spark.support import Station


class TestState:
    """The state of a stream's leader."""

    def test_empty(self, station: Station) -> None:
        """A stream without messages begins and ends at its next sequence."""
        stream = station.stream()
        state = station.streams.state(stream.name)
        assert (state.first, state.stop, state.messages) == (1, 1, 0)

    def test_sequences(self, station: Station) -> None:
        """
        The state has the first and next sequence and the deleted ones. After a purge the first is
        the next.
        """
        stream = station.stream()
        stream.fill([b"x"] * 6)
        stream.delete(1, 3)
        state = station.streams.state(stream.name, withDeleted=True)
        assert (state.first, state.stop, state.messages) == (2, 7, 4)
        assert state.deleted == {3}
        assert state.isDirect
        assert state.size > 0
        stream.api("PURGE")
        state = station.streams.state(stream.name)
        assert (state.first, state.stop, state.messages) == (7, 7, 0)

    def test_manyDeleted(self, station: Station) -> None:
        """All deleted sequences, although they are many, come in one answer."""
        stream = station.stream(max_msgs_per_subject=1)
        for _ in range(3):
            stream.fill([b"x"] * 2000)
        stream.add("y", b"")
        stream.fill([b"x"] * 2)
        state = station.streams.state(stream.name, withDeleted=True)
        assert state.first == 6001
        assert state.deleted == {6002}

    def test_madeAgain(self, station: Station) -> None:
        """A stream that was deleted and made again was created at another time."""
        stream = station.stream()
        before = station.streams.state(stream.name).created
        stream.api("DELETE")
        with pytest.raises(ApiError, match=f"stream {stream.name}: stream not found") as caught:
            station.streams.state(stream.name)
        assert caught.value.code == NO_STREAM
        stream.make()
        assert station.streams.state(stream.name).created != before

    def test_notDirect(self, station: Station) -> None:
        """The state says whether the stream allows direct get."""
        assert not station.streams.state(station.stream(allow_direct=False).name).isDirect


class TestFinding:
    """Sequences that the leader finds."""

    def test_nextMessage(self, station: Station) -> None:
        """The next stored message is found, of any subject or of the given ones."""
        stream = station.stream()
        for subject in ("a", "b", "a", "c.d"):
            stream.add(subject, b"x")
        stream.delete(1)
        streams, name = station.streams, stream.name
        assert [streams.next(name, seq) for seq in (0, 1, 2, 4, 5)] == [2, 2, 2, 4, None]
        assert streams.next(name, 1, f"{name}.a") == 3
        assert streams.next(name, 1, f"{name}.c.*") == 4
        assert streams.next(name, 1, f"{name}.z") is None

    def test_firstSince(self, station: Station) -> None:
        """The first message at or after a time is found."""
        stream = station.stream()
        stream.fill([b"x"] * 2)
        assert station.streams.firstSince(stream.name, "2020-01-01T00:00:00Z") == 1
        assert station.streams.firstSince(stream.name, "2199-01-01T00:00:00Z") is None


class TestRefusals:
    """Refused requests."""

    @pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "a\r\nPUB", "a/b"])
    def test_names(self, name: str) -> None:
        """A name that would lead to another API subject is refused."""
        with pytest.raises(OptionError, match="no stream can be called"):
            checkedName(name)

    def test_domain(self, station: Station) -> None:
        """A domain must be a single token. A domain that does not exist has no responders."""
        with pytest.raises(OptionError, match="no domain can be called"):
            StreamApi(station.connection, "a.b")
        with pytest.raises(
            ApiError, match=r"no responders for \$JS.far.API.STREAM.INFO.X: JetStream"
        ):
            StreamApi(station.connection, "far").state("X")

    def test_noJetStream(self, startServer: StartServer) -> None:
        """A server without JetStream gives that error."""
        with connect(peerOf(startServer(REAL))) as connection:
            with pytest.raises(ApiError, match=r"stream X: no responders for .*JetStream is not"):
                StreamApi(connection).state("X")

    @pytest.mark.parametrize("answer", [b"nonsense", b"[]", b'{"config":{}}', b'{"message":{}}'])
    def test_strangeAnswers(self, answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        """An answer that is malformed is an error that names the stream."""

        class Asked:
            def request(self, subject: str, payload: bytes) -> bytes:
                return answer

        streams = StreamApi(Asked())  # type: ignore[arg-type]
        for ask in (streams.state, lambda name: streams.next(name, 1)):
            with pytest.raises(ApiError, match=r"stream X: .*(not JSON|malformed)"):
                ask("X")
