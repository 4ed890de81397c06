"""
A Sphinx extension with what the site has beside the pages that a code host shows:

 - the menu, which is made of the lists of links in C{index.md};
 - a page for each file outside of C{docs} that a page links to;
 - C{{interfaces}} blocks, which show the interfaces that they name with their methods;
 - C{{classes}} blocks, which show classes and functions with their types;
 - C{{output}} blocks, which show what a command of the package prints.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import Parameter, Signature, cleandoc
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from zope.interface import Attribute
from zope.interface.interface import InterfaceClass, Method

import natsbroker.interfaces

SCHEME = "repository"
"""Of links that leave C{docs}, while a page is read; conf.py has MyST pass it."""

TOP = Path(__file__).resolve().parents[1]

_LABELS = {"param": "", "ivar": "", "return": "returns", "raise": "raises"}
"""The labels of a docstring's fields, by tag; other fields are labelled with their tag."""

_WIDTH = 88
"""The longest line of a declaration, in characters."""

_SECTION = re.compile(r"^## (?P<title>.+)$", re.M)
_PAGE = re.compile(r"\[[^\]]*\]\((?P<page>[\w/.-]+)\.md\)")
_OUTSIDE = re.compile(r"(?P<before>\]\()(?P<path>(?:\.\./)+[^)#\s]+)(?:#[^)\s]*)?(?=\))")


