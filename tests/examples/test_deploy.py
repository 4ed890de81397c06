"""
The files for deployment in C{examples/deploy}: each configuration is started, and the units, the
image and the manifests agree with it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from natsbroker.config.model import Settings, changed
from natsbroker.daemon.processes import SIGNALS
from natsbroker.server.configuration.build import buildText
from natsbroker.server.configuration.commandline import Invocation, invocationFrom
from natsbroker.server.configuration.passedsockets import NAMES
from tests.server.support import Host
from tests.wheels import SOURCES

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "examples" / "deploy"

COMMAND = "/opt/natsbroker/bin/natsbroker"
CONFIGURATION = "/etc/natsbroker/server.conf"


def textOf(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


class Started:
    """
    A broker with a given configuration, except that all data is in memory.

    @ivar ports: the ports on which it listens.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.host = Host(changed(settings, "jetstream.backend", "memory")).start()
        self.ports = {port for port, *_ in self.host.reactor.tcpServers}

    def status(self, url: str) -> int:
        """
        @return: the status of the answer to a request for a page.
        """
        parts = urlsplit(url)
        assert parts.port in (None, self.settings.monitoring.http_port)
        query = dict(parse_qsl(parts.query))
        answer = self.host.broker.monitoring.answer(parts.path, query)
        assert answer is not None
        return answer.status


@contextmanager
def started(configuration: str, environment: Mapping[str, str]) -> Iterator[Started]:
    broker = Started(buildText(configuration, environment).settings)
    yield broker
    broker.host.broker.stopService()


def invocation(
    words: Sequence[str], configuration: str = "", environment: Mapping[str, str] | None = None
) -> Invocation:
    """
    @return: the invocation of a command whose configuration file has this text.
    """
    assert words[0] == COMMAND

    def read(path: str) -> str:
        if path != CONFIGURATION:
            raise FileNotFoundError(path)
        return configuration

    return invocationFrom(words[1:], environment or {}, read)


class TestSystemd:
    """The systemd units."""

    ENVIRONMENT = dict(line.split("=", 1) for line in textOf("environment").splitlines())

    def section(self, name: str) -> Mapping[str, str]:
        parser = ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string(textOf(f"natsbroker.{name.lower()}"))
        return parser[name]

    def test_service(self) -> None:
        """The service starts the command with its configuration, and stops it in time."""
        service = self.section("Service")
        words = shlex.split(service["ExecStart"])
        settings = invocation(words, textOf("server.conf"), self.ENVIRONMENT).settings
        assert settings is not None
        assert (settings.config_file, service["Type"]) == (CONFIGURATION, "notify")
        assert service["EnvironmentFile"] == "/etc/natsbroker/environment"
        assert settings.jetstream.store_dir == f"/var/lib/{service['StateDirectory']}"
        assert service["KillSignal"] == SIGNALS["ldm"].name
        assert int(service["TimeoutStopSec"]) > settings.lame_duck_duration

    def test_restarted(self) -> None:
        """A broker that exits at once, as without its database, is restarted without limit."""
        mostStarts, within = 5, 10  # Those of systemd, unless its own configuration says otherwise.
        service = self.section("Service")
        assert service["Restart"] == "on-failure"
        assert mostStarts * int(service.get("RestartSec", "0")) > within

    def test_configuration(self) -> None:
        """The broker starts with the configuration, and is healthy."""
        with started(textOf("server.conf"), self.ENVIRONMENT) as broker:
            assert broker.ports == {4222, 8222}
            assert broker.status("/healthz") == 200

    def test_socket(self) -> None:
        """The socket has a known name and the address of the configuration."""
        opened = self.section("Socket")
        settings = buildText(textOf("server.conf"), self.ENVIRONMENT).settings
        assert opened["FileDescriptorName"] in NAMES
        assert opened["ListenStream"] == f"{settings.host}:{settings.port}"

    @pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
    def test_verified(self, tmp_path: Path) -> None:
        """systemd reports no fault in the units, if their command exists."""
        names = ("natsbroker.service", "natsbroker.socket")
        for name in names:
            (tmp_path / name).write_text(textOf(name).replace(COMMAND, sys.executable), "utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)],
            capture_output=True,
            text=True,
            check=False,
        )
        # It reads the machine's units too, which may have faults of their own.
        assert [line for line in done.stderr.splitlines() if "natsbroker" in line] == []


