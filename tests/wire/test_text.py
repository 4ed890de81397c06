"""
Tests for L{natsbroker.wire.text}.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from natsbroker.wire.text import REPLACED, decoded, encoded, whole


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"foo.b\xc3\xa4r", "foo.b\xe4r"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xe2\x82.", "\ufffd\ufffd."),
        (b"\xf0\x9f\x98", "\ufffd\ufffd\ufffd"),
    ],
)
def test_decoded(data: bytes, text: str) -> None:
    """Each byte that is not UTF-8 is one U+FFFD, as in Go."""
    assert decoded(data) == text


@given(st.binary(max_size=12))
def test_encoded(data: bytes) -> None:
    """Text that was decoded with C{surrogateescape} is encoded to the original bytes."""
    assert encoded(data.decode("utf-8", "surrogateescape")).decode("utf-8") == decoded(data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud800"', "\ufffd"),
        (r'"\uDFFF\ud800x"', "\ufffd\ufffdx"),
        (r'"\\ud800\u00e4"', "\\ud800\xe4"),
        (r'"\\\ud800"', "\\\ufffd"),
    ],
)
def test_surrogates(text: str, value: str) -> None:
    """A lone surrogate becomes U+FFFD; other text stays unchanged."""
    assert json.loads(whole(text)) == value


def test_otherErrors() -> None:
    """The handler raises errors that are not about encoding."""
    with pytest.raises(UnicodeTranslateError):
        codecs.lookup_error(REPLACED)(UnicodeTranslateError("a", 0, 1, "no"))


CONFIG = """
jetstream { backend: memory }
streaming { id: tc, account: A }
accounts {
    A { jetstream: enabled, users: [ {user: a, password: a} ] }
    SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
"""

ODD = b"o\xff\xed\xa0\x80"
REPLY = b"odd." + ODD
STREAM = (
    b'{"name":"S","subjects":["s.>"],"storage":"memory","allow_direct":true,"allow_atomic":true,'
)
STREAM += b'"allow_rollup_hdrs":true,"allow_msg_ttl":true,"allow_msg_schedules":true}'
CONSUMER = b'{"stream_name":"S","config":{"name":"%b","description":"%b","ack_policy":"explicit"}}'

HEADERS = [
    *(b"Nats-Msg-Id: %b" % ODD, b"Nats-Expected-Last-Msg-Id: x%b" % ODD),
    *(b"Nats-Expected-Stream: %b" % ODD, b"Nats-Rollup: %b" % ODD, b"Nats-TTL: %b" % ODD),
    b"Nats-Batch-Id: %b\r\nNats-Batch-Sequence: 1" % ODD,
    b"Nats-Batch-Id: %b\r\nNats-Batch-Sequence: 2\r\nNats-Batch-Commit: 1" % ODD,
    b"Nats-Batch-Id: x%b\r\nNats-Batch-Sequence: 5" % ODD,
    b"Nats-Schedule: @%b\r\nNats-Schedule-Target: s.%b" % (ODD, ODD),
    b"Nats-Schedule: @every 1h\r\nNats-Schedule-Target: s.%b" % ODD,
    b"Nats-Trace-Dest: traces.%b\r\n%b: %b" % (ODD, b"X-\xff", ODD),
    *(b"Nats-Incr: %b" % ODD, b"Nats-Required-Api-Level: %b" % ODD),
]

API = [
    *(b"STREAM.%b.%b" % (verb, ODD) for verb in (b"CREATE", b"UPDATE", b"INFO", b"DELETE")),
    *(b"STREAM.%b.%b" % (verb, ODD) for verb in (b"PURGE", b"MSG.GET", b"MSG.DELETE")),
    *(b"STREAM.%b.%b" % (verb, ODD) for verb in (b"SNAPSHOT", b"RESTORE", b"LEADER.STEPDOWN")),
    *(b"STREAM.%b" % verb for verb in (b"LIST", b"NAMES", b"INFO.S", b"PURGE.S", b"MSG.GET.S")),
    *(b"CONSUMER.%b.S.%b" % (verb, ODD) for verb in (b"CREATE", b"DURABLE.CREATE", b"INFO")),
    *(b"CONSUMER.%b.S.%b" % (verb, ODD) for verb in (b"DELETE", b"PAUSE", b"MSG.NEXT", b"UNPIN")),
    *(b"CONSUMER.%b.%b" % (verb, ODD) for verb in (b"LIST", b"NAMES", b"CREATE")),
    *(b"CONSUMER.CREATE.S.c.s.%b" % ODD, b"CONSUMER.MSG.NEXT.S.c", b"CONSUMER.INFO.S.c"),
    *(b"DIRECT.GET.S", b"DIRECT.GET.S.s.%b" % ODD, b"DIRECT.GET.%b" % ODD, ODD),
]

SYSTEM = [
    *(b"ACCOUNT.%b.%b" % (ODD, verb) for verb in (b"CONNZ", b"SUBSZ", b"JSZ", b"CLAIMS.LOOKUP")),
    *(b"SERVER.PING.%b" % verb for verb in (b"CONNZ", b"SUBSZ", b"JSZ", b"VARZ", ODD)),
    *(b"ACCOUNT.NSUBS", b"ACCOUNT.PING.STATZ", b"USER.INFO", b"SERVER.%b.VARZ" % ODD, ODD),
]

OURS = [
    *(b"%b.%b._.%b" % (kind, verb, ODD) for kind in (b"STREAM",) for verb in (b"INFO", b"EXPORT")),
    *(b"CHANNEL.%b.tc.%b" % (verb, ODD) for verb in (b"INFO", b"EXPORT", b"HOLD", b"FIND")),
    *(b"CHANNEL.%b.tc" % ODD, b"CHANNEL.NAMES.tc", b"STREAM.NAMES._", ODD),
]

BODIES = [
    *(b"", b"\xff", b'{"seq":1}', b'{"name":"%b"}' % ODD, rb'{"name":"\ud800"}', b'{"%b":1}' % ODD),
    b'{"batch":1,"no_wait":true,"group":"%b","id":"%b"}' % (ODD, ODD),
    b'{"subjects_filter":">","subject":"%b","filter":"s.%b"}' % (ODD, ODD),
    b'{"last_by_subj":"s.%b"}' % ODD,
    b'{"multi_last":["s.%b"]}' % ODD,
    rb'{"multi_last":["s.\ud800"]}',
    CONSUMER % (ODD, ODD),
    b'{"account":"A","subscriptions":true,"subject":"s.%b","acc":"%b","test":"%b"}' % ((ODD,) * 3),
    b"A %b %b" % (ODD, ODD),
]

PAGES = [
    *({"": "/connz", "subs": "detail", "auth": "1"}, {"": "/subsz", "subs": "1", "test": "\ufffd"}),
    *({"": "/jsz", "streams": "1", "consumers": "1", "config": "1", "accounts": "1"},),
    *({"": "/accountz", "acc": "A"}, {"": "/accountz", "acc": "\udcff"}, {"": "/accstatz"}),
    *({"": "/connz", "sort": "\udcff"}, {"": "/connz", "acc": "\udcff"}, {"": "/metrics"}),
    *({"": "/streaming/channelsz", "channels": "1", "subs": "1"}, {"": "/streaming/clientsz"}),
    *({"": "/healthz", "js-enabled": "\udcff"}, {"": "/connz", "state": "closed"}, {"": "/varz"}),
]


class TestEverywhere:
    """
    Whatever bytes clients send, answers, events and pages are valid Unicode, and nothing fails.
    """

    @pytest.fixture
    def broker(self) -> Iterator[MemoryBroker]:
        """A broker in which every service is switched on."""
        with MemoryBroker(configText=CONFIG) as broker:
            yield broker

    def login(self, broker: MemoryBroker, user: str) -> MemoryConnection:
        """A client whose name has the odd bytes too."""
        options = {"user": user, "pass": user, "name": "n\ud800", "lang": "\udfff"}
        client = broker.connect({**options, "verbose": False, "headers": True})
        client.request(b"SUB odd.> 1\r\nSUB %b.* q%b 2\r\n" % (ODD, ODD))
        return client

    def ask(self, client: MemoryConnection, subjects: list[bytes], prefix: bytes) -> list[bytes]:
        """The answers to each of the bodies on each of the subjects."""
        for subject in subjects:
            for body in BODIES:
                head = b"PUB %b%b %b %d\r\n" % (prefix, subject, REPLY, len(body))
                client.send(head, body, b"\r\n")
        return client.receive().splitlines()

    def store(self, client: MemoryConnection) -> None:
        """Make a stream and a consumer, and publish with each of the headers."""
        for name, body in ((b"STREAM.CREATE.S", STREAM), (b"CONSUMER.CREATE.S.c", CONSUMER)):
            body = body % (b"c", ODD) if body is CONSUMER else body
            client.send(b"PUB $JS.API.%b odd.x %d\r\n%b\r\n" % (name, len(body), body))
        for line in HEADERS:
            block = b"NATS/1.0\r\n%b\r\n\r\n" % line
            sizes = len(block), len(block) + 1
            client.send(b"HPUB s.%b %b %d %d\r\n" % (ODD, REPLY, *sizes), block, b"x\r\n")
        client.send(b"PUB s.%b %b 1\r\nx\r\n" % (ODD, REPLY))

    def check(self, lines: list[bytes]) -> int:
        """Fail if JSON contains other text, and return how much JSON there is."""
        documents = [line for line in lines if line.startswith(b"{")]
        for line in documents:
            text = json.dumps(json.loads(line.decode("utf-8")), ensure_ascii=False)
            text.encode("utf-8")
        return len(documents)

    def test_jetStream(self, broker: MemoryBroker) -> None:
        """JetStream's API, acknowledgements and advisories are valid Unicode."""
        watcher = self.login(broker, "a")
        watcher.request(b"SUB $JS.EVENT.> 3\r\nSUB traces.> 4\r\n")
        client = self.login(broker, "a")
        self.store(client)
        assert self.check(client.receive().splitlines()) > len(HEADERS)
        client.send(b'PUB $JS.API.STREAM.INFO.S odd.y 25\r\n{"subjects_filter": ">"} \r\n')
        assert "s.o" + "\ufffd" * 4 in client.receive().decode("utf-8")
        assert self.check(self.ask(client, API, b"$JS.API.")) > len(API) * len(BODIES) // 2
        assert self.check(watcher.receive().splitlines()) > len(API)

    def test_acknowledgements(self, broker: MemoryBroker) -> None:
        """
        The reason in an acknowledgement that ends a delivery is valid Unicode in the advisory.
        """
        client = self.login(broker, "a")
        self.store(client)
        client.request(b"SUB $JS.EVENT.> 3\r\nSUB pulled 4\r\n")
        client.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c pulled 0\r\n\r\n")
        frames = client.receive()
        (reply,) = set(re.findall(rb"\$JS\.ACK\.\S+", frames))
        client.send(b"PUB %b %d\r\n+TERM %b\r\n" % (reply, 6 + len(ODD), ODD))
        assert "o" + "\ufffd" * 4 in client.receive().decode("utf-8")

    def test_system(self, broker: MemoryBroker) -> None:
        """Answers to requests in the system account and in other accounts are valid Unicode."""
        self.store(self.login(broker, "a"))
        for user in ("sys", "a"):
            client = self.login(broker, user)
            client.request(b"SUB $SYS.ACCOUNT.> 3\r\nSUB $SYS.SERVER.> 4\r\n")
            assert self.check(self.ask(client, SYSTEM, b"$SYS.REQ."))

    def test_exportPrefix(self, broker: MemoryBroker) -> None:
        """Answers of C{$NB.API} are valid Unicode."""
        client = self.login(broker, "a")
        self.store(client)
        client.receive()
        assert self.check(self.ask(client, OURS, b"$NB.API.")) >= len(OURS)

    def test_streaming(self, broker: MemoryBroker) -> None:
        """NATS Streaming refuses such channels, clients, groups and inboxes with an error."""
        client = self.login(broker, "a")
        fields = [bytes([number << 3 | 2, len(ODD)]) + ODD for number in range(1, 12)]
        for subject in (b"discover.tc", b"pub.tc.%b" % ODD, b"sub.tc", b"unsub.tc", b"close.tc"):
            for body in (b"".join(fields), *fields, ODD):
                head = b"PUB _STAN.%b %b %d\r\n" % (subject, REPLY, len(body))
                client.send(head, body, b"\r\n")
        assert client.receive().count(b"stan: ") > 10

    def test_pages(self, broker: MemoryBroker) -> None:
        """The monitoring pages are valid Unicode."""
        self.store(self.login(broker, "a"))
        self.login(broker, "sys").close()
        for page in PAGES:
            query = {name: value for name, value in page.items() if name}
            answer = broker.broker.monitoring.answer(page[""], query)
            assert answer is not None
            body = b"".join(piece for piece in answer.body if isinstance(piece, bytes))
            assert body
            if "json" in answer.contentType and answer.status == 200:
                text = json.dumps(json.loads(body.decode("utf-8")), ensure_ascii=False)
                text.encode("utf-8")
            body.decode("utf-8")
