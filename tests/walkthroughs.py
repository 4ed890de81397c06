"""
Plays a document as its reader would: its files are written, its commands typed into one shell.

A fenced block is

 - a file, where the paragraph before it ends with the file's name in a code span and a colon;
 - a file of the checkout, if it is of the kind C{{literalinclude}};
 - a transcript, if it is of the kind C{console}: commands after C{$ }, with their further lines
   after C{> }, and what each prints. C{...} stands for any text. Where nothing is shown, the
   command must succeed;
 - a Python session, if it has C{>>>}: L{tests.test_docs} runs it;
 - of the kind C{text}: only looked at.

A command that ends with C{&} goes to the background, and the next one waits until it has printed
what is shown. The ports in the text are replaced by free ones.
"""

from __future__ import annotations

import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from tests.documents import Block, blocksOf

ROOT = Path(__file__).resolve().parents[1]

PATIENCE = 90.0
"""Seconds that a command may take on a busy machine."""

NOT_RUN = {
    "apt-get": "changes the machine",
    "dnf": "changes the machine",
    "pip": "asks a package index; tests/test_packaging.py builds and installs the package",
    "python3 -m venv": "makes an environment, which the tests run in already",
    ".": "enters that environment",
    "nats": "is a tool of NATS that tests do without",
    "sudo": "changes the machine",
    "systemctl": "changes the machine",
    "journalctl": "reads the log of a service that runs",
    "kubectl": "needs a Kubernetes cluster",
    "podman": "needs a builder of images",
}
"""Commands that are only shown, by how they begin, and why."""

WHERE_INSTALLED = ("prometheus", "promtool", "systemd-analyze", "etcd", "patroni", "patronictl")
"""
Programs that no test needs: their commands, and what follows in the same transcript, run on
machines that have them.
"""

_PORT = re.compile(
    r"(?<![\d.])(?:422[2-9]|622[2-9]|722[2-9]|742[2-9]|822[2-9]|844[3-9]|909[0-9]|543[23]|2379|2380|800[89])(?![\d.])"
)
_LASTING = range(20_000, 32_768)
"""Ports that no kernel gives to a program that asks for any: the port of a program that has ended
is free when the page starts it again."""

_ANY = re.escape("...")
_MARK = "walkthrough-status"


class Stumbled(AssertionError):
    """
    A step has another result than the document shows. The message begins with the line number.
    """


@dataclass(frozen=True)
class File:
    """
    A file that the reader writes.
    """

    name: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """
    A command that the reader types.

    @ivar shown: its output in the document.
    """

    text: str
    shown: str
    line: int

    def begins(self, words: str) -> bool:
        """
        @return: whether these are its first words.
        """
        return f"{self.text} ".startswith(f"{words} ")


def commandsOf(block: Block) -> Iterator[Command]:
    """
    @return: the commands of a transcript.
    @raise Stumbled: if it does not begin with one.
    """
    command: list[str] = []
    shown: list[str] = []
    start = block.line
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            if command:
                yield Command("\n".join(command), "".join(shown), start)
            command, shown, start = [line[2:]], [], number
        elif not command:
            raise Stumbled(f"line {number}: a transcript begins with a command: {line}")
        elif not shown and (line.startswith("> ") or command[-1].endswith("\\")):
            command.append(line.removeprefix("> "))
        else:
            shown.append(f"{line}\n")
    if command:
        yield Command("\n".join(command), "".join(shown), start)


def stepsOf(document: str) -> Iterator[File | list[Command]]:
    """
    @return: the reader's steps in C{document}, in order: files, and the commands of transcripts.
    @raise Stumbled: if a block cannot be played.
    """
    for block in blocksOf(document):
        if block.file:
            yield File(block.file, block.text, block.line)
        elif block.kind == "console":
            yield list(commandsOf(block))
        elif ">>>" not in block.text and block.kind != "text":
            raise Stumbled(f"line {block.line}: neither a file nor a transcript")


def freePorts(document: str) -> dict[str, str]:
    """
    @return: a free port, as text, for each port in C{document}.
    """
    names = sorted(set(_PORT.findall(document)))
    with ExitStack() as stack:
        return {name: _freePort(stack) for name in names}