BUILDER = shutil.which("buildah")
BASE = os.environ.get("NATSBROKER_PYTHON_IMAGE")
"""The image that L{TestImage.test_built} builds on: one with Python, pip and useradd."""


class TestImage:
    """The Containerfile of the image."""

    CONFIGURATION = textOf("container.conf")

    def arguments(self, instruction: str) -> list[str]:
        """
        @return: the arguments of each occurrence of an instruction.
        """
        lines = re.sub(r"^#.*\n", "", textOf("Containerfile"), flags=re.M)
        joined = re.sub(r"\\\n *", "", lines)
        return re.findall(rf"^{instruction} (.+)$", joined, re.M)

    def words(self, instruction: str) -> list[str]:
        """
        @return: the words of an instruction that occurs once, as a list in brackets.
        """
        (arguments,) = self.arguments(instruction)
        command: list[str] = json.loads(arguments[arguments.index("[") :])
        return command

    def test_sources(self) -> None:
        """The image contains the sources of a wheel, and the configuration at its path."""
        copies = [argument.split() for argument in self.arguments("COPY")]
        sources = {path for *several, _ in copies for path in several}
        wheel = {*SOURCES, "natsbroker", "twisted"} - {"MANIFEST.in"}
        own = {"--from=build", "/opt/natsbroker", "examples/deploy/container.conf"}
        assert sources == wheel | own
        assert ["examples/deploy/container.conf", CONFIGURATION] in copies

    def test_command(self) -> None:
        """The command of the image reads the configuration, as a user other than root."""
        words = [*self.words("ENTRYPOINT"), *self.words("CMD")]
        settings = invocation(words, self.CONFIGURATION).settings
        assert settings is not None
        (user,) = self.arguments("USER")
        assert all(int(part) > 0 for part in user.split(":"))
        (volume,) = self.arguments("VOLUME")
        assert settings.jetstream.store_dir == volume

    def test_health(self) -> None:
        """
        The broker starts with the configuration on exposed ports, and the health check finds its
        page.
        """
        python, option, program = self.words("HEALTHCHECK")
        assert (Path(python).parent, option) == (Path(COMMAND).parent, "-c")
        compile(program, "HEALTHCHECK", "exec")
        (url,) = re.findall(r"http://127\.0\.0\.1:[^']+", program)
        (exposed,) = self.arguments("EXPOSE")
        with started(self.CONFIGURATION, {}) as broker:
            assert broker.status(url) == 200
            assert broker.ports <= set(map(int, exposed.split()))

    @pytest.mark.slow
    @pytest.mark.skipif(
        not (BUILDER and BASE), reason="no buildah, or no base image in NATSBROKER_PYTHON_IMAGE"
    )
    def test_built(self) -> None:
        """The image can be built, its command runs as its user, and its health check succeeds."""

        def buildah(*words: str, before: Sequence[str] = ()) -> str:
            command = [*before, str(BUILDER), *words]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.strip()

        command = shlex.join([*self.words("ENTRYPOINT"), *self.words("CMD")])
        check = shlex.join(self.words("HEALTHCHECK"))
        script = (
            f"{command} & until {check} 2>/dev/null; do kill -0 $! || exit 1; sleep 0.2; done; "
            "id -u; kill $!; wait"
        )
        # The ports are those of the configuration, so that the network is one of its own.
        alone = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        image, isolation = "natsbroker-test", ("--isolation", "chroot")
        arguments = (f"PYTHON={BASE}", "NATSBROKER_NO_EXTENSIONS=1")
        options = [word for argument in arguments for word in ("--build-arg", argument)]
        path = str(DEPLOY / "Containerfile")
        buildah("build", *isolation, "--format", "docker", *options, "-f", path, "-t", image, ".")
        container = buildah("from", "--pull-never", image)
        try:
            words = ("run", *isolation, container, "--", "sh", "-c", script)
            user, *_ = self.arguments("USER")[0].split(":")
            assert buildah(*words, before=alone).splitlines()[-1] == user
        finally:
            buildah("rm", container)
            buildah("rmi", image)


