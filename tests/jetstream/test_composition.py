"""
From the settings to the service.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from natsbroker.advisories import LameDuckStarted, Reloaded
from natsbroker.auth.operator.accountclaims import OperatorLimits
from natsbroker.config.model import JetStream, Settings
from natsbroker.config.settings.operator import OperatorMode
from natsbroker.jetstream.composition import (
    LeavingObserver,
    allowanceOf,
    channelStreams,
    encryptionOf,
    limitsIn,
    storeDirectory,
)
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.testing.memory import MemoryBroker
from natsbroker.testing.process import BrokerProcess
from tests.server.support import Host, logLines, settingsOf


def test_directory(tmp_path: Path) -> None:
    """Streams are in a folder of their own under C{store_dir}."""
    assert storeDirectory(JetStream(store_dir=str(tmp_path))) == str(tmp_path / "jetstream")
    assert storeDirectory(JetStream()).endswith("natsbroker/jetstream")


def test_encryption() -> None:
    """Files are encrypted if C{key} is given. C{prev_key} alone has no effect."""
    text = "jetstream { key: a, prev_key: b, cipher: aes }"
    encryption = encryptionOf(settingsOf(text).jetstream)
    assert encryption == Encryption("a", "aes", "b")
    assert encryptionOf(settingsOf("jetstream { prev_key: b }").jetstream) is None


def test_directoryIsLogged(tmp_path: Path, natsbrokerFactory: Callable[..., BrokerProcess]) -> None:
    """The log shows the directory of the store."""
    broker = natsbrokerFactory("-js", "-sd", str(tmp_path))
    assert f'[INF] JetStream Store Directory: "{tmp_path}/jetstream"' in broker.log


def test_accounts() -> None:
    """Accounts have JetStream if they enable it. Without accounts all clients have it."""
    assert list(limitsIn(settingsOf("jetstream: enabled"))) == ["$G"]
    text = """
        jetstream {}
        accounts {
            A { jetstream: enabled }
            B { jetstream { max_store: 10, max_streams: 2, store_max_stream_bytes: 5 } }
            C {}
        }
    """
    limits = limitsIn(settingsOf(text))
    assert sorted(limits) == ["A", "B"]
    assert limits["A"].max_streams == -1
    assert (limits["B"].max_storage, limits["B"].max_streams) == (10, 2)
    assert limits["B"].storage_max_stream_bytes == 5


def streamMade(configText: str, **config: object) -> str:
    """The description of the error that a stream is refused with; empty if it is made."""
    memory = MemoryBroker(configText=configText)
    memory.advance(0)
    client = memory.connect({"verbose": False})
    text = json.dumps({"name": "S", "subjects": ["s"], **config})
    client.request(b"SUB _INBOX.1 1\r\n")
    request = f"PUB $JS.API.STREAM.CREATE.S _INBOX.1 {len(text)}\r\n{text}\r\n"
    got = client.request(request.encode())
    memory.advance(0.1)
    answer = json.loads((got + client.receive()).split(b"\r\n")[1])
    memory.stop()
    return str(answer.get("error", {}).get("description", ""))


def test_strict() -> None:
    """Unknown keys of requests are refused, unless C{strict} is false."""
    text = "jetstream { backend: memory, strict: %s }"
    assert streamMade(text % "true", bogus=1) == 'invalid JSON: json: unknown field "bogus"'
    assert streamMade(text % "false", bogus=1) == ""


def test_serverLimits() -> None:
    """A stream reserves no more than the server has, in files and in memory."""
    text = "jetstream { backend: memory, max_file_store: 1KB, max_memory_store: 2KB }"
    assert streamMade(text, max_bytes=1024) == ""
    assert streamMade(text, max_bytes=1025) == "insufficient storage resources available"
    assert streamMade(text, max_bytes=2048, storage="memory") == ""
    assert streamMade(text, max_bytes=2049, storage="memory") == (
        "insufficient memory resources available"
    )


def test_leaves() -> None:
    """JetStream gives its streams away in lame duck mode, and not at other events."""
    calls: list[str] = []

    class FakeService:
        def leave(self) -> Deferred[None]:
            calls.append("leave")
            return succeed(None)

    service: Any = FakeService()
    observer = LeavingObserver(service)
    observer.observe(Reloaded(()))
    assert calls == []
    observer.observe(LameDuckStarted())
    assert calls == ["leave"]


class TestOperators:
    """Accounts whose JWTs give them JetStream."""

    def test_accounts(self) -> None:
        """In operator mode, the configuration file gives JetStream to no account."""
        settings = replace(Settings(), operator=OperatorMode(trusted_keys=("O",)))
        assert settings.operator.isOn
        assert limitsIn(settings) == {}

    def test_allowance(self) -> None:
        """
        The limits and tiers of an account are those of its JWT. Without limits, the account has no
        JetStream.
        """
        assert allowanceOf(OperatorLimits()) is None
        terms = OperatorLimits(jetstream=True, jetstreamLimits={"max_streams": 4})
        assert allowanceOf(terms) == AccountAllowance(JetStreamLimits(max_streams=4))
        tiers = {"R1": {"max_storage": 5}}
        terms = OperatorLimits(jetstream=True, jetstreamTiers=tiers)
        expected = AccountAllowance(tiers={"R1": JetStreamLimits(max_storage=5)})
        assert allowanceOf(terms) == expected


def test_channels() -> None:
    """Channels are streams only if C{jetstream_accounts} gives them to an account."""
    for text in ("jetstream {}", "jetstream {}, streaming {}"):
        assert channelStreams(settingsOf(text)) is None
    text = 'jetstream {}, streaming { jetstream_accounts { a: "$G" } }'
    assert channelStreams(settingsOf(text)) is not None


def test_batchLimits() -> None:
    """The limits of batches have names of their own in the block."""
    text = """jetstream { limits { default_max_consumers: 5, batch {
        max_inflight_per_stream: 1, max_inflight_total: 2, max_msgs: 3, timeout: "4s"
    } } }"""
    block = settingsOf(text).jetstream
    assert (block.default_max_consumers, block.max_batch_size) == (5, 3)
    assert (block.max_batch_inflight_per_stream, block.max_batch_inflight_total) == (1, 2)
    assert block.max_batch_timeout == 4


class TestStreams:
    """Accounts that have JetStream."""

    def text(self, ofA: str, ofB: str = "") -> str:
        """A configuration with the given JetStream settings of two accounts."""
        users = "users: [{user: %s, password: p}]"
        return (
            "jetstream { backend: memory }\n"
            f"accounts {{ A {{ {ofA}\n {users % 'a'} }}, B {{ {ofB}\n {users % 'b'} }} }}"
        )

    def asked(self, host: Host, user: str, subject: str, body: str = "") -> dict[str, Any]:
        """The answer to a request of JetStream's API."""
        hello = f'CONNECT {{"verbose":false,"user":"{user}","pass":"p"}}\r\nSUB r 1\r\n'
        client = host.client(hello.encode())
        request = f"PUB $JS.API.{subject} r {len(body)}\r\n{body}\r\n"
        answer = client.ask(request.encode())
        document: dict[str, Any] = json.loads(answer.split(b"\r\n")[1])
        return document

    def refusal(self, host: Host, user: str) -> str:
        """The reason why an account has no JetStream, or an empty text."""
        return str(self.asked(host, user, "INFO").get("error", {}).get("description", ""))

    def test_comeAndGo(self) -> None:
        """
        A reload takes JetStream from one account and gives it to another. An account that gets it
        back has its streams again.
        """
        host = Host(self.text("jetstream: enabled")).start()
        host.settle()
        created = self.asked(host, "a", "STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')
        assert created["did_create"]
        host.reload(self.text("", "jetstream: enabled"))
        assert self.refusal(host, "a") == "JetStream not enabled for account"
        assert self.refusal(host, "b") == ""
        assert self.asked(host, "b", "STREAM.NAMES")["streams"] is None
        host.reload(self.text("jetstream: enabled", "jetstream: disabled"))
        assert self.refusal(host, "b") == "JetStream not enabled for account"
        assert self.asked(host, "a", "STREAM.NAMES")["streams"] == ["S"]

    def test_limits(self) -> None:
        """New limits apply at once, and so does the removal of JetStream."""
        host = Host(self.text("jetstream: {max_file: 1KB}")).start()
        host.settle()
        host.reload(self.text("jetstream: {max_file: 3KB, max_streams: 1}"))
        limits = self.asked(host, "a", "INFO")["limits"]
        assert (limits["max_storage"], limits["max_streams"]) == (3072, 1)
        host.reload(self.text("jetstream: enabled"))
        limits = self.asked(host, "a", "INFO")["limits"]
        assert (limits["max_storage"], limits["max_streams"]) == (-1, -1)

    def test_serverLimits(self) -> None:
        """New limits of the whole JetStream apply at once, also to existing streams."""
        text = self.text("jetstream: enabled")
        host = Host(text).start()
        host.settle()
        self.asked(host, "a", "STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')
        more = "max_file: 100, max_mem: 50, limits { duplicate_window: '1m', max_ack_pending: 7 }"
        host.reload(text.replace("backend: memory", f"backend: memory, {more}"))
        answer = self.asked(host, "a", "STREAM.CREATE.T", '{"name":"T","max_bytes":200}')
        assert answer["error"]["description"] == "insufficient storage resources available"
        shown = host.broker.monitoring.jsz._find()
        assert (shown.config()["max_memory"], shown.config()["max_storage"]) == (50, 100)
        assert shown.limits()["max_ack_pending"] == 7
        host.reload(text)
        created = self.asked(host, "a", "STREAM.CREATE.T", '{"name":"T","max_bytes":200}')
        assert created["did_create"]

    @pytest.mark.parametrize(
        ("block", "name"),
        [
            ("jetstream: disabled", "jetstream.enabled: old=true, new=false"),
            ("jetstream { backend: memory, domain: d }", "jetstream.domain: old=, new=d"),
            ("jetstream { backend: memory, store_dir: x }", "jetstream.store_dir: old=, new=x"),
        ],
    )
    def test_heldBack(self, block: str, name: str) -> None:
        """A change that needs a restart is reported and not applied; the rest of the file is."""
        text = self.text("jetstream: enabled")
        host = Host(text).start()
        host.settle()
        other = text.replace("jetstream { backend: memory }", block) + "\nmax_payload: 77"
        with logLines() as lines:
            host.reload(other)
        assert f"[WRN] Reloaded without {name}: a restart is needed" in lines
        assert host.broker.clientContext.settings.max_payload == 77
        assert host.broker.settings.jetstream == settingsOf(text).jetstream
        assert self.refusal(host, "a") == ""

    def test_begins(self) -> None:
        """JetStream cannot be switched on by a reload; the rest of the file is applied."""
        host = Host("max_payload: 70").start()
        with logLines() as lines:
            host.reload("jetstream { backend: memory }\nmax_payload: 77")
        assert any("jetstream.enabled: old=false, new=true" in line for line in lines)
        assert host.broker.clientContext.settings.max_payload == 77
        assert not host.broker.settings.jetstream.enabled

    def test_removed(self) -> None:
        """An account that is removed from the file and added again has its streams."""
        text = self.text("jetstream: enabled")
        host = Host(text).start()
        host.settle()
        self.asked(host, "a", "STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')
        host.reload("jetstream { backend: memory }")
        host.reload(text)
        assert self.asked(host, "a", "STREAM.NAMES")["streams"] == ["S"]
