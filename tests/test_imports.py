"""
The import map of the architecture, which every module of the package must obey. C{python -m
tests.test_imports} prints it for docs/topics/architecture.md.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import natsbroker

ROOT = Path(natsbroker.__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """
    A room, and the modules that it may import besides the standard library and its own.

    @ivar about: the room in a few words.
    @ivar ours: rooms below C{natsbroker.} that are further up in L{MAP}.
    @ivar others: top-level names of third-party packages.
    @ivar typing: further third-party packages, permitted under C{if TYPE_CHECKING:} only.
    """

    about: str
    ours: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    typing: frozenset[str] = frozenset()


def row(about: str, ours: str = "", others: str = "", typing: str = "") -> Row:
    """
    @return: a L{Row} from names separated by blanks.
    """
    names = (frozenset(rooms.split()) for rooms in (ours, others, typing))
    return Row(about, *names)


_TWISTED = "twisted zope constantly automat"
_TLS = "OpenSSL service_identity cryptography"
_AUTH = "bcrypt nacl nkeys passlib"

MAP: dict[str, Row] = {
    "steps": row("long work in pieces"),
    "errors": row("errors that peers are sent"),
    "files": row("files that are replaced whole"),
    "subjects": row("subjects, patterns, their index and permissions", "steps"),
    "wire": row("bytes to values and back, in every dialect", "errors subjects"),
    "advisories": row("events inside the broker"),
    "interfaces": row(
        "what can be replaced, as zope interfaces",
        "subjects wire advisories",
        "zope",
        typing="twisted",
    ),
    "pure": row("the readable twins of compiled steps", "subjects wire interfaces"),
    "_accel": row("compiled steps", "errors subjects wire pure", "libc cpython posix cython"),
    "hot": row("the choice between compiled and readable", "subjects wire pure _accel"),
    "config": row("text to settings, and settings to the next ones", "subjects wire"),
    "runtime": row(
        "timers, failures, plugins: what every room borrows",
        "errors wire advisories interfaces config",
        _TWISTED,
    ),
    "connections": row(
        "sockets, TLS and timers under any protocol",
        "errors wire interfaces pure hot config runtime",
        f"{_TWISTED} {_TLS} google_crc32c cramjam",
    ),
    "monitoring": row(
        "pages over HTTP, health, metrics; C{top}",
        "wire interfaces config runtime connections",
        f"{_TWISTED} prometheus_client rich textual",
    ),
    "storage": row(
        "stores: memory, LMDB, PostgreSQL",
        "files subjects wire interfaces hot runtime",
        f"{_TWISTED} lmdb psycopg xxhash google_crc32c cryptography",
    ),
    "export": row("frames of what is stored", "subjects wire interfaces storage", _TWISTED),
    "accounts": row(
        "who receives a message: interest, imports, buses",
        "errors subjects wire interfaces pure hot config runtime connections",
        _TWISTED,
    ),
    "auth": row(
        "requests to grants: passwords, JWTs, callouts",
        "errors files subjects wire interfaces config runtime connections accounts",
        f"{_TWISTED} {_TLS} {_AUTH}",
    ),
    "client": row(
        "a client of another server, as a bus",
        "errors subjects wire interfaces hot runtime connections accounts",
        f"{_TWISTED} {_TLS}",
    ),
    "clients": row(
        "connections of clients: login, session, C{/connz}",
        "errors subjects wire advisories interfaces pure hot config runtime connections monitoring"
        " accounts auth",
        f"{_TWISTED} {_TLS}",
    ),
    "ocsp": row("certificates that were revoked", "files config connections", f"{_TWISTED} {_TLS}"),
    "links": row(
        "what connections with other servers share",
        "errors subjects wire advisories interfaces pure hot config runtime connections accounts"
        " auth clients",
        f"{_TWISTED} {_TLS} h11",
    ),
    "system": row(
        "the server as a whole: its pages and its system account",
        "subjects wire advisories interfaces config runtime monitoring accounts auth clients links",
        _TWISTED,
    ),
    "websocket": row(
        "clients over WebSocket",
        "errors wire interfaces hot config runtime connections monitoring clients links",
        f"{_TWISTED} wsproto h11",
    ),
    "mqtt": row(
        "clients that speak MQTT",
        "errors subjects wire interfaces config runtime connections monitoring clients links",
        _TWISTED,
    ),
    "routes": row(
        "clusters",
        "errors subjects wire interfaces hot config runtime connections monitoring accounts auth"
        " clients links system",
        _TWISTED,
    ),
    "gateways": row(
        "clusters of clusters",
        "errors subjects wire advisories interfaces hot config runtime connections monitoring"
        " export accounts clients links system routes",
        _TWISTED,
    ),
    "leafnodes": row(
        "servers at the edge",
        "errors subjects wire advisories interfaces hot config runtime connections monitoring"
        " accounts auth clients links system websocket routes",
        _TWISTED,
    ),
    "streaming": row(
        "NATS Streaming",
        "errors subjects wire interfaces hot config runtime connections monitoring storage export"
        " accounts client clients links",
        f"{_TWISTED} google cryptography",
    ),
    "jetstream": row(
        "JetStream",
        "steps errors files subjects wire advisories interfaces pure hot config runtime connections"
        " monitoring storage export accounts auth clients links system streaming",
        f"{_TWISTED} msgspec",
    ),
    "services": row(
        "services of ours that a configuration may name",
        "wire advisories interfaces hot runtime system streaming",
        f"{_TWISTED} opentelemetry",
    ),
    "server": row(
        "the rooms, introduced to each other",
        "errors wire interfaces hot config runtime connections monitoring storage"
        " accounts auth clients links system websocket mqtt routes gateways leafnodes"
        " streaming jetstream services",
        f"{_TWISTED} {_TLS}",
    ),
    "broker": row(
        "the broker as one service",
        "errors wire advisories interfaces hot config runtime connections accounts clients ocsp"
        " links system routes gateways leafnodes streaming server",
        f"{_TWISTED} {_TLS}",
    ),
    "embedding": row("a broker in an asyncio program", "runtime broker"),
    "daemon": row(
        "a process around a broker: signals, logs, files",
        "errors files advisories interfaces hot config runtime storage streaming server broker",
        f"{_TWISTED} {_TLS}",
    ),
    "workers": row(
        "several processes that are one server",
        "errors wire advisories interfaces hot config runtime connections monitoring clients links"
        " system server broker daemon",
        _TWISTED,
    ),
    "tap": row(
        "C{twistd natsbroker}", "config runtime auth server broker daemon workers", _TWISTED
    ),
    "spark": row(
        "the pipeline on PySpark",
        "files subjects wire config client streaming",
        "pyspark pyarrow nacl fastavro msgspec google deltalake duckdb prometheus_client pyiceberg"
        " sqlalchemy jinja2 vl_convert",
    ),
    "main": row(
        "the command C{natsbroker}",
        "config runtime connections monitoring server daemon workers spark",
        f"{_TWISTED} {_TLS}",
    ),
    "__main__": row("C{python -m natsbroker}", "main"),
    "testing": row(
        "brokers and contracts for the tests of others",
        "errors subjects wire interfaces config accounts client server broker main",
        f"{_TWISTED} {_TLS} pytest hypothesis",
    ),
}
"""
The rooms from the ground up: each may import only rooms above its row, for annotations too. Every
module may also read C{__version__}, C{NATS_VERSION} and C{API_LEVEL} of C{natsbroker}, because
C{natsbroker/__init__.py} imports nothing when it is loaded. docs/topics/architecture.md shows the
table.
"""

PURE = {
    ("wire", "subjects"): ("twisted", "zope"),
    ("config",): ("twisted", "zope"),
    ("spark",): ("twisted", "zope"),
}
"""Layers, and the libraries that loading all their modules must not bring in."""


@dataclass(frozen=True)
class Edge:
    """
    The target of an import statement.

    @ivar base: the module after C{from}, or the one after C{import}, with its full name.
    @ivar name: the imported name, or C{""}.
    @ivar typing: whether it is under C{if TYPE_CHECKING:}.
    @ivar guarded: whether it is in a C{try} that catches C{ImportError}.
    @ivar atTop: whether it is executed when the module is loaded.
    """

    line: int
    base: str
    name: str = ""
    typing: bool = False
    guarded: bool = False
    atTop: bool = True

    def within(self, prefix: str) -> bool:
        """
        @return: whether the target is the module C{prefix} or something inside it.
        """
        spellings = (self.base, f"{self.base}.{self.name}" if self.name else self.base)
        return any(
            spelling == prefix or spelling.startswith(prefix + ".") for spelling in spellings
        )


class ImportReader(ast.NodeVisitor):
    """
    Collects every L{Edge} of one module.

    @ivar edges: the imports in the order of the text.
    """

    def __init__(self, module: str, isPackage: bool) -> None:
        self._package = module if isPackage else module.rpartition(".")[0]
        self._typing = False
        self._guarded = False
        self._atTop = True
        self.edges: list[Edge] = []

    def _add(self, line: int, base: str, name: str = "") -> None:
        self.edges.append(Edge(line, base, name, self._typing, self._guarded, self._atTop))

    def _visitAll(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node.lineno, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = "." * node.level + (node.module or "")
        if node.level:
            base = importlib.util.resolve_name(base, self._package)
        for alias in node.names:
            self._add(node.lineno, base, alias.name)

    def visit_Call(self, node: ast.Call) -> None:
        """Collect an import by a name in a string too."""
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Name):
            called = node.func.id
        if called in ("import_module", "__import__", "namedAny", "namedModule") and node.args:
            target = node.args[0]
            if isinstance(target, ast.Constant) and isinstance(target.value, str):
                self._add(node.lineno, target.value)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        test = node.test
        spelling = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
        before = self._typing
        self._typing = before or spelling == "TYPE_CHECKING"
        self.visit(test)
        self._visitAll(node.body)
        self._typing = before
        self._visitAll(node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        before = self._guarded
        self._guarded = before or any(
            "ImportError" in ast.dump(handler.type) for handler in node.handlers if handler.type
        )
        self._visitAll(node.body)
        self._guarded = before
        self._visitAll(node.orelse + node.finalbody)
        for handler in node.handlers:
            self._visitAll(handler.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before = self._atTop
        self._atTop = False
        self.generic_visit(node)
        self._atTop = before

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)


@cache
def edgesOf(module: str, text: str, isPackage: bool = False) -> list[Edge]:
    """
    @return: every import in C{text}, the source of C{module}.
    """
    reader = ImportReader(module, isPackage)
    reader.visit(ast.parse(text))
    return reader.edges


def layerOf(module: str) -> str:
    """
    @return: the key of L{MAP} for C{module}: its first name below C{natsbroker}.
    """
    return module.split(".")[1]


def isAllowed(layer: str, edge: Edge) -> bool:
    """
    @return: whether the row of C{layer} permits C{edge}.
    """
    top = edge.base.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    row = MAP[layer]
    if top != "natsbroker":
        return top in row.others or (edge.typing and top in row.typing)
    if edge.base == "natsbroker" and edge.name in ("", "API_LEVEL", "NATS_VERSION", "__version__"):
        return True
    return any(edge.within(f"natsbroker.{name}") for name in row.ours | {layer})


def violations(module: str, text: str, isPackage: bool = False) -> list[str]:
    """
    @return: one sentence for each import in C{text} that the map does not permit in C{module}.
    """
    if module == "natsbroker":
        return [
            f"natsbroker/__init__.py imports {edge.base} when it is loaded"
            for edge in edgesOf(module, text, isPackage)
            if edge.atTop and not edge.typing
        ]
    layer = layerOf(module)
    if layer not in MAP:
        return [f"{module} has no row in the import map"]
    refusals = []
    for edge in edgesOf(module, text, isPackage):
        target = f"{edge.base}.{edge.name}" if edge.name else edge.base
        if not isAllowed(layer, edge):
            refusals.append(f"{module}:{edge.line} may not import {target}")
        elif edge.within("natsbroker._accel") and layer == "hot":
            if not (edge.guarded or edge.typing):
                refusals.append(f"{module}:{edge.line} imports {target} without a guard")
        elif edge.within("twisted.internet.reactor") and edge.atTop:
            refusals.append(f"{module}:{edge.line} imports the global reactor when it is loaded")
    return refusals


def modules() -> Iterator[tuple[str, Path]]:
    """
    @return: dotted name and file of every module of the package, C{__init__} files included.
    """
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["natsbroker", *path.relative_to(ROOT).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        yield ".".join(parts), path


CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+)?c?import\s+([\w.]+)", re.MULTILINE)


def cythonViolations(module: str, text: str) -> list[str]:
    """
    @return: as L{violations}, for Cython source, which C{ast} cannot read: each line that begins
        with C{from}, C{import} or C{cimport} is judged by the modules it names first.
    """
    lines = [
        f"from {base} import {name}" if base else f"import {name}"
        for base, name in CYTHON_IMPORT.findall(text)
    ]
    return violations(module, "\n".join(lines))


def loadedBy(names: list[str]) -> set[str]:
    """
    @return: the top-level names in C{sys.modules} of a fresh interpreter that imported C{names}.
    """
    script = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *names],
        cwd=ROOT.parent,
        env={"PYTHONPATH": str(ROOT.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def cycleIn(imports: dict[str, set[str]]) -> list[str]:
    """
    @param imports: the imports of each module.
    @return: modules that import each other in a circle; the first one is also the last. Empty
        without a cycle.
    """
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


@cache
def floorOf(name: str) -> int:
    """
    @return: one more than the highest floor of the rooms that a room imports.
    """
    return 1 + max((floorOf(room) for room in MAP[name].ours), default=-1)


def picture() -> str:
    """
    @return: the rooms of L{MAP} by their floors, the highest first, as a Markdown table.
    """
    lines = ["| floor | room | holds |", "|---|---|---|"]
    for name in sorted(MAP, key=floorOf, reverse=True):
        about = re.sub(r"C\{([^}]*)\}", r"`\1`", MAP[name].about)
        lines.append(f"| {floorOf(name)} | `{name}` | {about} |")
    return "\n".join(lines)


class TestCycles:
    """Import cycles, also those of annotations only and of imports inside functions."""

    def test_noCycle(self) -> None:
        """No module imports itself through others."""
        known = {name for name, path in modules() if path.name != "__init__.py"}
        imports = {}
        for module, path in modules():
            if module not in known:
                continue
            named = {
                name
                for edge in edgesOf(module, path.read_text("utf-8"))
                for name in (f"{edge.base}.{edge.name}", edge.base)
            }
            imports[module] = (named & known) - {module}
        assert cycleIn(imports) == []

    def test_cycleIsSeen(self) -> None:
        """A cycle of imports is reported, and a chain is not."""
        assert len(cycleIn({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == 4
        assert cycleIn({"a": {"b"}, "b": {"c"}, "c": set()}) == []


class TestImportMap:
    """The map, compared with the source of every module."""

    @pytest.mark.parametrize(
        ("module", "path"), [pytest.param(*case, id=case[0]) for case in modules()]
    )
    def test_moduleKeepsToItsRow(self, module: str, path: Path) -> None:
        """A module imports only what the row of its layer permits."""
        text = path.read_text("utf-8")
        assert violations(module, text, path.name == "__init__.py") == []

    def test_cythonKeepsToItsRow(self) -> None:
        """Cython sources import only what the row of C{_accel} permits."""
        refusals: list[str] = []
        for path in sorted((ROOT / "_accel").glob("*.p[xy][dxi]")):
            refusals += cythonViolations(f"natsbroker._accel.{path.stem}", path.read_text("utf-8"))
        assert refusals == []

    def test_rowsNameRoomsBelow(self) -> None:
        """Each row names only rooms below it, so that no two rooms can import each other."""
        below: set[str] = set()
        for name, entry in MAP.items():
            assert entry.ours <= below, name
            below.add(name)

    def test_rowsAreUsed(self) -> None:
        """Each row names only rooms that its modules import."""
        sources = [(name, edgesOf(name, path.read_text("utf-8"))) for name, path in modules()]
        used: dict[str, set[str]] = {name: set() for name in MAP}
        for module, edges in sources:
            if module != "natsbroker":
                imported = {
                    other for other in MAP for edge in edges if edge.within(f"natsbroker.{other}")
                }
                used[layerOf(module)] |= imported - {layerOf(module)}
        del used["_accel"]
        assert used == {name: set(MAP[name].ours) for name in used}

    def test_picture(self) -> None:
        """The architecture page has the present table."""
        page = (ROOT.parent / "docs/topics/architecture.md").read_text("utf-8")
        assert picture() in page, f"print it with: python -m {__name__}"

    @pytest.mark.parametrize("layers", list(PURE), ids="+".join)
    def test_loadingStaysPure(self, layers: tuple[str, ...]) -> None:
        """
        Loading all modules of a pure layer imports none of the libraries that it must not use.
        """
        names = [name for name, _ in modules() if name != "natsbroker" and layerOf(name) in layers]
        if not names:
            pytest.skip(f"{', '.join(layers)} not written yet")
        wanted = {package for layer in layers for package in MAP[layer].others}
        lacking = sorted(package for package in wanted if importlib.util.find_spec(package) is None)
        if lacking and not os.environ.get("CI"):
            pytest.skip(f"not installed: {', '.join(lacking)}")
        assert loadedBy(names) & set(PURE[layers]) == set()

    def test_loadingIsSeen(self) -> None:
        """The check of imported libraries detects one that is imported."""
        assert "zope" in loadedBy(["zope.interface"])


BAD = {
    "wire.decoder": [
        "import twisted.internet",
        "from zope.interface import implementer",
        "from natsbroker.config import model",
        "from ..config.model import Settings",
        "from .. import accounts",
        "def late():\n    from natsbroker.accounts import account",
        "class C:\n    def late(self):\n        import zope.interface",
        "if TYPE_CHECKING:\n    from twisted.internet.defer import Deferred",
        "try:\n    import twisted\nexcept ImportError:\n    twisted = None",
        "import importlib\nimportlib.import_module('twisted.internet')",
    ],
    "storage.memory": [
        "import psycopg2",
        "from natsbroker.clients.session import Session",
        "from natsbroker.broker import Broker",
        "from natsbroker._accel import lane",
    ],
    "export.service": [
        "from natsbroker.accounts.account import Account",
        "from natsbroker.jetstream import api",
        "from natsbroker.hot import Decoder",
        "from natsbroker import broker",
    ],
    "clients.protocol": [
        "from natsbroker.broker import Broker",
        "import lmdb",
        "from twisted.internet import reactor",
    ],
    "broker": ["from natsbroker.spark import rows", "import natsbroker.testing"],
    "spark.rows": [
        "import twisted",
        "from natsbroker.accounts.account import Account",
        "import zope",
    ],
    "hot": ["from natsbroker._accel import lane", "from natsbroker.accounts import account"],
    "accounts.account": [
        "if TYPE_CHECKING:\n    from natsbroker.clients.session import ClientSession",
        "def late():\n    from natsbroker.links.link import Link",
    ],
    "interfaces.bus": [
        "from twisted.internet.defer import Deferred",
        "from natsbroker.config.model import Settings",
    ],
    "madeUpLayer": ["import os"],
}

GOOD = {
    "wire.decoder": [
        "import os.path",
        "from natsbroker.subjects import grammar",
        "from . import ops",
    ],
    "storage.memory": [
        "from zope.interface import implementer",
        "from natsbroker.hot import Outbox",
    ],
    "streaming.service": [
        "from natsbroker.wire import values",
        "from natsbroker.wire.headers import Headers",
        "from natsbroker.interfaces import IMessageBus",
        "from natsbroker import __version__",
        "def run():\n    from twisted.internet import reactor",
    ],
    "hot": ["try:\n    from natsbroker._accel import lane\nexcept ImportError:\n    lane = None"],
    "interfaces.bus": [
        "if TYPE_CHECKING:\n    from twisted.internet.defer import Deferred",
        "if TYPE_CHECKING:\n    from natsbroker.advisories import Advisory",
        "from natsbroker.wire.values import Message",
    ],
}


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    """
    @return: the table's modules and texts as pairs.
    """
    return [(module, text) for module, texts in table.items() for text in texts]


class TestReaderItself:
    """The reader of imports itself, on invented modules."""

    @pytest.mark.parametrize(("module", "text"), rows(BAD))
    def test_refuses(self, module: str, text: str) -> None:
        """An import that the map forbids is found anywhere in the text."""
        assert len(violations(f"natsbroker.{module}", text)) == 1

    @pytest.mark.parametrize(("module", "text"), rows(GOOD))
    def test_accepts(self, module: str, text: str) -> None:
        """An import that the map permits is not reported."""
        assert violations(f"natsbroker.{module}", text) == []

    @pytest.mark.parametrize(
        "line",
        [
            "from twisted.internet cimport tcp",
            "import zope",
            "from natsbroker.accounts import account",
        ],
    )
    def test_refusesInCython(self, line: str) -> None:
        """An import that the map forbids is found in Cython source too."""
        text = f"cdef class Lane:\n    pass\n{line}\nfrom libc.string cimport memcpy\n"
        assert len(cythonViolations("natsbroker._accel.lane", text)) == 1

    def test_packageImportsNothing(self) -> None:
        """The package's C{__init__} imports nothing when it is loaded."""
        assert violations("natsbroker", "import os", True) != []
        assert "twisted" not in loadedBy(["natsbroker"])

    def test_relativeImportInPackage(self) -> None:
        """A relative import in an C{__init__} file starts at the package itself."""
        assert violations("natsbroker.wire", "from .values import Message", True) == []
        assert violations("natsbroker.wire", "from ..accounts import account", True) != []

    def test_findsModules(self) -> None:
        """The walk over the package finds its modules."""
        assert "natsbroker" in dict(modules())
        assert len(dict(modules())) > 3


if __name__ == "__main__":
    print(picture())
