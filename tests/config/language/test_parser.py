"""
Tests for L{natsbroker.config.language.parser}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.config.errors import ConfigError, Position
from natsbroker.config.keys.types import plain
from natsbroker.config.language.parser import MAX_EXPANSION, parse, parseFile
from natsbroker.config.language.tree import ArrayNode, TableNode
from tests.config.support import filesystem


def read(text: str, environment: Mapping[str, str] | None = None, **files: str) -> TableNode:
    """
    Read a text in C{conf/s.conf} with other files C{conf/NAME.conf} beside it.
    """
    paths = {f"conf/{name}.conf": content for name, content in files.items()}
    return parse(text, environment or {}, "conf/s.conf", filesystem(paths))


def problemOf(text: str, environment: Mapping[str, str] | None = None, **files: str) -> ConfigError:
    """
    Get the error that a text ends with.
    """
    with pytest.raises(ConfigError) as raised:
        read(text, environment, **files)
    return raised.value


class TestTree:
    """The tree of a text."""

    def test_kindsOfValues(self) -> None:
        """Values of every kind are parsed, nested as written."""
        text = """
        # comment
        host: "127.0.0.1", port = 4222
        size 10kb; ratio: 0.5
        on: yes
        block { list: [1, two, [true] ], "quoted key": 'x' }
        """
        assert plain(read(text)) == {
            "host": "127.0.0.1",
            "port": 4222,
            "size": 10240,
            "ratio": 0.5,
            "on": True,
            "block": {"list": [1, "two", [True]], "quoted key": "x"},
        }

    def test_places(self) -> None:
        """Keys, values and items know their line and column."""
        table = read("a: 1\n b {\n  c: [x,\n   y]\n }\n")
        outer = table.entries["b"]
        assert outer.position == Position("conf/s.conf", 2, 2)
        assert outer.node.position == Position("conf/s.conf", 2, 4)
        assert isinstance(outer.node, TableNode)
        inner = outer.node.entries["c"]
        assert inner.position == Position("conf/s.conf", 3, 3)
        assert isinstance(inner.node, ArrayNode)
        places = [(item.position.line, item.position.column) for item in inner.node.items]
        assert places == [(3, 7), (4, 4)]

    def test_lastOneWins(self) -> None:
        """A key that is written twice has its last value and position."""
        entry = read("a: 1\na: 2").entries["a"]
        assert (plain(entry.node), entry.position.line) == (2, 2)

    def test_integerOutOfRange(self) -> None:
        """A number that is too large is reported at its position."""
        problem = problemOf("a: 1\nb: 99999999999999999999")
        assert str(problem) == ("conf/s.conf:2:4: integer is out of the range")

    def test_keyWithoutValue(self) -> None:
        """A key without a value at the end of the text is named in the error."""
        assert "'port' has no value" in problemOf("host: a\nport").message

    def test_unprintableText(self) -> None:
        """Text that no file can contain is refused."""
        assert "not text" in problemOf("a: \ud800").message

    @given(
        st.recursive(
            st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text("abc .:$'é\t"),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(st.text("abcdef .$é", min_size=1), inner, max_size=4)
            ),
            max_leaves=20,
        )
    )
    def test_json(self, value: object) -> None:
        """A JSON document in the layout of JSON libraries has the same values."""
        document = json.dumps({"key": value}, ensure_ascii=False, indent=1)
        assert plain(read(document)) == {"key": value}


class TestReferences:
    """References of the form C{$NAME}."""

    def test_enclosingBlocks(self) -> None:
        """A reference takes the value from the nearest block that has the key."""
        text = "a: 1\nb: 2\nouter { a: 3, inner { x: $a, y: $b } }"
        assert plain(read(text).entries["outer"].node) == {"a": 3, "inner": {"x": 3, "y": 2}}

    def test_wholeBlocks(self) -> None:
        """A reference may stand for a map or an array."""
        text = "p { publish: [x] }\nusers: [ {q: $p}, $p ]"
        expected = {"publish": ["x"]}
        assert plain(read(text).entries["users"].node) == [{"q": expected}, expected]

    def test_laterKeyIsNotFound(self) -> None:
        """A reference to a later key, or to a key in a block that is closed, is not found."""
        assert "can not be found" in problemOf("x: $a\na: 1").message
        assert "can not be found" in problemOf("b { a: 1 }\nx: $a").message

    def test_useIsNoted(self) -> None:
        """A key that is referred to is marked as used."""
        table = read("a: 1\nb: $a")
        assert [table.entries[key].used for key in "ab"] == [True, False]

    def test_place(self) -> None:
        """A value from a reference has the position of the reference."""
        entry = read("a: 1\n\nb: $a").entries["b"]
        assert entry.node.position == Position("conf/s.conf", 3, 4)

    def test_quotesTurnItOff(self) -> None:
        """A dollar sign in quotes is not a reference."""
        assert plain(read("a: \"$b\"\nc: '$d'")) == {"a": "$b", "c": "$d"}

    def test_bcrypt(self) -> None:
        """An unquoted bcrypt hash of the 2a kind is a string."""
        assert plain(read("pass: $2a$11$abc")) == {"pass": "$2a$11$abc"}

    def test_otherBcrypt(self) -> None:
        """
        A bcrypt hash of another kind needs quotes. The error says so, and does not show the hash.
        """
        message = problemOf("pass: $2b$11$secretsecret").message
        assert "needs quotes" in message
        assert "secret" not in message

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("4222", 4222),
            ("2k", 2000),
            ("yes", True),
            ("1.5", 1.5),
            ("hello", "hello"),
            ("'hello world'", "hello world"),
            ("{a: [1, 2 ]}", {"a": [1, 2]}),
            ("", ""),
            ("x\npk=3", 3),
        ],
    )
    def test_environment(self, text: str, value: object) -> None:
        """A variable of the environment is parsed like the value of a key."""
        assert plain(read("x: $NAME", {"NAME": text})) == {"x": value}

    def test_environmentIsLast(self) -> None:
        """A key of the file takes precedence over the environment."""
        assert plain(read("A: 1\nx: $A", {"A": "2"}).entries["x"].node) == 1

    def test_chain(self) -> None:
        """A variable of the environment may refer to another."""
        assert plain(read("x: $A", {"A": "[$B, $B]", "B": "7"})) == {"x": [7, 7]}

    def test_cycle(self) -> None:
        """Variables of the environment that refer to each other are an error."""
        message = problemOf("x: $A", {"A": "$B", "B": "$A"}).message
        assert "variable reference cycle for 'A'" in message

    def test_unreadable(self) -> None:
        """A variable whose text is not a value is named, with the line of the reference."""
        problem = problemOf("\nx: $A", {"A": "a b"})
        assert problem.position == Position("conf/s.conf", 2, 4)
        assert problem.message.startswith(
            "variable reference for 'A' on line 2 could not be parsed"
        )

    def test_deepChain(self) -> None:
        """A long chain of variables is an error and no crash."""
        environment = {f"A{n}": f"$A{n + 1}" for n in range(1000)}
        assert "nests too deep" in problemOf("x: $A0", environment).message

    def test_bomb(self) -> None:
        """References that double a value many times are refused before they are expanded."""
        lines = ["a0: [x, x]", *(f"a{n + 1}: [$a{n}, $a{n}]" for n in range(60))]
        assert f"more than {MAX_EXPANSION} values" in problemOf("\n".join(lines)).message

    def test_bombInTheEnvironment(self) -> None:
        """Variables of the environment that double a value many times are refused too."""
        environment = {f"A{n}": f"[$A{n + 1}, $A{n + 1}]" for n in range(25)}
        environment["A25"] = "[x, x]"
        assert f"more than {MAX_EXPANSION} values" in problemOf("x: $A0", environment).message

    def test_impossibleName(self) -> None:
        """A variable whose name the platform cannot look up is not found."""

        class Platform(dict[str, str]):
            def get(self, key: str, default: object = None) -> str:
                raise UnicodeEncodeError("utf-8", key, 0, 1, "surrogates not allowed")

        assert "can not be found" in problemOf("x: $\udcff", Platform()).message


class TestIncludes:
    """Included files."""

    def test_keysAppear(self) -> None:
        """The keys of an included file appear at the include, and replace earlier ones."""
        table = read("a: 1\nb: 1\ninclude x.conf\nc: 3", x="b: 2")
        assert plain(table) == {"a": 1, "b": 2, "c": 3}

    def test_inAMap(self) -> None:
        """A map can include a file."""
        assert plain(read("m { include 'x.conf' }", x="a: 1")) == {"m": {"a": 1}}

    def test_relative(self) -> None:
        """A path is relative to the file that includes it."""
        files = filesystem(
            {"etc/s": "include 'sub/a'", "etc/sub/a": "include b", "etc/sub/b": "x 1"}
        )
        assert plain(parseFile("etc/s", {}, files)) == {"x": 1}

    def test_absoluteIsRelativeToo(self) -> None:
        """As in nats-server, a leading slash does not make a path absolute."""
        files = filesystem({"etc/s": "include '/a'", "etc/a": "x 1"})
        assert plain(parseFile("etc/s", {}, files)) == {"x": 1}

    def test_placesNameTheFile(self) -> None:
        """A value of an included file has the position in that file."""
        entry = read("include x.conf", x="\na: 1").entries["a"]
        assert entry.position == Position("conf/x.conf", 2, 1)

    def test_referencesSeeIncludedKeys(self) -> None:
        """A reference may name a key of an included file, and this key need not be a known one."""
        table = read("include x.conf\nb: $a", x="a: 1")
        assert plain(table.entries["b"].node) == 1
        assert table.entries["a"].used

    def test_includedFilesSeeOnlyThemselves(self) -> None:
        """An included file cannot refer to keys of the including file."""
        assert "can not be found" in problemOf("a: 1\ninclude x.conf", x="b: $a").message

    def test_missingFile(self) -> None:
        """A missing file is named, with the position of the include."""
        problem = problemOf("a: 1\ninclude nope.conf")
        assert problem.message == (
            "open conf/nope.conf: No such file or directory "
            "(in include 'nope.conf' at conf/s.conf:2:9)"
        )

    def test_mistakeInside(self) -> None:
        """
        A mistake in an included file is reported with that file and line, and with the including
        file.
        """
        problem = problemOf("include x.conf", x="a: 1\nb: [")
        assert (problem.position.source, problem.position.line) == ("conf/x.conf", 2)
        assert problem.message.endswith("(in include 'x.conf' at conf/s.conf:1:9)")

    def test_cycle(self) -> None:
        """Files that include each other are an error that shows the cycle."""
        problem = problemOf("include x.conf", x="include y.conf", y="include x.conf")
        circle = "file includes itself: conf/x.conf -> conf/y.conf -> conf/x.conf"
        assert circle in problem.message

    def test_includesItself(self) -> None:
        """A file that includes itself is an error."""
        files = filesystem({"etc/s": "include s"})
        with pytest.raises(ConfigError, match="includes itself"):
            parseFile("etc/s", {}, files)

    def test_deep(self) -> None:
        """A long chain of inclusions is an error and no crash."""
        files = filesystem({f"f{n}": f"include f{n + 1}" for n in range(1000)})
        with pytest.raises(ConfigError, match="nests too deep"):
            parseFile("f0", {}, files)

    def test_inclusionsDouble(self) -> None:
        """Inclusions that double at each level are an error and no endless work."""
        files = filesystem({f"f{n}": f"include f{n + 1}\n" * 4 for n in range(25)} | {"f25": ""})
        with pytest.raises(ConfigError, match="more than 1000 files"):
            parseFile("f0", {}, files)

    def test_outermostFileMissing(self) -> None:
        """A missing configuration file is an error that names it."""
        with pytest.raises(ConfigError) as raised:
            parseFile("nope.conf", {}, filesystem({}))
        assert str(raised.value) == "nope.conf: open nope.conf: No such file or directory"


_FRAGMENTS = (
    *"abk$\"'{}[]()#/\\,;=:.-01 \n\t\r\0\u00e9\u0663\u2028\udcff",
    "include", "x.conf", "$a", "a: ", "b {", "c [", "\n)", "(\n", "2020-01-02T03:04:05Z",
    "1kb", "true", "\\x41", "127.0.0.1:4222", "//", "include x.conf\n",
)  # fmt: skip


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=40).map("".join) | st.text())
def test_nothingButConfigErrors(text: str) -> None:
    """Any content of a file, an included file and a variable gives a tree or a ConfigError."""
    files = filesystem({"x.conf": text})
    try:
        tree = parse(text, {"a": text}, "s.conf", files)
    except ConfigError as error:
        assert str(error)
    else:
        plain(tree)
