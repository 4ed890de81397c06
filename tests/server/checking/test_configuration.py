"""
Everything that is wrong with a configuration, each with its place.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from natsbroker.config.errors import ConfigErrors
from natsbroker.server.checking.configuration import configurationReport, fileProblem
from natsbroker.server.configuration.build import buildFile
from tests.auth.operator.chain import Operator
from tests.config.test_against_server import ENVIRONMENT, cases
from tests.interop.certificates import writeCertificates

#: A start without a warning.
CLOSED = "listen: '127.0.0.1:4222'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which the configuration is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problemsIn(text: str) -> list[str]:
    """The problems of a configuration, without the name of the file."""
    Path("x.conf").write_text(text)
    report = configurationReport("x.conf", {})
    *lines, summary = report.lines()
    assert summary.startswith("x.conf: ")
    assert report.isFine == (not lines)
    return [line.removeprefix("x.conf:").strip() for line in lines]


def test_noProblem(folder: Path) -> None:
    """A configuration without problems is reported as such, and no file or folder is made."""
    text = f"{CLOSED}, jetstream {{ store_dir: 'new' }}, logfile: 'broker.log'"
    assert problemsIn(text) == []
    assert [*configurationReport("x.conf", {}).lines()] == ["x.conf: nothing is wrong"]
    assert os.listdir(folder) == ["x.conf"]


def test_everyProblem(folder: Path) -> None:
    """Problems of keys, files, ports and accounts are found together, in the order of the file."""
    text = """
