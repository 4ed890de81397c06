"""
Rows with small numbers, against real servers: the stand-in, and nats-server where it is installed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.contestants import Absent, mirror, natsServer, relay
from benchmarks.generator import Generator, GeneratorFailed, build
from benchmarks.measure import Sample, measure
from benchmarks.operationrows import syncOf
from benchmarks.rounds import Entry, Rounds, entriesOf
from benchmarks.rows import LINKS, Row, choose
from benchmarks.servers import Contestant, NatsServer, Server, ServerFailed, started
from benchmarks.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")]

LINKED = [f"{kind}{rest}" for kind, _ in LINKS for rest in ("-16", "-queue-128", "-request-1")]

STREAMS = [row.key for row in choose(["stream-*"])]

STORED = [f"jetstream-{name}" for name in ("put", "get", "batch", "ordered")]

SMALL = {
    "--connections": "5",
    "--established": "2",
    "--count": "1000",
    "--others": "30",
    "--subjects": "16",
    "--in-flight": "3",
}
"""The rows' numbers in this test."""


def inSmall(key: str) -> Row:
    """
    @return: the row with this key, with small numbers. Messages are counted, so that time does not
        matter.
    """
    (row,) = choose([key])
    words = list(row.load)
    for name, value in SMALL.items():
        if name in words:
            words[words.index(name) + 1] = value
    if row.kind == "traffic":
        words += ["--count", "2000"]
    return replace(row, load=tuple(words))


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    """
    @return: the generator, compiled for this module alone.
    """
    return build(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def reference() -> Contestant:
    """
    @return: nats-server.
    """
    try:
        return natsServer("reference", None)
    except Absent as error:
        pytest.skip(str(error))


@pytest.fixture
def plain(reference: Contestant) -> Iterator[Server]:
    """
    @return: nats-server, running.
    """
    with started(reference, SETTINGS["plain"], []) as server:
        yield server


@pytest.mark.parametrize(
    "key",
    [
        "publish-16",
        "one-128",
        "fan8-16",
        "eight-16",
        "others-16",
        "others-wild-16",
        "subjects-16",
        "queue-16",
        "headers-16",
        "request-1",
        "request-16",
        "permissions-one-16",
        "tls-one-16384",
        "tls-request-1",
        "route-interest",
        "memory-idle",
        "memory-wildcards",
        "tls-memory-idle",
        "storm",
        *LINKED,
        *STREAMS,
        *STORED,
    ],
)
def test_rowAgainstNatsServer(key: str, generator: Generator, reference: Contestant) -> None:
    """Each kind of row yields all of its figures against nats-server."""
    row = inSmall(key)
    if "--tls" in row.load and not generator.tls:
        pytest.skip("no OpenSSL headers")
    with started(reference, SETTINGS[row.setting], row.load) as server:
        sample = measure(generator, server, row, row.setting, 0.05)
    assert set(sample.figures) == {figure.key for figure in row.figures}
    if row.kind in ("traffic", "request"):
        assert all(value > 0 for value in sample.figures.values())


OPERATIONS = [row.key for row in choose(["*operation-*"]) if syncOf(row) in ("", "2m")]


@pytest.mark.parametrize("key", OPERATIONS)
def test_operationAgainstNatsServer(key: str, generator: Generator, reference: Contestant) -> None:
    """nats-server performs each operation, and its cost is measured."""
    row = inSmall(key)
    if "--tls" in row.load and not generator.tls:
        pytest.skip("no OpenSSL headers")
    with started(reference, SETTINGS[row.setting], row.load) as server:
        sample = measure(generator, server, row, row.setting, 0.05)
    assert set(sample.figures) == {figure.key for figure in row.figures}
    assert all(value > 0 for value in sample.figures.values())


@pytest.fixture(scope="module")
def ours() -> Contestant:
    """
    @return: our server of this checkout, without the compiled lane.
    """
    command = (sys.executable, "-m", "natsbroker")
    environment = {"PYTHONPATH": str(ROOT), "NATSBROKER_PURE": "1"}
    return NatsServer("pure", "ours", command, environment, lane="off")


@pytest.mark.parametrize("key", [f"{kind}-128" for kind, _ in LINKS])
def test_linkAgainstOurs(key: str, generator: Generator, ours: Contestant) -> None:
    """The throughput between two of our servers over each kind of link is measured."""
    row = inSmall(key)
    with started(ours, SETTINGS[row.setting], row.load) as server:
        sample = measure(generator, server, row, row.setting, 0.05)
    assert sample.figures["rate"] > 0


def test_linkThatIsNotThere(generator: Generator, reference: Contestant) -> None:
    """Two servers without a link between them are an error, not a figure."""
    row = inSmall("route-16")
    alone = replace(SETTINGS["route"], far='server_name: "alone"')
    with started(reference, alone, row.load) as server:
        with pytest.raises(GeneratorFailed, match="nothing crosses the link"):
            load = [*row.load, *server.farLoad, "--timeout", "1"]
            generator.run("traffic", server.port, server.pid, load, 0.05)


@pytest.mark.realtime
@pytest.mark.parametrize("key", STREAMS)
def test_streamAgainstOurs(key: str, generator: Generator, ours: Contestant) -> None:
    """Each row of NATS Streaming yields all of its figures against our server."""
    row = inSmall(key)
    with started(ours, SETTINGS[row.setting], row.load) as server:
        assert generator.run("answer", server.port, server.pid, [], 0.05) == {}
        sample = measure(generator, server, row, row.setting, 0.05)
    assert set(sample.figures) == {figure.key for figure in row.figures}
    assert all(value > 0 for value in sample.figures.values())


@pytest.mark.realtime
def test_operationsAgainstOurs(generator: Generator, ours: Contestant) -> None:
    """One server of ours performs all operations of JetStream, one after the other."""
    with started(ours, SETTINGS["jetstream-relaxed"], []) as server:
        for key in (name for name in OPERATIONS if name.endswith("-2m")):
            row = inSmall(key)
            sample = measure(generator, server, row, row.setting, 0.05)
            assert all(value > 0 for value in sample.figures.values()), key


@pytest.mark.parametrize(
    ("setting", "load", "reason"),
    [
        ("plain", ["--operation", "publish"], "NATS/1.0 503"),
        ("jetstream", ["--operation", "info", "--others", "5"], 'no "streams":6'),
        ("jetstream", ["--operation", "fetch-1"], "fetch-1 needs --count"),
        ("plain", ["--operation", "rest"], "no --operation is called rest"),
    ],
)
def test_operationThatIsNotDone(
    setting: str, load: list[str], reason: str, generator: Generator, reference: Contestant
) -> None:
    """An operation that fails, or is not counted by the server, is an error and not a figure."""
    with started(reference, SETTINGS[setting], []) as server:
        with pytest.raises(GeneratorFailed, match=reason):
            generator.run("operate", server.port, server.pid, load, 0.05)


def test_streamThatStoresNothing(generator: Generator, plain: Server) -> None:
    """A server without streams is an error, not a figure."""
    with pytest.raises(GeneratorFailed):
        generator.run("store", plain.port, plain.pid, [], 0.05)


def test_refusedSubjectIsAnError(generator: Generator, reference: Contestant) -> None:
    """A server that denies the subjects of a row is reported with its error."""
    row = replace(inSmall("publish-16"), setting="permissions")
    with started(reference, SETTINGS["permissions"], row.load) as server:
        with pytest.raises(GeneratorFailed, match="Authorization Violation"):
            measure(generator, server, row, "plain", 0.05)


def test_permissionsMustHold(reference: Contestant) -> None:
    """A server that allows a denied subject is not measured as one with permissions."""
    text = SETTINGS["permissions"].text.replace('deny: ["load.secret.>"]', "deny: []")
    with pytest.raises(ServerFailed, match=r"may publish to load\.secret\.x"):
        with started(reference, replace(SETTINGS["permissions"], text=text), []):
            pytest.fail("the server was taken")


def test_refusedLineIsAnError(generator: Generator, plain: Server) -> None:
    """A line that the server does not understand ends the measurement with the server's error."""
    load = ["--in-flight", "1", "--queue", "more words than allowed"]
    with pytest.raises(GeneratorFailed, match=r"-ERR|closed"):
        generator.run("request", plain.port, plain.pid, load, 0.05)


@pytest.mark.parametrize("key", ["publish-16", "one-128", "fan8-16", "eight-16", "others-wild-16"])
def test_mirror(key: str, generator: Generator) -> None:
    """The stand-in server passes on all of its input."""
    row = inSmall(key)
    with started(mirror(generator), SETTINGS["plain"], row.load) as server:
        sample = measure(generator, server, row, "plain", 0.05)
    assert sample.figures["rate"] > 0


@pytest.mark.parametrize("key", [row.key for row in choose(["relay-*"])])
def test_relay(key: str, generator: Generator) -> None:
    """The relay serves each of its rows, and no message is lost or changed by it."""
    row = inSmall(key)
    with started(relay(generator), SETTINGS["plain"], row.load) as server:
        sample = measure(generator, server, row, "plain", 0.05)
    assert sample.figures["rate"] > 0


def test_roundsInterleave(generator: Generator) -> None:
    """
    Servers take turns. A server that fails is tried twice and then omitted, and the others
    continue.
    """
    broken = NatsServer("reference", "broken", ("false",))
    told: list[str] = []
    rounds = Rounds(generator, [broken, mirror(generator)], 2, 0.05, frozenset(), told.append)
    (results,) = rounds.run([inSmall("one-128")])
    assert {who: len(many) for who, many in results.samples.items()} == {("ceiling", "plain"): 2}
    assert len(results.failures["reference", "plain"]) == 2
    said = [report.partition(": ")[2] for report in told]
    assert said[0] == "round 1 of 2"
    assert all(line.startswith("broken failed") for line in said[1:3])


def test_serversOfRow(generator: Generator) -> None:
    """A row measures only servers that it compares."""
    fast, reference, old = (NatsServer(name, name, ("x",)) for name in ("fast", "reference", "old"))
    everybody = [reference, old, fast, relay(generator), mirror(generator)]

    def keys(key: str) -> list[tuple[str, str]]:
        return [entry.key for entry in entriesOf(choose([key])[0], everybody)]

    assert keys("one-16") == [(name, "plain") for name in ("reference", "old", "fast", "ceiling")]
    assert keys("one-1024") == [(name, "plain") for name in ("reference", "fast", "ceiling")]
    assert keys("storm") == [("reference", "plain"), ("fast", "plain")]
    assert keys("relay-one-16") == [("fast", "permissions"), ("relay", "plain")]
    assert keys("permissions-one-16") == [("fast", "permissions"), ("fast", "plain")]
    assert Entry(fast, "tls").key == ("fast", "tls")


def test_command(reference: Contestant, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The command measures a row, prints its table and writes all figures."""
    file = tmp_path / "figures.json"
    words = ["--rows", "one-16", "--rounds", "1", "--seconds", "0.05", "--lanes", "fast"]
    status = command.main([*words, "--ours", reference.command[0], "--json", str(file)])
    assert status == 0
    assert "1 to 1, 16 B" in capsys.readouterr().out
    samples = json.loads(file.read_text("utf-8"))["samples"]
    assert [sample["contestant"] for sample in samples] == ["reference", "fast"]
    assert all(sample["rounds"][0]["rate"] > 0 for sample in samples)


def test_commandRefuses(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown row ends the command with an error and status 2."""
    assert command.main(["--rows", "speed"]) == 2
    assert "no row is called 'speed'" in capsys.readouterr().err


def test_commandLists(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows can be listed without any server."""
    assert command.main(["--list"]) == 0
    assert capsys.readouterr().out.startswith("publish-16")


def test_sampleNotes(generator: Generator) -> None:
    """A measurement says how busy the generator and the server were."""
    row = inSmall("one-128")
    with started(mirror(generator), SETTINGS["plain"], row.load) as server:
        sample: Sample = measure(generator, server, row, "plain", 0.05)
    assert {"generator_cores", "busiest_thread", "server_cores"} == set(sample.notes)
