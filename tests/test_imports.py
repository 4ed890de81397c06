"""
The import map of the architecture, held for every module of the package.
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
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import natsbroker

ROOT = Path(natsbroker.__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """
    What the modules of one layer may import besides the standard library and themselves.

    @ivar ours: names below C{natsbroker.}; each admits that module and everything inside it.
    @ivar others: top-level names of third-party packages.
    @ivar typing: further names, of either kind, admitted under C{if TYPE_CHECKING:} only.
    """

    ours: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    typing: frozenset[str] = frozenset()


def row(ours: str = "", others: str = "", typing: str = "") -> Row:
    """
    @return: a L{Row} from names separated by blanks.
    """
    return Row(frozenset(ours.split()), frozenset(others.split()), frozenset(typing.split()))


_BASE = "interfaces errors advisories subjects steps wire files"
_ROOMS = (
    f"{_BASE} hot config connections accounts clients links routes gateways leafnodes auth"
    " ocsp websocket streaming jetstream storage export monitoring server client"
)
_TWISTED = "twisted zope constantly automat"
_TLS = "OpenSSL service_identity cryptography"
_AUTH = "bcrypt nacl nkeys passlib"

MAP: dict[str, Row] = {
    "steps": row(),
    "subjects": row("steps"),
    "errors": row(),
    "files": row(),
    "wire": row("subjects errors"),
    "advisories": row("wire.values wire.grants subjects errors"),
    "_accel": row("wire connections subjects errors", "libc cpython posix cython"),
    "hot": row("_accel wire connections clients.lane links.s2block subjects"),
    "interfaces": row(
        "wire.values wire.grants", "zope", typing="twisted advisories subjects interfaces"
    ),
    "config": row(_ROOMS),
    "accounts": row(_ROOMS, _TWISTED),
    "connections": row(_ROOMS, f"{_TWISTED} {_TLS}"),
    "clients": row(_ROOMS, f"{_TWISTED} {_TLS}"),
    "links": row(_ROOMS, f"{_TWISTED} {_TLS} google_crc32c cramjam h11"),
    "ocsp": row(_ROOMS, f"{_TWISTED} {_TLS}"),
    "routes": row(_ROOMS, _TWISTED),
    "gateways": row(_ROOMS, _TWISTED),
    "leafnodes": row(_ROOMS, _TWISTED),
    "websocket": row(_ROOMS, f"{_TWISTED} wsproto h11"),
    "auth": row(_ROOMS, f"{_TWISTED} {_TLS} {_AUTH}"),
    "storage": row(
        f"{_BASE} hot config server", f"{_TWISTED} lmdb psycopg xxhash google_crc32c cryptography"
    ),
    "streaming": row(_ROOMS, f"{_TWISTED} google cryptography"),
    "jetstream": row(_ROOMS, _TWISTED),
    "export": row(f"{_BASE} storage", _TWISTED),
    "monitoring": row(_ROOMS, f"{_TWISTED} prometheus_client opentelemetry rich textual"),
    "client": row(_ROOMS, f"{_TWISTED} {_TLS}"),
    "server": row(f"{_ROOMS} broker tap main", f"{_TWISTED} {_TLS}"),
    "broker": row(_ROOMS, f"{_TWISTED} {_TLS}"),
    "tap": row(f"{_ROOMS} broker", f"{_TWISTED} {_TLS}"),
    "main": row(f"{_ROOMS} broker tap spark.cli", f"{_TWISTED} {_TLS}"),
    "__main__": row("main"),
    "testing": row(f"{_ROOMS} broker", f"{_TWISTED} {_TLS} pytest hypothesis"),
    "spark": row(
        "wire subjects steps files config accounts.settings client.options streaming.protocol",
        "pyspark pyarrow nacl fastavro msgspec google deltalake duckdb prometheus_client pyiceberg"
        " sqlalchemy jinja2 vl_convert",
    ),
}
"""
The whole map. Every module may also read C{__version__}, C{NATS_VERSION} and C{API_LEVEL} of
C{natsbroker}, because C{natsbroker/__init__.py} imports nothing.
docs/topics/architecture.md gives the reasons.
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
    One import statement's target.

    @ivar base: the module after C{from}, or the one after C{import}, spelt in full.
    @ivar name: what was taken from it, or C{""}.
    @ivar typing: whether it stands under C{if TYPE_CHECKING:}.
    @ivar guarded: whether it stands in a C{try} that catches C{ImportError}.
    @ivar atTop: whether it runs when the module is loaded.
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
        return any(each == prefix or each.startswith(prefix + ".") for each in spellings)


