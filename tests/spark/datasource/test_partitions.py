"""
The ranges of a query, as workers read them.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

from natsbroker.spark.datasource.streaming import RangedReader, RangePartition
from natsbroker.spark.datasource.tasks import connected
from natsbroker.spark.logs.apis import StreamApi
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.settings import readOptions
from tests.auth.operator.chain import Account, KeyPair, Operator, credentialsFile
from tests.interop.certificates import writeCertificates
from tests.interop.conftest import StartServer
from tests.interop.servers import REAL, Server
from tests.spark.support import CONFIG, Station, Stream


def test_pickledTask(station: Station) -> None:
    """A task that was pickled reads its range."""
    stream = station.stream()
    stream.fill([b"a", b"b", b"c"])
    options = readOptions({"servers": station.url, "stream": stream.name})
    created = station.streams.state(stream.name).created
    task = pickle.loads(pickle.dumps(RangePartition(SequenceRange(stream.name, created, 2, 4), ())))
    options = pickle.loads(pickle.dumps(options))
    batches = list(RangedReader(("data", "seq"), options).read(task))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"data": b"b", "seq": 2}, {"data": b"c", "seq": 3}]
    task.bounds = replace(task.bounds, start=0, stop=0)
    assert list(RangedReader(("data",), options).read(task)) == []


def test_closes(station: Station) -> None:
    """A task that is not read to its end leaves no connection."""
    stream = station.stream()
    stream.fill([b"x"] * 10)
    options = readOptions({"servers": station.url, "stream": stream.name, "batchRows": "2"})
    created = station.streams.state(stream.name).created
    options["connectTimeout"] = 5.0
    task = RangePartition(SequenceRange(stream.name, created, 1, 11), ())
    reading = RangedReader(("seq",), options).read(task)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert list(reading) == []


class TestCredentials:
    """Options for every kind of credential, on a nats-server that requires it."""

    def reads(self, server: Server, **options: str) -> int:
        """The number of rows that a task reads with given options, which also serve for writing."""
        given = {"servers": server.url, "stream": "S", **options}
        with connected(readOptions(given)) as connection:
            stream = Stream(connection, "S")
            stream.make()
            stream.fill([b"x"] * 3)
            created = StreamApi(connection).state("S").created
        task = RangePartition(SequenceRange("S", created, 1, 4), ())
        reader = RangedReader(("seq",), readOptions(given))
        return sum(x.num_rows for x in reader.read(task))

    def test_password(self, startServer: StartServer) -> None:
        """Options give a name and a password."""
        server = startServer(REAL, CONFIG + "authorization { user: anna, password: apple }\n")
        assert self.reads(server, user="anna", password="apple") == 3

    def test_token(self, startServer: StartServer) -> None:
        """A token."""
        server = startServer(REAL, CONFIG + "authorization { token: t0ken }\n")
        assert self.reads(server, token="t0ken") == 3

    def test_nkey(self, startServer: StartServer, tmp_path: Path) -> None:
        """The seed of an nkey."""
        user = KeyPair("U")
        (tmp_path / "seed").write_bytes(user.seed)
        server = startServer(
            REAL, CONFIG + f"authorization {{ users: [ {{ nkey: {user.key} }} ] }}\n"
        )
        assert self.reads(server, nkeySeedFile=str(tmp_path / "seed")) == 3

    def test_credentialsFile(self, startServer: StartServer, tmp_path: Path) -> None:
        """A JWT and a seed, on a server in operator mode."""
        operator = Operator()
        system, account, user = Account(operator), Account(operator), KeyPair("U")
        (tmp_path / "user.creds").write_text(credentialsFile(account.user(user), user))
        storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        server = startServer(
            REAL,
            f"{CONFIG}operator: {operator.jwt()}\nsystem_account: {system.key}\n"
            f"resolver: MEMORY\nresolver_preload {{ {system.key}: {system.jwt()}\n"
            f" {account.key}: {account.jwt(limits=storage)} }}\n",
        )
        assert self.reads(server, credentialsFile=str(tmp_path / "user.creds")) == 3

    def test_certificate(self, startServer: StartServer, tmp_path: Path) -> None:
        """A certificate over TLS."""
        writeCertificates(tmp_path)
        server = startServer(
            REAL,
            f"{CONFIG}tls {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server-key.pem,"
            f" ca_file: {tmp_path}/ca.pem, verify_and_map: true }}\n"
            'authorization { users: [ { user: "alice@example.com" } ] }\n',
        )
        files = {"tlsCa": "ca", "tlsCert": "client", "tlsKey": "client-key"}
        options = {name: str(tmp_path / f"{path}.pem") for name, path in files.items()}
        assert self.reads(server, **options) == 3
