"""
Tests for L{natsbroker.config.build_jetstream}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.jetstream import JetStream
from tests.config.support import built, complaintsOf


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port: 4222", JetStream()),
        ("jetstream: disabled", JetStream()),
        ("jetstream { enabled: false, domain: hub }", JetStream("hub")),
        ("jetstream { enabled: false, extension_hint: will_extend }", JetStream(will_extend=True)),
        ("jetstream { enabled: false, extension_hint: no_extend }", JetStream()),
        (
            'accounts { A {} }\ndefault_js_domain { A: hub, "$G": "" }',
            JetStream(default_domains={"A": "hub", "$G": ""}),
        ),
    ],
)
def test_said(text: str, said: JetStream) -> None:
    """What is said of other servers' JetStream is taken over."""
    assert built(text).settings.jetstream == said


@pytest.mark.parametrize(
    ("text", "isOn"),
    [
        ("accounts { A {} }", False),
        ("accounts { A { jetstream: disabled } }", False),
        ("accounts { A { jetstream: enabled } }", True),
        ("accounts { A { jetstream: true } }", True),
        ("accounts { A { jetstream { max_mem: 1k, max_streams: 5 } } }", True),
    ],
)
def test_account(text: str, isOn: bool) -> None:
    """An account has JetStream when its settings say so, whatever its limits there are."""
    assert built(text).settings.accounts["A"].jetstream is isOn


@pytest.mark.parametrize("text", ["jetstream {}", "jetstream { domain: x, enabled: true }"])
def test_ownJetStream(text: str) -> None:
    """A JetStream of its own is not to be had."""
    (complaint,) = complaintsOf(text)
    assert complaint.endswith("jetstream: not supported yet (JetStream)")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "jetstream { enabled: false, domain: a.b }",
            "invalid domain name: may not contain ., * or >",
        ),
        (
            "jetstream { enabled: false, domain: '*' }",
            "invalid domain name: may not contain ., * or >",
        ),
        ("default_js_domain { A: hub }", 'references non existing account "A"'),
        ('default_js_domain { "$SYS": hub }', 'contains the system account "$SYS"'),
        (
            "accounts { A { jetstream: enabled } }\ndefault_js_domain { A: hub }",
            'contains account name "A" with enabled JetStream',
        ),
        (
            "accounts { A {} }\ndefault_js_domain { A: h.b }",
            'contains account "A" with invalid domain name "h.b"',
        ),
    ],
)
def test_complaints(text: str, complaint: str) -> None:
    """Domains that make no subject, and accounts that have no use for one, are told."""
    (found,) = complaintsOf(text)
    assert found.endswith(complaint)
