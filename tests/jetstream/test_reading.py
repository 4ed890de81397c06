"""
Tests for L{natsbroker.jetstream.reading}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import JetStream
from tests.config.support import built, complaintsOf, settingsOf


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port: 4222", JetStream()),
        ("jetstream: disabled", JetStream()),
        ("jetstream { enabled: false, domain: hub }", JetStream(domain="hub")),
        ("jetstream { enabled: false, extension_hint: will_extend }", JetStream(will_extend=True)),
        ("jetstream { enabled: false, extension_hint: no_extend }", JetStream()),
        (
            'accounts { A {} }\ndefault_js_domain { A: hub, "$G": "" }',
            JetStream(default_domains={"A": "hub", "$G": ""}),
        ),
    ],
)
def test_said(text: str, said: JetStream) -> None:
    """Names of settings that other NATS servers use for JetStream are understood."""
    assert built(text).settings.jetstream == said


@pytest.mark.parametrize("backend", ["postgres", "memory"])
def test_encryptedElsewhere(backend: str) -> None:
    """
    A key with a store that does not encrypt is refused, and the error names the store's own
    setting.
    """
    text = f"jetstream {{ backend: {backend}, key: hush }}"
    complaint = f'the store "{backend}" does not encrypt: use what the database, or the disk under'
    assert complaint in complaintsOf(text)[0]
    settingsOf(f"jetstream {{ backend: {backend}, cipher: aes }}")


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("jetstream: true", JetStream(enabled=True)),
        ("jetstream: enabled", JetStream(enabled=True)),
        ("jetstream {}", JetStream(enabled=True)),
        ("jetstream { sync: Always }", JetStream(enabled=True)),
        ("jetstream { sync_interval: '90s' }", JetStream(enabled=True, sync_interval=90.0)),
        ("jetstream { sync_interval: -5 }", JetStream(enabled=True)),
        ("jetstream { domain: x, enabled: true }", JetStream(enabled=True, domain="x")),
        ("jetstream {}\nstore_dir: a", JetStream(enabled=True, store_dir="a")),
        ("store_dir: a", JetStream(store_dir="a")),
        (
            "jetstream { strict: false, max_mem: 1, max_file: 2KB, limits {max_ack_pending: 3} }",
            JetStream(
                enabled=True,
                strict=False,
                max_memory_store=1,
                max_file_store=2048,
                max_ack_pending=3,
            ),
        ),
        (
            "jetstream { backend: postgres, backend_options { dsn: x } }",
            JetStream(enabled=True, backend="postgres", backend_options={"dsn": "x"}),
        ),
    ],
)
def test_ownJetStream(text: str, own: JetStream) -> None:
    """C{jetstream} may be a word or a block, and C{store_dir} may stand outside of the block."""
    assert built(text).settings.jetstream == own


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("store_dir: a\njetstream {{ {} }}", "s.conf:2:13: jetstream.store_dir"),
        ("jetstream {{ {} }}\nstoredir: b", "s.conf:2:1: store_dir"),
    ],
)
def test_twoFolders(text: str, place: str) -> None:
    """A folder in the block and one outside of it are an error, at the later one."""
    (complaint,) = complaintsOf(text.format("store: c"))
    assert complaint == f"{place}: Duplicate 'store_dir' configuration"
    settingsOf(text.format(""))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "JetStream is not enabled"),
        ("jetstream {}", 'references non existing account "A"'),
        ("jetstream {}, accounts { A {} }", 'account "A" has no JetStream'),
    ],
)
def test_channelsOfAccounts(text: str, complaint: str) -> None:
    """An account without JetStream cannot have channels."""
    (problem,) = complaintsOf(text + "\nstreaming { jetstream_accounts { a: A } }")
    assert problem.endswith(complaint)


def test_channelsOfAccount() -> None:
    """An account with JetStream may have channels."""
    text = "jetstream {}, accounts { A { jetstream: enabled } }"
    text += "\nstreaming { jetstream_accounts { a: A } }"
    streaming = built(text).settings.streaming
    assert streaming is not None
    assert streaming.accountOf("a") == "A"
