"""
Tests for L{natsbroker.config.build}.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from natsbroker.config.build import buildDefaults, buildFile, buildText
from natsbroker.config.errors import ConfigErrors
from natsbroker.config.model import Router, Settings
from tests.config.support import NO_FILES, built, complaintsOf, filesystem, settingsOf


def test_defaults() -> None:
    """Without a file the settings are the defaults."""
    assert buildDefaults().settings == Settings()


def test_emptyFile() -> None:
    """An empty file gives the defaults and nats-server's warning."""
    result = built("# nothing\n")
    assert result.settings == Settings()
    assert [str(warning) for warning in result.warnings] == [
        "s.conf: config has no values or is empty"
    ]


def test_allErrorsInOrder() -> None:
    """Every mistake is reported, in the order of the file, whichever pass finds it."""
    assert complaintsOf("no_auth_user: x\nport: a\nbogus: 1\nmax_payload: 3GB\nmqtt {}") == [
        's.conf:1:1: no_auth_user: "x" present, but users/nkeys are not defined',
        "s.conf:2:1: port: expected an integer, got a string",
        's.conf:3:1: unknown field "bogus"',
        "s.conf:4:1: max_payload: value is too big",
        "s.conf:5:1: mqtt: not supported yet (MQTT)",
    ]


def test_syntaxErrors() -> None:
    """A text that cannot be read is one error of the same class."""
    assert complaintsOf("port 4222 host a") == [
        "s.conf:1:11: Parse error on line 1: 'Expected a top-level value to end with a new line, "
        "comment or EOF, but got 'h' instead.'"
    ]


def test_file(tmp_path: Path) -> None:
    """A file is read with what it includes; the settings know its path and digest."""
    (tmp_path / "s.conf").write_text("include 'more.conf'\nserver_name: $NAME\n")
    (tmp_path / "more.conf").write_text("port: -1\n")
    path = str(tmp_path / "s.conf")
    settings = buildFile(path, {"NAME": "n1"}).settings
    assert (settings.port, settings.server_name) == (-1, "n1")
    assert settings.config_file == path
    assert settings.config_digest.startswith("sha256:")


def test_missingFile() -> None:
    """A file that is not there is an error that names it."""
    with pytest.raises(ConfigErrors, match=r"open nope\.conf: No such file or directory"):
        buildFile("nope.conf", {}, read=NO_FILES)


def test_errorsOfIncludedFiles() -> None:
    """A mistake in an included file names that file."""
    files = filesystem({"inc.conf": "\nbogus: 1"})
    with pytest.raises(ConfigErrors) as raised:
        buildText("include inc.conf", {}, "s.conf", read=files)
    assert str(raised.value) == 'inc.conf:2:1: unknown field "bogus"'


def test_override() -> None:
    """An override wins over the file, and what depends on it follows."""

    def override(settings: Settings) -> Settings:
        return replace(settings, port=7, no_auth_user="nobody")

    with pytest.raises(ConfigErrors, match="nobody"):
        buildText("port: 5", {}, override=override)
    users = "authorization { users: [ {user: nobody} ] }"
    settings = buildText(f"port: 5\n{users}", {}, override=override).settings
    assert settings.port == 7


def test_thirdParties() -> None:
    """Sections of plugins and services are passed on as they are."""
    settings = settingsOf(
        "plugins { a { x: 1, y: [z] } }\nservices { b { c: { d: e } } }\n"
        "router { plugin: r, size: 5 }"
    )
    assert settings.plugins == {"a": {"x": 1, "y": ["z"]}}
    assert settings.services == {"b": {"c": {"d": "e"}}}
    assert settings.router == Router("r", {"size": 5})


def test_deferred() -> None:
    """Keys of missing features that ask for nothing are kept, so that a change shows."""
    assert settingsOf("jetstream: disabled\nsyslog: no").deferred == {
        "jetstream": False,
        "syslog": False,
    }


def test_ours() -> None:
    """Our own switches are read."""
    settings = settingsOf("fast_lane: false\nmax_subject_shapes: 10\ninsecure_monitor: true")
    assert (settings.fast_lane, settings.max_subject_shapes) == (False, 10)
    assert settings.monitoring.insecure_monitor


def test_places() -> None:
    """Settings know where each key stands, for errors that are found later."""
    text = """port: 4222
authorization {
  users [ { user: a } ]
}
services { traffic { depth: 2 } }
"""
    settings = buildText(text, {}, "x.conf").settings
    assert settings.at("port") == "x.conf:1:1: port"
    assert settings.at("authorization.users[0].user") == "x.conf:3:13: authorization.users[0].user"
    assert settings.at("services.traffic") == "x.conf:5:12: services.traffic"
    assert settings.at("router.plugin") == "router.plugin"
    assert settings == buildText(text, {}, "y.conf").settings