listen: "127.0.0.1:4222"
http: "127.0.0.1:4222"
bogus: 1
tls { cert_file: "a.pem", key_file: "b.pem" }
jetstream { store_dir: "x.conf" }
accounts { A { imports: [ { stream: { account: B, subject: x } } ] }, B { } }
leafnodes { remotes: [ { url: "nats://a:1", credentials: "c.creds" } ] }
pidfile: "no/where.pid"
authorization { plugin: nope }
"""
    assert [problem.partition(": ")[0] for problem in problemsIn(text)] == [
        "3:1",
        "4:1",
        "5:7",
        "5:27",
        "6:13",
        "7:16",
        "8:45",
        "9:1",
        "10:17",
    ]


def test_noConsequentialProblems(folder: Path) -> None:
    """A problem that only follows from another one is not reported."""
    wrong = [
        "accounts { A { usrs: [ { user: a, password: b } ] } }",
        "operator: 'missing.jwt'",
        "tls { cert_file: 'a.pem', key_file: 'b.pem' }, listen: '127.0.0.1:1'",
        f"{CLOSED}, tls {{ cert_file: 'x.conf', key_file: 'x.conf', min_version: '2' }}",
    ]
    counts = [len(problemsIn(text)) for text in wrong]
    assert counts == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port: 1, x", "1:10: config is invalid: 'x' has no value"),
        ("include 'none.conf'", "1:9: open none.conf: No such file or directory"),
        ("x: $MISSING", "1:4: variable reference for 'MISSING' on line 1 can not be found"),
        ("", "x.conf: config has no values or is empty"),
    ],
)
def test_syntax(text: str, problem: str, folder: Path) -> None:
    """A text that cannot be read has one problem."""
    [line, *_] = problemsIn(text)
    assert line.startswith(problem)


def test_refusedFiles(folder: Path) -> None:
    """Every file that a start refuses has an error in the report."""
    for case in cases()[::6]:
        Path("s.conf").write_text(case.text, errors="surrogateescape")
        levels = {problem.level for problem in configurationReport("s.conf", ENVIRONMENT).problems}
        try:
            buildFile("s.conf", ENVIRONMENT)
        except ConfigErrors:
            assert "error" in levels, case.text


class TestNetwork:
    """Listeners: open ones, and several on one port."""

    @pytest.mark.parametrize(
        "text",
        [
            CLOSED,
            "authorization { token: '$2a$11$abc' }",
            "authorization { plugin: cred }",
            "listen: 'localhost:4222'",
            "listen: '0.0.0.0:4222', streaming { nats_server: 'nats://a:4222' }",
        ],
    )
    def test_closed(self, text: str, folder: Path) -> None:
        """
        Nothing is reported for listeners that require a login, or that only this machine reaches.
        """
        assert [problem for problem in problemsIn(text) if "need no login" in problem] == []

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("port: 4222", "1:1: warning: port: Clients need no login on 0.0.0.0:4222"),
            ("max_payload: 1K", "warning: port: Clients need no login on 0.0.0.0:4222"),
            (
                "authorization { users: [ { user: a, password: '$2a$11$abc' } ] }\n"
                "listen: '10.1.1.1:4222', no_auth_user: a",
                "2:1: warning: listen: Clients need no login on 10.1.1.1:4222",
            ),
            (
                f"{CLOSED}, websocket {{ port: 8443, no_tls: true }}",
                "1:39: warning: websocket.port: Clients need no login on 0.0.0.0:8443",
            ),
        ],
    )
    def test_openAddress(self, text: str, where: str, folder: Path) -> None:
        """A listener that other machines reach without a login is reported at its place."""
        [line] = problemsIn(text)
        assert line.startswith(where)

    @pytest.mark.parametrize(
        ("text", "problems"),
        [
            ("http: '127.0.0.1:4222'", ["http: 127.0.0.1:4222 collides with the port of clients"]),
            ("http: '127.0.0.2:4222', insecure_monitor: true", []),
            ("http_port: 4222", ["http_port: 127.0.0.1:4222 collides with the port of clients"]),
            ("cluster { listen: '127.0.0.1:-1' }, leafnodes { port: -1 }", []),
            (
                "cluster { listen: 'localhost:4222' }, gateway { name: g, port: 4222, "
                "insecure_listen: true }",
                [
                    "cluster.listen: localhost:4222 collides with the port of clients",
                    "gateway.port: 0.0.0.0:4222 collides with the port of clients",
                    "gateway.port: 0.0.0.0:4222 collides with the port of cluster",
                ],
            ),
        ],
    )
    def test_collisions(self, text: str, problems: list[str], folder: Path) -> None:
        """Two listeners on one port of one address are reported at the second one."""
        lines = problemsIn(f"{CLOSED}, {text}")
        assert [line.partition(": ")[2] for line in lines] == problems


class TestWarnings:
    """Warnings at a start."""

    def test_separateStreams(self, folder: Path) -> None:
        """JetStream whose streams are not shared with the cluster causes a warning."""
        jetstream = "jetstream { store_dir: '.' }"
        [line] = problemsIn(f"{CLOSED}, {jetstream}, cluster {{ listen: '127.0.0.1:-1' }}")
        assert "warning: jetstream: JetStream of this broker is not shared" in line

    def test_passwords(self, folder: Path) -> None:
        """Plaintext passwords cause a warning at the block with the passwords."""
        [line] = problemsIn("accounts { A { users: [ { user: a, password: b } ] } }")
        assert line.startswith("1:1: warning: accounts: Plaintext passwords")


class TestFiles:
    """Files that are named."""

    def test_certificates(self, folder: Path) -> None:
        """A key that does not belong to its certificate is reported at the C{tls} block."""
        writeCertificates(folder)
        [line] = problemsIn(
            f"{CLOSED}, tls {{ cert_file: 'server.pem', key_file: 'client-key.pem' }}"
        )
        assert line.startswith("1:27: tls: key_file client-key.pem")

    def test_credentials(self, folder: Path) -> None:
        """Malformed credentials are reported without their content."""
        Path("a.creds").write_text("nothing of that kind")
        text = "leafnodes { remotes: [ { url: 'nats://a:1', credentials: 'a.creds' } ] }"
        [line] = problemsIn(f"{CLOSED}, {text}")
        assert line.endswith("leafnodes.remotes[0].credentials: Credentials file a.creds malformed")

    def test_operator(self, folder: Path) -> None:
        """An unusable operator is reported at its key."""
        [line] = problemsIn(f"operator: {Operator().jwt()}")
        assert line == "1:1: operator: operators require an account resolver to be configured"

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("logfile: 'none/x.log'", "logfile: there is no folder {folder}/none"),
            ("pidfile: '.'", "pidfile: . is a folder"),
            ("ports_file_dir: 'x.conf'", "ports_file_dir: x.conf is not a folder"),
            ("jetstream { store_dir: 'x.conf' }", "jetstream.store_dir: {folder}/x.conf is not a"),
            ("store_dir: 'x.conf', jetstream: on", "store_dir: {folder}/x.conf is not a folder"),
            (
                "jetstream { backend_options { dir: 'x.conf' } }",
                "jetstream.backend_options: x.conf is not a folder",
            ),
            ("resolver { type: full, dir: 'x.conf' }", "resolver.dir: x.conf is not a folder"),
        ],
    )
    def test_wrongPaths(self, text: str, problem: str, folder: Path) -> None:
        """Folders and files that cannot be written are reported."""
        [line] = problemsIn(f"{CLOSED}, {text}")
        assert line.partition(": ")[2].startswith(problem.format(folder=folder))

    def test_noAccess(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file counts as unwritable if the user of the check may not write it."""
        Path("there.log").touch()
        assert fileProblem("there.log") == fileProblem("new.log") == ""
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert fileProblem("there.log") == "there.log cannot be written to"
        assert fileProblem("new.log") == f"{folder} cannot be written to"


