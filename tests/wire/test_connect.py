"""
The JSON of CONNECT.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.connect import DEFAULTS, parseConnect

GOOD: list[tuple[bytes, dict[str, Any]]] = [
    (b"{}", {}),
    (b" { } ", {}),
    (b"null", {}),
    (b'{"verbose":false}', {"verbose": False}),
    (b'{"VERBOSE":false,"Name":"me"}', {"verbose": False, "name": "me"}),
    (b'{"name":"one","name":"two"}', {"name": "two"}),
    (b'{"name":"one","NAME":"two"}', {"name": "two"}),
    (b'{"name":"one","name":null}', {"name": "one"}),
    (b'{"verbose":null}', {}),
    (b'{"unknown":{"deep":[1,2,{}]},"lang":"go"}', {"lang": "go"}),
    (b'{"protocol":1}', {"protocol": 1}),
    (b'{"protocol":-1}', {"protocol": -1}),
    (b'{"user":"","pass":"\\u00e9"}', {"user": "", "pass": "\u00e9"}),
    ('{"user":"é"}'.encode(), {"user": "é"}),
    (b'{"user":"\xff"}', {"user": "\ufffd"}),
    (b'{"user":"\\ud800"}', {"user": "\ufffd"}),
    (b'{"import":{"allow":["a"]}}', {"import": {"allow": ["a"]}}),
]

BAD = [
    b"",
    b" ",
    b"{",
    b"{}x",
    b"{} {}",
    b"[]",
    b"[[]]",
    b'[["verbose",false]]',
    b"1",
    b'"text"',
    b"true",
    b'{"verbose":"yes"}',
    b'{"verbose":1}',
    b'{"protocol":true}',
    b'{"protocol":"1"}',
    b'{"protocol":1.0}',
    b'{"protocol":9223372036854775808}',
    b'{"protocol":NaN}',
    b'{"x":NaN}',
    b'{"x":Infinity}',
    b'{"name":1}',
    b'{"name":["a"]}',
    b'{"name":{}}',
    b'{"import":[]}',
    b'{"import":1}',
    b"{'verbose':false}",
    b'{"verbose":false,}',
    b"\xef\xbb\xbf{}",
    "{}".encode("utf-16"),
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"protocol":' + b"9" * 5000 + b"}",
    b'{"x":' + b"9" * 5000 + b"}",
]


class TestParse:
    """Good and bad CONNECTs."""

    @pytest.mark.parametrize(("text", "options"), GOOD)
    def test_optionsInAnySpelling(self, text: bytes, options: dict[str, Any]) -> None:
        """
        Names match in any case, the last value wins, and null and unknown options are ignored.
        """
        assert parseConnect(text) == options

    @pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:24]))
    def test_invalidOptions(self, text: bytes) -> None:
        """Input that is no JSON object, or has an option of a wrong type, is refused."""
        with pytest.raises(ValueError):
            parseConnect(text)

    @pytest.mark.parametrize("name", DEFAULTS)
    def test_everyOption(self, name: str) -> None:
        """Every option takes a value of its default's type and refuses other types."""
        default = DEFAULTS[name]
        assert parseConnect(json.dumps({name: default}).encode()) == {name: default}
        for wrong in (["x"], 1.5, {"a": 1}, "text" if not isinstance(default, str) else 7):
            with pytest.raises(ValueError):
                parseConnect(json.dumps({name: wrong}).encode())

    def test_defaults(self) -> None:
        """A client that sets no option is verbose, pedantic and receives its own messages."""
        wanted = {name for name, value in DEFAULTS.items() if value is True}
        assert wanted == {"echo", "verbose", "pedantic"}
        assert not any(value for name, value in DEFAULTS.items() if name not in wanted)


@given(
    st.one_of(st.binary(max_size=80), st.text('{}[]":,0123truefalsn ', max_size=40).map(str.encode))
)
def test_nothingElseIsRaised(text: bytes) -> None:
    """Any bytes give options of the right types, or raise ValueError."""
    try:
        options = parseConnect(text)
    except ValueError:
        return
    for name, value in options.items():
        assert type(value) is type(DEFAULTS[name])


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: {bool: st.booleans(), int: st.integers(-9, 9), str: st.text()}[type(default)]
            for name, default in DEFAULTS.items()
        },
    )
)
def test_roundTrip(options: dict[str, Any]) -> None:
    """Options that are written as JSON are read unchanged, except for lone surrogates."""
    readable = {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in options.items()
    }
    assert parseConnect(json.dumps(options).encode()) == readable
