"""Settings of workers, and those that several cannot have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.config.model import Monitoring
from natsbroker.workers.messages import (
    CLIENTS,
)
from natsbroker.workers.settings import refusals, workerSettings
from tests.server.support import settingsOf

ADDRESS = ("127.0.0.1", 4333)
ADDRESSES = {CLIENTS: ADDRESS}


def test_whole() -> None:
    """A worker has the settings about its clients, and none of the parent's."""
    text = "max_payload: 77, pidfile: /p, ports_file_dir: /d, port: -1, workers: 4"
    own = workerSettings(settingsOf(text), 2, ADDRESSES)
    assert (own.max_payload, own.host, own.port) == (77, *ADDRESS)
    assert (own.pidfile, own.ports_file_dir, own.workers) == ("", "", 1)
    assert own.monitoring == Monitoring()


@pytest.mark.parametrize(
    ("backend", "isShared"), [("lmdb", True), ("postgres", True), ("memory", False)]
)
def test_first(backend: str, isShared: bool) -> None:
    """The first worker has what several cannot share, such as streams in a store."""
    settings = settingsOf("jetstream: enabled, streaming { cluster_id: c }")
    settings = replace(settings, jetstream=replace(settings.jetstream, backend=backend))
    first, second = (workerSettings(settings, number, ADDRESSES) for number in (1, 2))
    assert (first.jetstream.enabled, first.streaming) == (True, settings.streaming)
    assert (second.jetstream.enabled, second.streaming) == (isShared, None)


@pytest.mark.parametrize(
    ("block", "port", "advertised"),
    [
        ("port: 6222", 6224, ""),
        ("port: 6222, cluster_advertise: 'h:7000'", 6224, "h:7002"),
        ("port: 6222, cluster_advertise: h", 6224, "h"),
        ("port: -1", -1, ""),
    ],
)
def test_routes(block: str, port: int, advertised: str) -> None:
    """
    Each worker is a member of the cluster with its own port: the next ones in a row, or those that
    the kernel chooses.
    """
    settings = settingsOf(f"cluster {{ name: C, {block} }}")
    first, third = (workerSettings(settings, number, ADDRESSES) for number in (1, 3))
    assert first.cluster == settings.cluster
    assert third.cluster is not None
    assert (third.cluster.port, third.cluster.advertise) == (port, advertised)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("cluster { name: C, port: 1, dialect: auto }", "cluster.dialect"),
        ("streaming { nats_server_url: 'nats://h:1' }", "streaming"),
        ("services { traffic {} }", "services.traffic"),
        ("plugins { traffic {} }", "plugins.traffic"),
    ],
)
def test_unshared(text: str, key: str) -> None:
    """Each setting that workers cannot share is refused with its reason and a remedy."""
    [problem] = refusals(settingsOf(text))
    assert problem.startswith(f"{key}: ")
    assert problem.endswith("; use one worker")


@pytest.mark.parametrize(
    "text",
    [
        "jetstream: enabled, accounts { A { users [{user: a}] } }",
        "http_port: 8222",
        "gateway { name: A, port: 1 }",
        "authorization { plugin: cred, checkers: [anonymous] }",
        "cluster { name: C, port: 1 }",
        "websocket { port: 1, no_tls: true }",
        "leafnodes { port: 1, remotes [ { url: 'nats://h:1' } ] }",
    ],
)
def test_accepted(text: str) -> None:
    assert list(refusals(settingsOf(text))) == []


def test_plugin() -> None:
    """A plugin that does not declare its support for workers is refused by its name."""
    [problem] = refusals(settingsOf("services { traffic {} }"))
    said = 'the service "traffic" does not say that it runs in several processes'
    assert problem == f"services.traffic: {said}; use one worker"
