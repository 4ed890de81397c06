"""
The files that put a broker on a machine, in C{examples/deploy}: each configuration is started, and
units, image and manifests agree with it.
"""

from __future__ import annotations

import json
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

from natsbroker.config.build import buildText
from natsbroker.config.commandline import Invocation, invocationFrom
from natsbroker.config.model import Settings, changed
from natsbroker.config.passedsockets import NAMES
from natsbroker.server.processes import SIGNALS
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
    A broker with a configuration, in memory, as are its streams.

    @ivar ports: where it listens.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.host = Host(changed(settings, "jetstream.backend", "memory")).start()
        self.ports = {port for port, *_ in self.host.reactor.tcpServers}

    def status(self, url: str) -> int:
        """
        @return: of the answer to a request for a page.
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
    @return: what a command is for, if its configuration file has this text.
    """
    assert words[0] == COMMAND

    def read(path: str) -> str:
        if path != CONFIGURATION:
            raise FileNotFoundError(path)
        return configuration

    return invocationFrom(words[1:], environment or {}, read)


class TestSystemd:
    """The units."""

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

    def test_configuration(self) -> None:
        """The broker starts with the configuration, and is healthy."""
        with started(textOf("server.conf"), self.ENVIRONMENT) as broker:
            assert broker.ports == {4222, 8222}
            assert broker.status("/healthz") == 200

    def test_socket(self) -> None:
        """The socket has a known name, and stands for the address of the configuration."""
        opened = self.section("Socket")
        settings = buildText(textOf("server.conf"), self.ENVIRONMENT).settings
        assert opened["FileDescriptorName"] in NAMES
        assert opened["ListenStream"] == f"{settings.host}:{settings.port}"

    @pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
    def test_verified(self, tmp_path: Path) -> None:
        """systemd finds no fault with the units of a command that is there."""
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


class TestImage:
    """The Containerfile. Its base images are not here, so that it is not built."""

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
        @return: the words of an instruction that occurs once, and has them in brackets.
        """
        (arguments,) = self.arguments(instruction)
        found: list[str] = json.loads(arguments[arguments.index("[") :])
        return found

    def test_sources(self) -> None:
        """It copies what a wheel is made of, and the configuration to its place."""
        copies = [each.split() for each in self.arguments("COPY")]
        sources = {each for *several, _ in copies for each in several}
        wheel = {*SOURCES, "natsbroker", "twisted"} - {"MANIFEST.in"}
        own = {"--from=build", "/opt/natsbroker", "examples/deploy/container.conf"}
        assert sources == wheel | own
        assert ["examples/deploy/container.conf", CONFIGURATION] in copies

    def test_command(self) -> None:
        """Its command reads the configuration, as a user that is not root."""
        words = [*self.words("ENTRYPOINT"), *self.words("CMD")]
        settings = invocation(words, self.CONFIGURATION).settings
        assert settings is not None
        (user,) = self.arguments("USER")
        assert all(int(each) > 0 for each in user.split(":"))
        (volume,) = self.arguments("VOLUME")
        assert settings.jetstream.store_dir == volume

    def test_health(self) -> None:
        """The configuration starts, on ports that are exposed; the health check finds its page."""
        python, option, program = self.words("HEALTHCHECK")
        assert (Path(python).parent, option) == (Path(COMMAND).parent, "-c")
        compile(program, "HEALTHCHECK", "exec")
        (url,) = re.findall(r"http://127\.0\.0\.1:[^']+", program)
        (exposed,) = self.arguments("EXPOSE")
        with started(self.CONFIGURATION, {}) as broker:
            assert broker.status(url) == 200
            assert broker.ports <= set(map(int, exposed.split()))


yaml = pytest.importorskip("yaml")


class TestKubernetes:
    """The manifests."""

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
        The variables of the first pod: those of the manifest, and those of the secret that the page
        has its reader make.
        """
        page = (ROOT / "docs" / "howto" / "deploy.md").read_text("utf-8")
        secret = re.findall(r"--from-literal=(\w+)=(\S+)", page)
        (own,) = self.container["env"]
        assert own["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
        return {own["name"]: "natsbroker-0", **dict(secret)}

    def document(self, kind: str, name: str = "natsbroker") -> Any:
        (found,) = (
            each
            for each in self.DOCUMENTS
            if (each["kind"], each["metadata"]["name"]) == (kind, name)
        )
        return found

    def test_ports(self) -> None:
        """The broker of a pod starts, and listens at the ports that the manifests name."""
        ports = {each["name"]: each["containerPort"] for each in self.container["ports"]}
        for name in ("natsbroker", self.spec["serviceName"]):
            for each in self.document("Service", name)["spec"]["ports"]:
                assert ports[each["targetPort"]] == each["port"]
        with started(self.configuration, self.environment) as broker:
            assert broker.ports == set(ports.values())
            assert ports["monitoring"] == broker.settings.monitoring.http_port

    @pytest.mark.parametrize("kind", ["startupProbe", "livenessProbe", "readinessProbe"])
    def test_probes(self, kind: str) -> None:
        """Each probe asks the monitoring port for a page that says that the broker is healthy."""
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
        assert list(settings.cluster.routes) == [f"nats-route://{each}:{port}" for each in hosts]

    def test_labels(self) -> None:
        """Services, budget and set select the pods."""
        labels = self.spec["template"]["metadata"]["labels"]
        selected = [
            each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
            for each in self.DOCUMENTS
            if "selector" in each.get("spec", {})
        ]
        assert selected == [labels] * 4

    def test_end(self) -> None:
        """A pod ends with lame duck mode, and has the time for it."""
        settings = buildText(self.configuration, self.environment).settings
        before = invocation(self.container["lifecycle"]["preStop"]["exec"]["command"])
        assert (before.signal, before.process) == ("ldm", "1")
        assert self.pod["terminationGracePeriodSeconds"] > settings.lame_duck_duration

    def test_container(self) -> None:
        """A container reads the configuration of the map, as the user of the image."""
        (mount,) = self.container["volumeMounts"]
        assert self.container["args"] == ["-c", f"{mount['mountPath']}/server.conf"]
        (user,) = TestImage().arguments("USER")
        context = self.pod["securityContext"]
        assert user == f"{context['runAsUser']}:{context['runAsGroup']}"

    def test_schema(self) -> None:
        """Kubernetes's own schema takes each document, where the package with it is installed."""
        validation = pytest.importorskip("kubernetes_validate")
        for each in self.DOCUMENTS:
            validation.validate(each, validation.latest_version(), strict=True)
