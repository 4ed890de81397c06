"""
The INFO line.
"""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from natsbroker.clients import info
from natsbroker.clients.info import MOST_SHAPES, ServerInfo
from natsbroker.wire.connect import infoLine
from tests.conformance.frames import INFO_KEYS

INFO = ServerInfo("NID", "name", "2.15.1", "0.1")


def read(line: bytes) -> dict[str, Any]:
    """The fields of a line."""
    assert line.startswith(b"INFO {") and line.endswith(b"} \r\n")
    fields: dict[str, Any] = json.loads(line[5:])
    return fields


class TestLine:
    """The INFO line of a connection."""

    def test_plain(self) -> None:
        """A plain server's INFO has the fields that are always present, and its identity."""
        fields = read(INFO.line(7, "10.0.0.1"))
        assert fields == {
            "server_id": "NID",
            "server_name": "name",
            "version": "2.15.1",
            "proto": 1,
            "go": "",
            "host": "0.0.0.0",
            "port": 4222,
            "headers": True,
            "max_payload": 1048576,
            "client_id": 7,
            "client_ip": "10.0.0.1",
            "api_lvl": 5,
            "natsbroker": "0.1",
        }

    def test_everything(self) -> None:
        """The fields come in nats-server's order, followed by our own."""
        full = INFO.changed(
            git_commit="abc",
            auth_required=True,
            tls_required=True,
            tls_verify=True,
            tls_available=True,
            jetstream=True,
            connect_urls=("a:1", "b:2"),
            ldm=True,
            xkey="X",
            nb_export=1,
        )
        line = full.line(1, "::1", 5, "nonce", "A", True, True)
        fields = read(line)
        missing = {"ip", "cluster", "cluster_dynamic", "domain", "ws_connect_urls"}
        expected = [key for key in INFO_KEYS if key not in missing]
        assert list(fields) == [*expected, "natsbroker", "nb_export"]
        assert fields["connect_urls"] == ["a:1", "b:2"]
        assert (fields["max_payload"], fields["nonce"], fields["remote_account"]) == (
            5,
            "nonce",
            "A",
        )
        assert fields["acc_is_sys"] and fields["connect_info"]

    @pytest.mark.parametrize("limit", [0, -1, 5])
    def test_ownPayload(self, limit: int) -> None:
        """A connection's own payload limit is shown in INFO, also if it is unlimited."""
        assert read(INFO.line(1, "", limit))["max_payload"] == limit

    def test_encodedOnce(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The common part of many INFO lines is encoded once."""
        written = Mock(wraps=infoLine)
        monkeypatch.setattr(info, "infoLine", written)
        fresh = INFO.changed(server_name='7,"client_id":8')
        lines = [read(fresh.line(cid, "10.0.0.1", nonce='"n')) for cid in (3, 70_000)]
        assert written.call_count == 1
        assert [line.pop("client_id") for line in lines] == [3, 70_000]
        assert lines[0] == lines[1]
        assert (lines[0]["nonce"], lines[0]["server_name"]) == ('"n', '7,"client_id":8')

    def test_manyAccounts(self) -> None:
        """INFO lines are remembered for a limited number of accounts."""
        fresh = INFO.changed()
        for number in range(3 * MOST_SHAPES):
            line = fresh.line(1, "", account=f"A{number}")
            assert read(line)["remote_account"] == f"A{number}"
        assert len(fresh._pieces) <= MOST_SHAPES

    def test_falseHeaders(self) -> None:
        """A server without headers sends C{"headers":false}."""
        assert read(INFO.changed(headers=False).line(1, ""))["headers"] is False

    def test_oneLine(self) -> None:
        """INFO is one line without blanks between its parts, with any server name."""
        line = INFO.changed(server_name='a\r\n"b" \u00e9 \ud800').line(1, "")
        assert line.count(b"\n") == 1
        assert b'", "' not in line
        assert "\u00e9".encode() in line

    def test_changed(self) -> None:
        """A changed copy of INFO leaves the original unchanged."""
        assert INFO.changed(ldm=True).ldm
        assert not INFO.ldm