class ImportReader(ast.NodeVisitor):
    """
    Collects every L{Edge} of one module.

    @ivar edges: what was found, in the order of the text.
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
        """An import by a name in a string is an import as well."""
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


def edgesOf(module: str, text: str, isPackage: bool = False) -> list[Edge]:
    """
    @return: every import in C{text}, the source of C{module}.
    """
    reader = ImportReader(module, isPackage)
    reader.visit(ast.parse(text))
    return reader.edges


def layerOf(module: str) -> str:
    """
    @return: the key of L{MAP} that C{module} falls under: its first name below C{natsbroker}.
    """
    return module.split(".")[1]


def isAllowed(layer: str, edge: Edge) -> bool:
    """
    @return: whether the row of C{layer} admits C{edge}.
    """
    top = edge.base.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    row = MAP[layer]
    if top != "natsbroker":
        return top in row.others or (edge.typing and top in row.typing)
    if edge.base == "natsbroker" and edge.name in ("", "API_LEVEL", "NATS_VERSION", "__version__"):
        return True
    ours = row.ours | {layer} | (row.typing if edge.typing else frozenset())
    return any(edge.within(f"natsbroker.{name}") for name in ours)


def violations(module: str, text: str, isPackage: bool = False) -> list[str]:
    """
    @return: one sentence for each import in C{text} that the map does not allow C{module}.
    """
    if module == "natsbroker":
        return [
            f"natsbroker/__init__.py imports {edge.base}: it must import nothing"
            for edge in edgesOf(module, text, isPackage)
        ]
    layer = layerOf(module)
    if layer not in MAP:
        return [f"{module} has no row in the import map"]
    found = []
    for edge in edgesOf(module, text, isPackage):
        target = f"{edge.base}.{edge.name}" if edge.name else edge.base
        if not isAllowed(layer, edge):
            found.append(f"{module}:{edge.line} may not import {target}")
        elif edge.within("natsbroker._accel") and layer == "hot":
            if not (edge.guarded or edge.typing):
                found.append(f"{module}:{edge.line} imports {target} without a guard")
        elif edge.within("twisted.internet.reactor") and edge.atTop:
            found.append(f"{module}:{edge.line} imports the global reactor when it is loaded")
    return found


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
    @param imports: what each module imports.
    @return: modules that import each other in a circle; the first one is also the last. Empty
        without a cycle.
    """
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


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
                each
                for edge in edgesOf(module, path.read_text("utf-8"))
                for each in (f"{edge.base}.{edge.name}", edge.base)
            }
            imports[module] = (named & known) - {module}
        assert cycleIn(imports) == []

    def test_cycleIsSeen(self) -> None:
        """A circle is reported, and a chain is not."""
        assert len(cycleIn({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == 4
        assert cycleIn({"a": {"b"}, "b": {"c"}, "c": set()}) == []


class TestImportMap:
    """The map, held against the source of every module."""

    @pytest.mark.parametrize(
        ("module", "path"), [pytest.param(*each, id=each[0]) for each in modules()]
    )
    def test_moduleKeepsToItsRow(self, module: str, path: Path) -> None:
        """A module imports only what the row of its layer allows."""
        text = path.read_text("utf-8")
        assert violations(module, text, path.name == "__init__.py") == []

    def test_cythonKeepsToItsRow(self) -> None:
        """Cython sources import only what the row of C{_accel} allows."""
        found: list[str] = []
        for path in sorted((ROOT / "_accel").glob("*.p[xy][dxi]")):
            found += cythonViolations(f"natsbroker._accel.{path.stem}", path.read_text("utf-8"))
        assert found == []

    def test_rowsNameKnownLayers(self) -> None:
        """Every layer that a row allows has a row itself, so a misspelt name cannot hide."""
        named = {name.partition(".")[0] for each in MAP.values() for name in each.ours}
        assert named - set(MAP) == set()

    @pytest.mark.parametrize("layers", list(PURE), ids="+".join)
    def test_loadingStaysPure(self, layers: tuple[str, ...]) -> None:
        """Loading every module of a pure layer brings in none of the libraries it must not know."""
        names = [name for name, _ in modules() if name != "natsbroker" and layerOf(name) in layers]
        if not names:
            pytest.skip(f"{', '.join(layers)} not written yet")
        wanted = {each for layer in layers for each in MAP[layer].others}
        lacking = sorted(each for each in wanted if importlib.util.find_spec(each) is None)
        if lacking and not os.environ.get("CI"):
            pytest.skip(f"not installed: {', '.join(lacking)}")
        assert loadedBy(names) & set(PURE[layers]) == set()

    def test_loadingIsSeen(self) -> None:
        """The check of loaded libraries notices one that is there."""
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
    "interfaces.bus": [
        "from twisted.internet.defer import Deferred",
        "from natsbroker.wire import decoder",
        "from natsbroker.advisories import Advisory",
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
    """The reader, held against made-up modules, so that it cannot pass by seeing nothing."""

    @pytest.mark.parametrize(("module", "text"), rows(BAD))
    def test_refuses(self, module: str, text: str) -> None:
        """An import across the map is found wherever it stands in the text."""
        assert len(violations(f"natsbroker.{module}", text)) == 1

    @pytest.mark.parametrize(("module", "text"), rows(GOOD))
    def test_accepts(self, module: str, text: str) -> None:
        """An import that the map allows is not reported."""
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
        """An import across the map is found in Cython source too."""
        text = f"cdef class Lane:\n    pass\n{line}\nfrom libc.string cimport memcpy\n"
        assert len(cythonViolations("natsbroker._accel.lane", text)) == 1

    def test_packageImportsNothing(self) -> None:
        """The package's own C{__init__} may import nothing at all."""
        assert violations("natsbroker", "import os", True) != []

    def test_relativeImportInPackage(self) -> None:
        """A relative import in an C{__init__} file starts at the package itself."""
        assert violations("natsbroker.wire", "from .values import Message", True) == []
        assert violations("natsbroker.wire", "from ..accounts import account", True) != []

    def test_findsModules(self) -> None:
        """The walk over the package finds its modules."""
        assert "natsbroker" in dict(modules())
        assert len(dict(modules())) > 3