class TestOptions:
    """Options of plugins and stores, which are checked without making anything."""

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (
                "authorization { plugin: htpasswd, file: 'none' }",
                '2:35: authorization.file: authorization plugin "htpasswd": file none: No such',
            ),
            (
                "authorization { plugin: http, url: 'https://u:hush@h/' }",
                '2:31: authorization.url: authorization plugin "http": url must use https',
            ),
            (
                "authorization { plugin: http }",
                '2:17: authorization.plugin: authorization plugin "http": url is missing',
            ),
            (
                "authorization { plugin: cred, checkers: 'nope:hush' }",
                '2:31: authorization.checkers: authorization plugin "cred": checker "nope"',
            ),
            (
                "services { traffic { channel: x } }",
                '2:22: services.traffic.channel: service "traffic": channel needs a',
            ),
            (
                "plugins { opentelemetry { bogus: 1 } }",
                '2:27: plugins.opentelemetry.bogus: service "opentelemetry": unknown option',
            ),
            (
                "services { nope { } }",
                "2:12: services.nope: there is no IBrokerService named",
            ),
            (
                "gateway { name: g, listen: '127.0.0.1:-1', "
                "interest { plugin: optimistic, switch_after: 1 } }",
                '2:75: gateway.interest.switch_after: gateway policy "optimistic": unknown option',
            ),
            (
                "streaming { store_options { max_size: -1 } }",
                '2:29: streaming.store_options.max_size: store "memory": max_size must be a number',
            ),
            (
                "streaming { store: file, dir: 'new', store_options { dir: 'x.conf' } }",
                "2:54: streaming.store_options.dir: x.conf is not a folder",
            ),
            (
                "streaming { store: sql, sql_options { source: 'hush', driver: mysql } }",
                '2:55: streaming.sql_options.driver: store "postgres": driver "mysql" is not',
            ),
            (
                "jetstream { backend: nope }",
                '2:13: jetstream.backend: there is no IStoreOpener named "nope" (there is lmdb',
            ),
            (
                "jetstream { store_dir: 'new', backend_options { bogus: 1 } }",
                '2:49: jetstream.backend_options.bogus: store "lmdb": unknown option "bogus"',
            ),
            (
                "jetstream { backend: postgres, backend_options { source: 'hush', lease: soon } }",
                '2:66: jetstream.backend_options.lease: store "postgres": time: invalid duration',
            ),
            (
                "jetstream { backend: postgres, backend_options { schema: x } }",
                '2:13: jetstream.backend: store "postgres": a store in a database needs source',
            ),
        ],
    )
    def test_wrongOption(self, text: str, problem: str, folder: Path) -> None:
        """A wrong option is reported at its place, a missing one at the name of the plugin."""
        lines = [message for message in problemsIn(f"{CLOSED}\n{text}") if "warning" not in message]
        assert lines and lines[0].startswith(problem)
        assert "hush" not in "".join(lines)
        assert os.listdir(folder) == ["x.conf"]

    @pytest.mark.parametrize(
        "text",
        [
            "services { traffic { interval: '5s', depth: 3 } }",
            "streaming { store: file, dir: 'new', store_options { max_size: 1000000 } }",
            "jetstream { store_dir: 'new', backend_options { max_size: 1000000 } }",
            "authorization { plugin: htpasswd, file: 'x.conf' }",
            "authorization { plugin: http, url: 'https://a/', cache: '5s' }",
        ],
    )
    def test_rightOptions(self, text: str, folder: Path) -> None:
        """Correct options are no problem, and no object is made."""
        assert problemsIn(f"{CLOSED}\n{text}") == []
        assert os.listdir(folder) == ["x.conf"]
