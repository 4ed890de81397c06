"""
The same configurations and command lines, read by us and by nats-server.

Our reader is compared with the verdicts in corpus.txt, with or without a server. Only the
comparison itself needs nats-server.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from natsbroker.config.errors import ConfigError, ConfigErrors, NotSupportedYet
from natsbroker.server.configuration.build import buildFile
from natsbroker.server.configuration.commandline import Action, CommandLineError, invocationFrom
from tests.config.support import PEM, filesystem

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
OLDEST = (2, 14)
"""The oldest release whose behaviour we follow."""

ENVIRONMENT = {
    "NB_PORT": "4333",
    "NB_BAD": "a b",
    "NB_LOOP": "$NB_LOOP",
    "NB_STR": "hello",
    "NB_MAP": "{user: a, pass: b}",
}
FILES = {
    "inc.conf": "port: 4223\n",
    "bad.conf": "a: 1\nport: [\n",
    "auth.conf": "user: a\npass: b\n",
}


@dataclass(frozen=True)
class Case:
    """
    A configuration and its verdict.
    """

    verdict: str
    text: str


def cases() -> list[Case]:
    """
    Read corpus.txt.
    """
    corpus = (HERE / "corpus.txt").read_text("utf-8")
    return [Case(*entry.split("\n", 1)) for entry in re.split(r"(?m)^==== ", corpus)[1:] if entry]


def select(*verdicts: str) -> pytest.MarkDecorator:
    """
    Run a test for each case with one of some verdicts.
    """
    chosen = [case for case in cases() if case.verdict in verdicts]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.text.strip()[:60])


@cache
def server() -> str:
    """
    Find nats-server, beside the interpreter or on the path; skip when there is none.
    """
    beside = Path(sys.executable).with_name("nats-server")
    path = str(beside) if beside.exists() else shutil.which("nats-server")
    if path is None:
        pytest.skip("nats-server is neither beside the interpreter nor on the path")
    shown = subprocess.run([path, "-v"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"v(\d+)\.(\d+)", shown)
    if match is None or (int(match[1]), int(match[2])) < OLDEST:
        pytest.skip(f"nats-server is older than {OLDEST}: {shown.strip()}")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Make a folder with the files that the configurations name.
    """
    path = tmp_path_factory.mktemp("conf")
    for name, text in FILES.items():
        (path / name).write_text(text)
    return path


