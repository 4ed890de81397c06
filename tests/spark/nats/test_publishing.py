"""
Publishing with acknowledgements, to nats-server 2.15.
"""

from __future__ import annotations

import base64
import json

import pytest

from natsbroker.spark.errors import ApiError, DataSourceError, TimedOut
from natsbroker.spark.nats.connection import connect
from natsbroker.spark.nats.publishing import Publisher
from tests.spark.support import Station, Stream


def publisherTo(station: Station, stream: Stream, window: int = 10) -> Publisher:
    """
    @return: a publisher that uses a connection of the test.
    """
    return Publisher(station.connection, stream.name, window)


class TestStored:
    """Messages that the stream takes."""

    @pytest.mark.parametrize("window", [1, 2, 7, 1000])
    def test_inOrder(self, window: int, station: Station) -> None:
        """Every message is acknowledged, and stored in order, whatever the window."""
        stream = station.stream()
        publisher = publisherTo(station, stream, window)
        for number in range(50):
            publisher.publish(f"{stream.name}.x", b"%d" % number)
        publisher.finish()
        assert (publisher.stored, publisher.duplicates) == (50, 0)
        state = station.streams.state(stream.name)
        assert (state.first, state.stop, state.messages) == (1, 51, 50)
        answer = stream.api("MSG.GET", {"seq": 50})
        assert answer["message"]["data"] == "NDk="  # 49

    def test_headers(self, station: Station) -> None:
        """Headers keep their order and repetitions."""
        stream = station.stream()
        publisher = publisherTo(station, stream)
        publisher.publish(f"{stream.name}.x", b"", [("K", "v"), ("k", "é"), ("K", "")], "one")
        publisher.finish()
        stored = base64.b64decode(stream.api("MSG.GET", {"seq": 1})["message"]["hdrs"])
        ours = f"NATS/1.0\r\nNats-Expected-Stream: {stream.name}\r\nNats-Msg-Id: one\r\n"
        assert stored.decode() == f"{ours}K: v\r\nk: é\r\nK: \r\n\r\n"
        publisher.publish(f"{stream.name}.x", b"", msgId="two é")
        publisher.finish()
        stored = base64.b64decode(stream.api("MSG.GET", {"seq": 2})["message"]["hdrs"])
        assert stored.decode() == ours.replace("one", "two é") + "\r\n"

    def test_duplicates(self, station: Station) -> None:
        """A repetition is dropped by its id, and counted."""
        stream = station.stream()
        for expected in (0, 3):
            publisher = publisherTo(station, stream)
            for number in range(3):
                publisher.publish(f"{stream.name}.x", b"", msgId=f"id-{number}")
            publisher.finish()
            assert (publisher.stored, publisher.duplicates) == (3, expected)
        assert station.streams.state(stream.name).messages == 3

    def test_largeMessages(self, station: Station) -> None:
        """Messages that are larger than the buffer are sent as well."""
        stream = station.stream()
        publisher = publisherTo(station, stream)
        for _ in range(5):
            publisher.publish(f"{stream.name}.x", b"x" * 500_000)
        publisher.finish()
        assert station.streams.state(stream.name).messages == 5


class TestRefused:
    """Messages that the stream refuses."""

    def test_tooLarge(self, station: Station) -> None:
        """A message that exceeds the server's max_payload is refused before it is sent."""
        stream = station.stream()
        with pytest.raises(
            DataSourceError, match=r"has 10\d+ bytes .*, and the server takes 1048576"
        ):
            publisherTo(station, stream).publish(f"{stream.name}.x", b"x" * 1048576)

    @pytest.mark.parametrize("subject", ["", "a b", "a.*", "a\r\nPUB b", "é\x00"])
    def test_badSubject(self, subject: str, station: Station) -> None:
        """A text that is no subject to publish to is refused."""
        with pytest.raises(DataSourceError, match="not a subject to publish to"):
            publisherTo(station, station.stream()).publish(subject, b"")

    def test_badHeader(self, station: Station) -> None:
        """A header that would break the block is refused."""
        stream = station.stream()
        with pytest.raises(DataSourceError, match="not the value of a header"):
            publisherTo(station, stream).publish(f"{stream.name}.x", b"", [("K", "a\r\nb: c")])

    @pytest.mark.parametrize("pairs", [[], [("K", "v")]])
    def test_badId(self, pairs: list[tuple[str, str]], station: Station) -> None:
        """An id that would break the block is refused."""
        stream = station.stream()
        with pytest.raises(DataSourceError, match="not the value of a header"):
            publisherTo(station, stream).publish(f"{stream.name}.x", b"", pairs, "a\r\nb: c")

    def test_noStream(self, station: Station) -> None:
        """Publishing to a subject that no stream takes is an error."""
        publisher = publisherTo(station, station.stream())
        publisher.publish("nobody.takes.this", b"")
        with pytest.raises(ApiError, match=r"nobody\.takes\.this was not stored: no stream takes"):
            publisher.finish()

    def test_otherStream(self, station: Station) -> None:
        """A message whose subject belongs to another stream is refused by that stream."""
        stream, other = station.stream(), station.stream()
        publisher = publisherTo(station, stream)
        publisher.publish(f"{other.name}.x", b"")
        with pytest.raises(ApiError, match="expected stream does not match"):
            publisher.finish()
        assert station.streams.state(other.name).messages == 0

    def test_fullStream(self, station: Station) -> None:
        """A message that a full stream refuses is an error with the server's reason."""
        stream = station.stream(max_msgs=2, discard="new")
        publisher = publisherTo(station, stream)
        for _ in range(3):
            publisher.publish(f"{stream.name}.x", b"")
        with pytest.raises(ApiError, match=r"was not stored: maximum messages exceeded") as caught:
            publisher.finish()
        assert caught.value.code == 10077

    def test_silence(self, station: Station) -> None:
        """Messages that are not acknowledged in time are counted."""
        peer = station.peer
        with (
            connect(peer) as swallowing,
            connect(type(peer)(peer.addresses, requestTimeout=0.2)) as mine,
        ):
            swallowing.send(b"SUB quiet 7\r\n")
            swallowing.request(f"$JS.API.STREAM.INFO.{station.stream().name}")
            publisher = Publisher(mine, "S", 10)
            publisher.publish("quiet", b"")
            with pytest.raises(TimedOut, match="stream S: 1 messages were not acknowledged"):
                publisher.finish()

    @pytest.mark.parametrize(
        "answer",
        [
            b"nonsense",
            b"[]",
            json.dumps({"stream": "S"}).encode(),
            json.dumps({"stream": "OTHER", "seq": 1}).encode(),
        ],
    )
    def test_strangeAnswer(self, answer: bytes, station: Station) -> None:
        """An acknowledgement that is malformed, or of another stream, is an error."""
        with connect(station.peer) as answering:
            answering.send(b"SUB odd 7\r\n")
            answering.request(f"$JS.API.STREAM.INFO.{station.stream().name}")
            publisher = Publisher(station.connection, "S", 10)
            publisher.publish("odd", b"")
            publisher.pipeline.flush()
            _, reply, _, _ = answering.anyMessage()
            answering.publish(reply.decode(), answer)
            with pytest.raises(ApiError, match=r"not JSON|malformed|stream 'OTHER' took it"):
                publisher.finish()