yaml = pytest.importorskip("yaml")


class TestKubernetes:
    """The Kubernetes manifests."""

    DOCUMENTS = tuple(yaml.safe_load_all(textOf("kubernetes.yaml")))

    @property
    def configuration(self) -> str:
        text: str = self.document("ConfigMap")["data"]["server.conf"]
        return text

    @property
    def spec(self) -> Any:
        return self.document("StatefulSet")["spec"]

    @property
    def pod(self) -> Any:
        return self.spec["template"]["spec"]

    @property
    def container(self) -> Any:
        (container,) = self.pod["containers"]
        return container

    @property
    def environment(self) -> dict[str, str]:
        """
        The environment of the first pod: variables of the manifest, and those of the secret that
        readers of the page create.
        """
        page = (ROOT / "docs" / "howto" / "deploy.md").read_text("utf-8")
        secret = re.findall(r"--from-literal=(\w+)=(\S+)", page)
        (own,) = self.container["env"]
        assert own["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
        return {own["name"]: "natsbroker-0", **dict(secret)}

    def document(self, kind: str, name: str = "natsbroker") -> Any:
        (document,) = (
            document
            for document in self.DOCUMENTS
            if (document["kind"], document["metadata"]["name"]) == (kind, name)
        )
        return document

    def test_ports(self) -> None:
        """The broker of a pod starts, and listens on the ports of the manifests."""
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        for name in ("natsbroker", self.spec["serviceName"]):
            for port in self.document("Service", name)["spec"]["ports"]:
                assert ports[port["targetPort"]] == port["port"]
        with started(self.configuration, self.environment) as broker:
            assert broker.ports == set(ports.values())
            assert ports["monitoring"] == broker.settings.monitoring.http_port

    @pytest.mark.parametrize("kind", ["startupProbe", "livenessProbe", "readinessProbe"])
    def test_probes(self, kind: str) -> None:
        """Each probe requests a page of the monitoring port that reports health."""
        request = self.container[kind]["httpGet"]
        assert request["port"] == "monitoring"
        with started(self.configuration, self.environment) as broker:
            assert broker.status(request["path"]) == 200

    def test_routes(self) -> None:
        """The routes lead to each pod by its name in the headless service."""
        settings = buildText(self.configuration, self.environment).settings
        assert settings.cluster is not None
        service = self.spec["serviceName"]
        assert self.document("Service", service)["spec"]["clusterIP"] == "None"
        hosts = [f"natsbroker-{number}.{service}" for number in range(self.spec["replicas"])]
        port = settings.cluster.port
        assert list(settings.cluster.routes) == [f"nats-route://{host}:{port}" for host in hosts]

    def test_labels(self) -> None:
        """Services, disruption budget and stateful set select the pods."""
        labels = self.spec["template"]["metadata"]["labels"]
        selected = [
            document["spec"]["selector"].get("matchLabels", document["spec"]["selector"])
            for document in self.DOCUMENTS
            if "selector" in document.get("spec", {})
        ]
        assert selected == [labels] * 4

    def test_lameDuck(self) -> None:
        """A pod stops with lame duck mode, and its grace period is long enough."""
        settings = buildText(self.configuration, self.environment).settings
        before = invocation(self.container["lifecycle"]["preStop"]["exec"]["command"])
        assert (before.signal, before.process) == ("ldm", "1")
        assert self.pod["terminationGracePeriodSeconds"] > settings.lame_duck_duration

    def test_container(self) -> None:
        """A container reads the configuration of the config map, as the user of the image."""
        (mount,) = self.container["volumeMounts"]
        assert self.container["args"] == ["-c", f"{mount['mountPath']}/server.conf"]
        (user,) = TestImage().arguments("USER")
        context = self.pod["securityContext"]
        assert user == f"{context['runAsUser']}:{context['runAsGroup']}"

    def test_schema(self) -> None:
        """
        Each manifest is valid for Kubernetes's own schema, where the package with it is installed.
        """
        validation = pytest.importorskip("kubernetes_validate")
        for document in self.DOCUMENTS:
            validation.validate(document, validation.latest_version(), strict=True)