@pytest.fixture(scope="module")
def certificates(folder: Path) -> None:
    """
    Make a certificate that nats-server can load.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate and is not on the path")
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    files = "-keyout key.pem -out cert.pem -subj /CN=x"
    subprocess.run(
        [openssl, *request.split(), *files.split()], cwd=folder, capture_output=True, check=True
    )


@dataclass(frozen=True)
class Answer:
    """The answer of nats-server."""

    code: int
    text: str

    @property
    def lines(self) -> set[int]:
        """The lines of s.conf that nats-server reports."""
        places = re.findall(r"s\.conf:(\d+):\d+: |on line (\d+)", self.text)
        return {int(first or second) for first, second in places}


def ask(folder: Path, *arguments: str) -> Answer:
    """
    Run nats-server until it ends.
    """
    done = subprocess.run(
        [server(), *arguments],
        cwd=folder,
        env=dict(os.environ, **ENVIRONMENT),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return Answer(done.returncode, done.stderr)


def starts(folder: Path) -> bool:
    """Whether nats-server becomes ready with s.conf."""
    command = [server(), "-c", "s.conf", "-a", "127.0.0.1", "-p", "-1"]
    environment = dict(os.environ, **ENVIRONMENT)
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None
        ready = any("Server is ready" in line for line in process.stderr)
        process.kill()
    return ready


@dataclass(frozen=True)
class Ours:
    """Our answer, without keys that are not supported yet."""

    errors: tuple[ConfigError, ...]
    warnings: tuple[ConfigError, ...]
    digest: str

    @property
    def lines(self) -> set[int]:
        """The lines that we report."""
        return {error.position.line for error in self.errors}


def read(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Ours:
    """
    Write s.conf and read it.
    """
    (folder / "s.conf").write_text(text, "utf-8")
    monkeypatch.chdir(folder)
    try:
        built = buildFile("s.conf", ENVIRONMENT)
    except ConfigErrors as errors:
        problems = [error for error in errors.errors if not isinstance(error, NotSupportedYet)]
        return Ours(tuple(problems), (), "")
    return Ours((), built.warnings, built.settings.config_digest)


@pytest.fixture(autouse=True)
def _needed(request: pytest.FixtureRequest) -> Iterator[None]:
    case = request.node.callspec.params.get("case") if hasattr(request.node, "callspec") else None
    if isinstance(case, Case) and ".pem" in case.text:
        request.getfixturevalue("certificates")
    yield


class TestFiles:
    """Configuration files."""

    def test_enoughCases(self) -> None:
        """There are enough cases of each kind."""
        verdicts = [case.verdict for case in cases()]
        assert verdicts.count("ACCEPTED") > 60
        assert verdicts.count("REFUSED") > 60
        assert verdicts.count("STRICTER") > 10

    @select("ACCEPTED")
    def test_accepted(self, case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file that nats-server accepts is accepted here, with the same digest."""
        ours = read(folder, case.text, monkeypatch)
        assert (ours.errors, ours.warnings) == ((), ())
        answer = ask(folder, "-c", "s.conf", "-t")
        assert answer.code == 0, answer.text
        if ours.digest:
            assert ours.digest in answer.text

    @select("WARNED")
    def test_warned(self, case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file for which nats-server warns, and fails with C{-t}, has one warning here."""
        ours = read(folder, case.text, monkeypatch)
        assert ours.errors == ()
        assert len(ours.warnings) == 1
        assert ask(folder, "-c", "s.conf", "-t").code == 1
        assert starts(folder)

    @select("REFUSED")
    def test_sameLines(self, case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file that nats-server refuses is refused here, on the same lines."""
        ours = read(folder, case.text, monkeypatch)
        assert ours.errors
        answer = ask(folder, "-c", "s.conf", "-t")
        assert answer.code == 1
        if answer.lines and all(error.position.source == "s.conf" for error in ours.errors):
            assert ours.lines == answer.lines, answer.text

    @select("REFUSED_AT_START")
    def test_sameLinesAtStart(
        self, case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        A file with which nats-server cannot start is refused here when it is read, on the same
        lines.
        """
        assert read(folder, case.text, monkeypatch).errors
        assert not starts(folder)

    @select("STRICTER")
    def test_stricter(self, case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file that we refuse on purpose is accepted by nats-server."""
        assert read(folder, case.text, monkeypatch).errors
        assert starts(folder)


LINES = [
    "-v",
    "--version",
    "version",
    "help",
    "-h",
    "--help",
    "--help_tls",
    "-v --bogus",
    "--bogus",
    "-p",
    "-p x",
    "-p=",
    "-p=0x1_0000000000000000",
    "-p 1_000 -v",
    "-D=maybe",
    "-D true -v",
    "-D=T -v",
    "---v",
    "-=v",
    "-",
    "-- -v",
    "foo",
    "-p 4 5",
    "-c s.conf VERSION",
    "-t",
    "-t -c nope.conf",
    "-c nope.conf",
    "--signal foo=1",
    "--signal reload=1=2",
    "--signal reload=x",
    "--tls",
    "--tlscert cert.pem",
    "-t -c good.conf",
    "-t=true --config=good.conf",
    "-t -c wrong.conf",
]
COMMAND_FILES = {"good.conf": "port: 4222\n", "wrong.conf": "bogus: 1\n"}


@pytest.mark.parametrize("line", LINES)
def test_commandLine(line: str, tmp_path: Path) -> None:
    """A command line that ends at once has the exit code and the message of nats-server."""
    for name, text in COMMAND_FILES.items():
        (tmp_path / name).write_text(text)
    answer = ask(tmp_path, *line.split())
    files = filesystem({**COMMAND_FILES, "cert.pem": PEM})
    try:
        invocation = invocationFrom(line.split(), {}, files)
    except CommandLineError as error:
        assert (error.exitCode, f"{error}\n") == (answer.code, answer.text)
    except ConfigError as error:
        assert answer.code == 1
        assert _words(error) in answer.text.lower()
    else:
        assert invocation.action is not Action.RUN
        assert answer.code == 0


def _words(error: ConfigError) -> str:
    """The part of a message that both servers write: without program, position and path."""
    single = error.errors[0] if isinstance(error, ConfigErrors) else error
    return single.message.lower()