def _freePort(stack: ExitStack) -> str:
    while True:
        listener = stack.enter_context(socket.socket())
        port = random.choice(_LASTING)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            continue  # somebody has it
        return str(port)


def isShown(shown: str, printed: str) -> bool:
    """
    @param shown: lines. C{...} on a line of its own stands for any lines, elsewhere for any text.
    @return: whether the printed output matches the shown one.
    """
    lines = [
        "(?:.*\n)*" if line == "..." else f"{re.escape(line).replace(_ANY, '.*')}[ \t]*\n"
        for line in map(str.rstrip, shown.splitlines())
    ]
    return re.fullmatch("".join(lines), f"{printed.rstrip()}\n") is not None


class Shell:
    """A shell in a folder, with the commands of this environment."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._background: list[Path] = []
        binaries = str(Path(sys.executable).parent)
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={
                **os.environ,
                "PATH": os.pathsep.join([binaries, os.environ.get("PATH", "")]),
                "HOME": str(folder),
                "PYTHONUNBUFFERED": "1",
                **variables,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *reason: object) -> None:
        """End the shell and the programs that it started."""
        for number, patience in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 15.0)):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(patience)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def play(self, command: Command) -> None:
        """Run a command, and compare its output with the shown one."""
        if command.text.endswith("&"):
            self._start(command)
        else:
            printed, status = self._run(f"{{ {command.text}\n}} </dev/null")
            wrong = not isShown(command.shown, printed) if command.shown else status != 0
            if wrong:
                raise Stumbled(
                    f"line {command.line}: {command.text}\nshown:\n{command.shown}\n"
                    f"printed, with status {status}:\n{printed}\n{self._logs()}"
                )

    def write(self, file: File) -> None:
        """Write a file into the present folder of the shell."""
        here, _ = self._run("pwd")
        path = Path(here.strip(), file.name).resolve()
        if not path.is_relative_to(self._folder.resolve()):
            raise Stumbled(f"line {file.line}: {file.name} is outside of the reader's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, "utf-8")

    def _start(self, command: Command) -> None:
        log = self._folder / f".background-{len(self._background)}"
        log.touch()
        self._background.append(log)
        text = command.text.removesuffix("&").rstrip()
        self._run(f">{log} 2>&1 </dev/null {text} &")
        due = time.monotonic() + PATIENCE
        while not isShown(f"{command.shown}...\n", log.read_text("utf-8", "replace")):
            if time.monotonic() > due:
                raise Stumbled(f"line {command.line}: {command.text}\n{self._logs()}")
            time.sleep(0.05)

    def _run(self, text: str) -> tuple[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\nprintf '\\n{_MARK} %s\\n' $?\n".encode())
        self._process.stdin.flush()
        printed = b""
        due = time.monotonic() + PATIENCE
        ending = re.compile(rb"\n%b (\d+)\n\Z" % _MARK.encode())
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        while not (end := ending.search(printed)):
            # select() takes no descriptor above 1,023, which a run of all tests has.
            ready = poll.poll(max(due - time.monotonic(), 0) * 1000)
            piece = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            if not piece:
                raise Stumbled(f"no end of: {text}\n{printed.decode()}\n{self._logs()}")
            printed += piece
        return printed[: end.start()].decode("utf-8", "replace"), int(end[1])

    def _logs(self) -> str:
        return "\n".join(
            f"{process.name}:\n{process.read_text('utf-8', 'replace')}"
            for process in self._background
        )


def walk(document: str, folder: Path, variables: Mapping[str, str] | None = None) -> Sequence[str]:
    """
    Play C{document} in an empty C{folder}.

    @param variables: environment variables for the commands.
    @return: the commands that were run.
    @raise Stumbled: at the first step whose result is not the shown one.
    """
    ports = freePorts(document)
    text = _PORT.sub(lambda match: ports[match[0]], document)
    typed = []
    with Shell(folder, variables or {}) as shell:
        for step in stepsOf(text):
            if isinstance(step, File):
                shell.write(step)
                continue
            for command in takewhile(_isPossible, step):
                if not any(map(command.begins, NOT_RUN)):
                    shell.play(command)
                    typed.append(command.text)
    return typed


def _isPossible(command: Command) -> bool:
    return all(shutil.which(program) for program in WHERE_INSTALLED if command.begins(program))
