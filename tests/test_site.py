"""
The documentation site: its parts, and the completeness of its lists.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from zope.interface.interface import InterfaceClass

import natsbroker.interfaces
from natsbroker.wire.grants import ConnectRequest
from tests.documents import blocksOf
from tests.interop.allowances import ALLOWANCES, VERDICTS

pytest.importorskip("sphinx")

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.append(str(DOCS))

import siteparts  # noqa: E402  (it lies beside the pages)

INDEX = """# Top

## Learning

- [One](one.md) and [two](topics/two.md), [out](../README.md), [the first](one.md) again.

## Nothing

Text.
"""


def publicInterfaces() -> list[str]:
    """
    @return: the names of the interfaces that C{natsbroker.interfaces} exports.
    """
    exported = natsbroker.interfaces.__all__
    return [
        name
        for name in exported
        if isinstance(getattr(natsbroker.interfaces, name), InterfaceClass)
    ]


def test_menuOf() -> None:
    """The menu has a table for each section with links, and each page once."""
    menu = siteparts.menuOf(INDEX)
    assert re.findall(r":caption: (.+)", menu) == ["Learning"]
    assert menu.split("\n\n")[1].splitlines()[:2] == ["one", "topics/two"]
    assert "README" not in menu


def test_outsideOf() -> None:
    """Links that leave C{docs} are found, with the paths of their files."""
    text = "[a](../../examples/x.py) [b](other.md) [c](../x.md#y) [d](../../README.md#top)"
    assert siteparts.outsideOf("topics/page", text) == {
        "../../examples/x.py": "examples/x.py",
        "../../README.md": "README.md",
    }


@pytest.mark.parametrize(
    ("name", "lexer"),
    [("a/x.py", "Python"), ("a/Containerfile", "Docker"), ("a/environment", "Text only")],
)
def test_lexerOf(name: str, lexer: str) -> None:
    """The highlighting of a file follows from its name."""
    assert siteparts.lexerOf(name).name == lexer


def test_described() -> None:
    """Epytext is shown as paragraphs and fields."""
    nodes = siteparts.described("Say C{this}.\n\n@param what: the thing.")
    assert "\n".join(node.astext() for node in nodes) == "Say this.\nwhat\n\nthe thing."


class Shop:
    """A class for the tests of the site."""

    def __init__(self, name: str, *, teas: Sequence[str] = (), price: Any = None) -> None:
        self.name = name

    @property
    def url(self) -> str:
        """The address."""
        return self.name

    def sell(self, tea: str = "assam") -> int | None:
        return None


def test_declaration() -> None:
    """A function is shown with its types as written, and without C{self}."""
    shown = siteparts.declaration("sell", Shop.sell)
    assert shown == "sell(tea: str = 'assam') -> int | None"


def test_longDeclaration() -> None:
    """
    Each argument of a long declaration is on its own line, and keyword-only arguments are marked.
    """
    assert siteparts.declaration("Shop", Shop.__init__, True).splitlines() == [
        "Shop(",
        "    name: str,",
        "    *,",
        "    teas: Sequence[str] = (),",
        "    price: Any = None,",
        ") -> None",
    ]


def test_defaultsInDeclaration() -> None:
    """A default made by a factory is omitted, and a member of an enum is shown by its name."""
    shown = siteparts.declaration("ConnectRequest", ConnectRequest.__init__)
    assert shown.startswith(
        "ConnectRequest(kind: Kind = Kind.CLIENT, options: Mapping[str, Any] = ..., host: str"
    )


def test_classSection() -> None:
    """The section of a class has its import path and its public members."""
    text = siteparts.classSection(__name__, "Shop").astext()
    assert f"from {__name__} import Shop" in text
    assert "Shop(name: str, *, teas: Sequence[str] = (), price: Any = None)" in text
    assert "url: str" in text and "The address." in text
    assert "sell(tea: str = 'assam') -> int | None" in text


def test_classes() -> None:
    """The reference of classes has those that programs and tests use."""
    page = (DOCS / "reference" / "classes.md").read_text("utf-8")
    listed = {
        name for block in blocksOf(page) if block.kind == "{classes}" for name in block.text.split()
    }
    names = {entry.rpartition(".")[2] for entry in listed}
    assert names >= {"Broker", "Settings", "Grant", "Message", "MemoryBroker", "BrokerProcess"}
    for entry in listed:
        module, _, name = entry.rpartition(".")
        assert f"from {module} import {name}" in siteparts.classSection(module, name).astext()


def test_eachInterfaceIsListedOnce() -> None:
    """The reference of interfaces has each public interface once."""
    page = (DOCS / "reference" / "interfaces.md").read_text("utf-8")
    listed = [
        name
        for block in blocksOf(page)
        if block.kind == "{interfaces}"
        for name in block.text.split()
    ]
    assert sorted(listed) == sorted(publicInterfaces())


def test_acceptedDifferencesAreDocumented() -> None:
    """A page lists exactly the differences that the comparisons with nats-server accept."""
    page = (DOCS / "topics" / "compatibility.md").read_text("utf-8")
    items = page.partition("## Protocol and logins")[2].replace("\n  ", " ")
    listed = re.findall(r"^- (.+)\.$", items, re.M)
    reasons = {rule.reason for rule in ALLOWANCES} | {rule.reason for rule in VERDICTS}
    assert sorted(listed) == sorted(reason[0].upper() + reason[1:] for reason in reasons)


def test_eachInterfaceHasAPlaceAmongPlugins() -> None:
    """The page on plugins gives the purpose of each public interface."""
    page = (DOCS / "topics" / "plugins.md").read_text("utf-8")
    assert [name for name in publicInterfaces() if f"`{name}`" not in page] == []


def test_examplesOfPlugins() -> None:
    """The page on plugins names each program in C{examples} that provides a plugin."""
    page = (DOCS / "topics" / "plugins.md").read_text("utf-8")
    programs = [
        path.name
        for path in DOCS.parent.glob("examples/*.py")
        if "@implementer" in path.read_text("utf-8")
    ]
    assert [name for name in programs if f"examples/{name})" not in page] == []
