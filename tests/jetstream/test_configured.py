"""
From the settings to the service.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed

from natsbroker.advisories import LameDuckStarted, Reloaded
from natsbroker.auth.operator.accountclaims import OperatorLimits
from natsbroker.config.model import JetStream, Settings
from natsbroker.config.settings.operator import OperatorMode
from natsbroker.jetstream.configured import (
    LeavingObserver,
    allowanceOf,
    channelStreams,
    encryptionOf,
    limitsIn,
    storeDirectory,
)
from natsbroker.jetstream.model.limits import AccountAllowance, JetStreamLimits
from natsbroker.server.configuration.build import buildText
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.testing.memory import MemoryBroker
from natsbroker.testing.process import BrokerProcess


def test_directory(tmp_path: Path) -> None:
    """Streams are in a folder of their own under C{store_dir}."""
    assert storeDirectory(JetStream(store_dir=str(tmp_path))) == str(tmp_path / "jetstream")
    assert storeDirectory(JetStream()).endswith("natsbroker/jetstream")


def test_encryption() -> None:
    """Files are encrypted if there is a key, and the one before it counts only then."""
    text = "jetstream { key: a, prev_key: b, cipher: aes }"
    found = encryptionOf(buildText(text, {}).settings.jetstream)
    assert found == Encryption("a", "aes", "b")
    assert encryptionOf(buildText("jetstream { prev_key: b }", {}).settings.jetstream) is None


def test_directoryIsLogged(tmp_path: Path, natsbrokerFactory: Callable[..., BrokerProcess]) -> None:
    """The log names the folder, which without C{store_dir} the environment decides."""
    broker = natsbrokerFactory("-js", "-sd", str(tmp_path))
    assert f'[INF] JetStream Store Directory: "{tmp_path}/jetstream"' in broker.log


def test_accounts() -> None:
    """Accounts have JetStream if they say so; without accounts everybody has it."""
    assert list(limitsIn(buildText("jetstream: enabled", {}).settings)) == ["$G"]
    text = """
        jetstream {}
        accounts {
            A { jetstream: enabled }
            B { jetstream { max_store: 10, max_streams: 2, store_max_stream_bytes: 5 } }
            C {}
        }
    """
    limits = limitsIn(buildText(text, {}).settings)
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
    """Unknown keys of requests are refused, unless the block says that they pass."""
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
    """JetStream hands over its streams when the broker enters lame duck mode, and only then."""
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
        """In operator mode no account has JetStream by the file."""
        settings = replace(Settings(), operator=OperatorMode(trusted_keys=("O",)))
        assert settings.operator.isOn
        assert limitsIn(settings) == {}

    def test_allowance(self) -> None:
        """Limits and tiers are those of the JWT; without any there is no JetStream."""
        assert allowanceOf(OperatorLimits()) is None
        terms = OperatorLimits(jetstream=True, jetstreamLimits={"max_streams": 4})
        assert allowanceOf(terms) == AccountAllowance(JetStreamLimits(max_streams=4))
        tiers = {"R1": {"max_storage": 5}}
        terms = OperatorLimits(jetstream=True, jetstreamTiers=tiers)
        expected = AccountAllowance(tiers={"R1": JetStreamLimits(max_storage=5)})
        assert allowanceOf(terms) == expected


def test_channels() -> None:
    """Channels are streams only if the configuration gives them to somebody."""
    for text in ("jetstream {}", "jetstream {}, streaming {}"):
        assert channelStreams(buildText(text, {}).settings) is None
    text = 'jetstream {}, streaming { jetstream_accounts { a: "$G" } }'
    assert channelStreams(buildText(text, {}).settings) is not None


def test_batchLimits() -> None:
    """The limits of batches have names of their own in the block."""
    text = """jetstream { limits { default_max_consumers: 5, batch {
        max_inflight_per_stream: 1, max_inflight_total: 2, max_msgs: 3, timeout: "4s"
    } } }"""
    block = buildText(text, {}).settings.jetstream
    assert (block.default_max_consumers, block.max_batch_size) == (5, 3)
    assert (block.max_batch_inflight_per_stream, block.max_batch_inflight_total) == (1, 2)
    assert block.max_batch_timeout == 4
