"""
Runs README's two commands on a Debian that has nothing but Python, in a new root file system: as
root, with debootstrap, C{python3 -m tests.bare [TEST...]}.

The last commit is tested. With tests as arguments, the second command runs only these. Packages
come from the archive and the release that apt on this machine uses.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.machine import ROOT, say

CHECKOUT = "/home/natsbroker"
"""The clone, in the new root file system."""

LISTENING = re.compile(r"Listening for client connections on 127\.0\.0\.1:\d+")
"""The line of a broker that is ready."""

EXITING = "Server Exiting"
"""The last line of a server's log."""

PASSED_ON = re.compile(r"(?i)(\w+_)?proxy|PIP_(INDEX_URL|CERT)|NODE_EXTRA_CA_CERTS|npm_config_\w+")
"""Variables by which package registries are reached from here. A file that one names is copied."""

AUTHORITIES = "usr/local/share/ca-certificates"
"""This machine's own, which Debian's package of authorities adds to its own once it is there."""

_PREPARE = "mount -t tmpfs tmpfs /dev/shm && mount -t devpts devpts /dev/pts && cd {} && exec $@"

_FIELDS = "$(ORIGIN) $(CODENAME) $(REPO_URI) $(COMPONENT)"


class Unfit(Exception):
    """A README command fails, or cannot be tried here."""


@dataclass(frozen=True)
class Source:
    """
    A part of a Debian archive.

    @ivar suite: the release, or one with its updates.
    """

    suite: str
    uri: str
    component: str


def sourcesOf(targets: str, release: str) -> list[Source]:
    """
    @param targets: a line for each index that apt has, as L{_FIELDS}.
    @return: those of Debian's C{release} and its updates, the release itself first.
    @raise Unfit: if apt does not have the release.
    """
    rows = [line.split() for line in targets.splitlines()]
    suites = re.compile(rf"{re.escape(release)}(-(updates|security))?")
    sources = {
        Source(suite, uri, component)
        for origin, suite, uri, component in (row for row in rows if len(row) == 4)
        if origin == "Debian" and suites.fullmatch(suite)
    }
    ordered = sorted(
        sources, key=lambda source: (source.suite, source.component != "main", source.uri)
    )
    if not ordered or ordered[0].suite != release or ordered[0].component != "main":
        raise Unfit(f"apt has no Debian {release} here; after apt-get update it may")
    return ordered


def variablesFor(root: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """
    @return: the environment of the commands in C{root}, after copying the files that it names.
    """
    passed = {name: value for name, value in environment.items() if PASSED_ON.fullmatch(name)}
    for value in passed.values():
        if os.path.isabs(value) and os.path.isfile(value):
            copy = root / value.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(value, copy)
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "CI": "true", **passed}


def makeRoot(root: Path) -> None:
    """
    Make a root file system with Python, and a clone of this repository in it.
    """
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    listing = ("apt-get", "indextargets", "--format", _FIELDS, "Created-By: Packages")
    targets = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    sources = sourcesOf(targets, release)
    say(f"making a root file system of Debian {release}")
    options = ("--variant=minbase", "--include=python3")
    command = ("debootstrap", *options, release, str(root), sources[0].uri)
    subprocess.run(command, check=True, stdout=sys.stderr)
    lines = [f"deb {source.uri} {source.suite} {source.component}\n" for source in sources]
    (root / "etc/apt/sources.list").write_text("".join(lines))
    # Without it, nothing knows localhost.
    shutil.copy("/etc/hosts", root / "etc/hosts")
    if Path("/", AUTHORITIES).is_dir():
        shutil.copytree(Path("/", AUTHORITIES), root / AUTHORITIES, dirs_exist_ok=True)
    clone = ("git", "clone", "--quiet", str(ROOT), str(root / CHECKOUT.lstrip("/")))
    subprocess.run(clone, check=True)


def chrooted(root: Path, *command: str) -> list[str]:
    """
    @return: C{command} for the clone in C{root}. Its processes end with it.
    """
    # SIGTERM comes when unshare is killed; others it only ignores.
    spaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM")
    proc = f"--mount-proc={root}/proc"
    shell = ("sh", "-c", _PREPARE.format(CHECKOUT), "sh")
    return [*spaces, proc, "chroot", str(root), *shell, *command]


def tryBroker(command: Sequence[str], variables: Mapping[str, str]) -> None:
    """
    Start the broker, and stop it once it listens.

    @raise Unfit: if it ends too early, or not properly.
    """
    line, listened = "", False
    process = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            sys.stderr.write(line)
            if LISTENING.search(line):
                listened = True
                process.kill()
    if not listened or EXITING not in line:
        raise Unfit("the broker did not " + ("stop" if listened else "listen"))


def main(arguments: Sequence[str]) -> None:
    """
    Try both commands.

    @raise SystemExit: if one fails.
    """
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise SystemExit("natsbroker: this takes root, and Debian's package debootstrap")
    with tempfile.TemporaryDirectory(prefix="natsbroker-bare-") as name:
        # The folder's own mode would keep everybody but root out.
        root = Path(name, "root")
        root.mkdir()
        try:
            makeRoot(root)
            variables = variablesFor(root, os.environ)
            python = ("python3", "-m")
            options = ("-a", "127.0.0.1", "-p", "-1")
            tryBroker(chrooted(root, *python, "tests.start", *options), variables)
            command = chrooted(root, *python, "tests", *arguments)
            if status := subprocess.run(command, env=variables, check=False).returncode:
                raise Unfit(f"the checks ended with status {status}")
        except Unfit as failure:
            raise SystemExit(f"natsbroker: {failure}") from None
    say("both commands work")


if __name__ == "__main__":
    main(sys.argv[1:])