def menuOf(index: str) -> str:
    """
    @return: hidden tables of contents, one for each section of C{index}, with the pages that it
        links to.
    """
    title, *sections = _SECTION.split(index)
    tables = []
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        pages = dict.fromkeys(
            link["page"] for link in _PAGE.finditer(text) if not link["page"].startswith("../")
        )
        if pages:
            listed = "\n".join(pages)
            tables.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```\n")
    return "".join(tables)


def outsideOf(page: str, text: str) -> dict[str, str]:
    """
    @param page: the name of a page, such as C{topics/tls}.
    @return: each link in C{text} that leaves C{docs}, with the path of its file from the top.
    """
    up = "../" * (page.count("/") + 1)
    links = {link["path"] for link in _OUTSIDE.finditer(text)}
    return {link: link.removeprefix(up) for link in links if link.startswith(up)}


def readSource(app: Sphinx, page: str, source: list[str]) -> None:
    """
    Add the menu to the index, and mark links that leave C{docs}.
    """
    outside = outsideOf(page, source[0])
    files: set[str] = app.env.__dict__.setdefault("natsbroker_files", set())
    files.update(outside.values())
    source[0] = _OUTSIDE.sub(
        lambda link: (
            f"{link['before']}{SCHEME}:{outside[link['path']]}"
            if link["path"] in outside
            else link[0]
        ),
        source[0],
    )
    if page == "index":
        source[0] += menuOf(source[0])


def resolveFiles(app: Sphinx, document: nodes.document, page: str) -> None:
    """
    Lead the marked links to the pages of their files.
    """
    for link in document.findall(nodes.reference):
        scheme, _, path = link.get("refuri", "").partition(":")
        if scheme == SCHEME:
            link["refuri"] = app.builder.get_relative_uri(page, f"files/{path}")


def lexerOf(name: str) -> Lexer:
    """
    @return: what colours a file; plain text where its name says nothing.
    """
    if name.endswith("Containerfile"):
        return get_lexer_by_name("docker")
    try:
        return get_lexer_for_filename(name)
    except ClassNotFound:
        return get_lexer_by_name("text")


def filePages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """
    @return: the pages of files that are linked.
    """
    formatter = HtmlFormatter(cssclass="highlight", wrapcode=True)
    for name in sorted(app.env.__dict__.get("natsbroker_files", ())):
        text = (TOP / name).read_text("utf-8")
        shown = highlight(text, lexerOf(name), formatter)
        yield f"files/{name}", {"title": name, "body": f"<h1>{name}</h1>\n{shown}"}, "page.html"


def described(text: str) -> list[nodes.Node]:
    """
    @return: the paragraphs, lists and fields of an epytext docstring.
    """
    # Registers directives with docutils, and Sphinx warns of those that are there before its own.
    from pydoctor.epydoc.markup.epytext import parse_docstring

    errors: list[Any] = []
    parsed = parse_docstring(cleandoc(text), errors)
    if errors:
        raise ExtensionError(f"a docstring cannot be read: {errors[0]}: {text}")
    body = list(parsed.to_node().children) if parsed.has_body else []
    fields = nodes.field_list()
    for field in parsed.fields:
        tag = f"{_LABELS.get(field.tag(), field.tag())} {field.arg() or ''}".strip()
        content = nodes.field_body("", *field.body().to_node().children)
        fields += nodes.field("", nodes.field_name("", tag), content)
    return [*body, fields] if len(fields) else body


def plain(paragraphs: list[nodes.Node]) -> list[nodes.Node]:
    """
    @return: C{paragraphs} without references to Python names, which the site shows as code.
    """
    holder = nodes.container("", *paragraphs)
    for reference in list(holder.findall(nodes.title_reference)):
        reference.replace_self(nodes.literal("", reference.astext()))
    return list(holder.children)


def signatureOf(name: str, method: Method) -> str:
    """
    @return: the line that declares a method, without C{self}.
    """
    signature: str = method.getSignatureString()  # type: ignore[no-untyped-call]
    return name + signature


class Interfaces(SphinxDirective):
    """
    Shows the interfaces whose names stand in the block, one a line.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        shown: list[nodes.Node] = []
        for name in self.content:
            interface = getattr(natsbroker.interfaces, name, None)
            if not isinstance(interface, InterfaceClass):
                raise self.error(f"natsbroker.interfaces.{name} is no interface")
            shown.append(self._section(name, interface))
        return shown

    def _section(self, name: str, interface: InterfaceClass) -> nodes.section:
        section = nodes.section(ids=[name.lower()], names=[name.lower()])
        section += nodes.title("", "", nodes.literal("", name))
        bases = [base.__name__ for base in interface.__bases__ if base.__name__ != "Interface"]
        if bases:
            section += nodes.paragraph("", f"Everything of {', '.join(bases)}, and more.")
        section += plain(described(interface.__doc__ or ""))
        entries = nodes.definition_list()
        for key, member in sorted(
            interface.namesAndDescriptions(), key=lambda pair: isinstance(pair[1], Method)
        ):
            entries += self._entry(key, member)
        if len(entries):
            section += entries
        return section

    def _entry(self, name: str, member: Attribute) -> nodes.definition_list_item:
        line = signatureOf(name, member) if isinstance(member, Method) else name
        return nodes.definition_list_item(
            "",
            nodes.term("", "", nodes.literal("", line)),
            nodes.definition("", *plain(described(member.__doc__ or ""))),
        )


class _Text(str):
    """An annotation that a signature shows without quotes."""

    __repr__ = str.__str__


def typedSignature(function: Callable[..., Any]) -> Signature:
    """
    @return: the parameters of a function with their types as its source has them, without C{self}.
    """
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=_annotation(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    returned = _annotation(signature.return_annotation)
    return Signature(parameters, return_annotation=returned)


def _annotation(annotation: Any) -> Any:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def declaration(name: str, function: Callable[..., Any], isLong: bool = False) -> str:
    """
    @param isLong: whether each argument gets a line of its own.
    @return: the declaration of a function; a default that a factory makes is C{...}.
    """
    signature = typedSignature(function)
    text = f"{name}{signature}"
    if isLong and signature.parameters:
        arguments = [str(parameter) for parameter in signature.parameters.values()]
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        if Parameter.KEYWORD_ONLY in kinds and Parameter.VAR_POSITIONAL not in kinds:
            arguments.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
        end = str(signature.replace(parameters=[])).removeprefix("()")
        lines = "".join(f"    {argument},\n" for argument in arguments)
        text = f"{name}(\n{lines}){end}"
    return re.sub(r"<([\w.]+): \w+>", r"\1", text.replace("<factory>", "..."))


def classSection(module: str, name: str) -> nodes.section:
    """
    @return: a class with its public members, or a function.
    """
    value = getattr(import_module(module), name)
    section = nodes.section(ids=[name.lower()], names=[name.lower()])
    section += nodes.title("", "", nodes.literal("", name))
    call: Any = value.__init__ if isinstance(value, type) else value  # type: ignore[misc]
    isLong = len(declaration(name, call)) > _WIDTH
    text = f"from {module} import {name}\n\n{declaration(name, call, isLong)}"
    text = text.removesuffix(" -> None")
    section += nodes.literal_block(text, text, language="python")
    section += plain(described(value.__doc__ or ""))
    if isinstance(value, type):
        section += plain(described(call.__doc__ or ""))
        section += [membersOf(value)]
    return section


def membersOf(holder: type) -> nodes.definition_list:
    """
    @return: the public methods and properties of a class itself.
    """
    members = nodes.definition_list()
    for name, value in vars(holder).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        line = declaration(name, function)
        if isinstance(value, property):
            line = line.replace("() ->", ":")
        members += nodes.definition_list_item(
            "",
            nodes.term("", "", nodes.literal("", line)),
            nodes.definition("", *plain(described(function.__doc__ or ""))),
        )
    return members


class Classes(SphinxDirective):
    """
    Shows classes and functions, whose full names stand in the block, one a line.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [classSection(*name.rpartition(".")[::2]) for name in self.content]


class Output(SphinxDirective):
    """
    Shows the command in the block, and what it prints.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        command = " ".join(self.content)
        program, *arguments = command.split()
        path = Path(sys.executable).with_name(program)
        done = subprocess.run([path, *arguments], capture_output=True, text=True, check=True)
        text = f"$ {command}\n\n{done.stdout.strip()}\n"
        return [nodes.literal_block(text, text, language="console")]


def setup(app: Sphinx) -> dict[str, Any]:
    """
    Register the parts with Sphinx.
    """
    app.add_directive("interfaces", Interfaces)
    app.add_directive("classes", Classes)
    app.add_directive("output", Output)
    app.connect("source-read", readSource)
    app.connect("doctree-resolved", resolveFiles)
    app.connect("html-collect-pages", filePages)
    return {"version": "1", "parallel_read_safe": False}
