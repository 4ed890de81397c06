"""
Options: what is read, what is refused.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.logs.columns import COLUMNS
from natsbroker.spark.settings import OPTIONS, PLANNED, readOptions

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "spark-options.md"

LEAST = {"servers": "h", "stream": "S"}


def test_defaults() -> None:
    """The required options are enough; everything else has its default."""
    values = readOptions(LEAST, None)
    assert list(values) == [option.name for option in OPTIONS]
    assert (values["stream"], values["subject"]) == (("S",), ())
    assert (values["failOnDataLoss"], values["requestTimeout"]) == (True, 10.0)


def test_anyCase() -> None:
    """Spark gives names in lower case."""
    values = readOptions({**LEAST, "FETCHBYTES": "2048", "tlsca": "/x"})
    assert (values["fetchBytes"], values["tlsCa"]) == (2048, "/x")


def test_names() -> None:
    """Names are separated by commas and blanks. A repeated name counts once."""
    assert readOptions({**LEAST, "stream": "A, B,,A"})["stream"] == ("A", "B")


@pytest.mark.parametrize("name", ["servers"])
def test_missing(name: str) -> None:
    """A required option is asked for."""
    with pytest.raises(OptionError, match=f"the option '{name}' must be given"):
        readOptions({option: value for option, value in LEAST.items() if option != name})


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("startingoffset", "startingOffsets"),
        ("server", "servers"),
        ("includeHeader", "includeHeaders"),
        ("tls_ca", "tlsCa"),
    ],
)
def test_suggestion(name: str, suggestion: str) -> None:
    """An unknown option is refused, with a suggestion of a similar one."""
    with pytest.raises(OptionError, match=f"no option '{name}'; did you mean '{suggestion}'"):
        readOptions({**LEAST, name: "x"})


def test_noSuggestion() -> None:
    """If no option has a similar name, none is suggested."""
    with pytest.raises(OptionError, match=r"there is no option 'qqqq'$"):
        readOptions({**LEAST, "qqqq": "x"})
    with pytest.raises(OptionError, match="take no path here: the option 'stream'"):
        readOptions({**LEAST, "path": "/data"})


@pytest.mark.parametrize("name", PLANNED)
def test_planned(name: str) -> None:
    """A planned option is refused as not yet supported."""
    with pytest.raises(OptionError, match=f"the option '{name}' is not supported yet"):
        readOptions({**LEAST, name: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tls", "yes"),
        ("failOnDataLoss", "1"),
        ("requestTimeout", "0"),
        ("requestTimeout", "nan"),
        ("requestTimeout", "10s"),
        ("fetchBytes", "1023"),
        ("batchRows", "0"),
        ("minPartitions", "-1"),
        ("minPartitions", str(1 << 63)),
        ("startingOffsetsByTimestampStrategy", "first"),
    ],
)
def test_wrongValue(name: str, value: str) -> None:
    """A wrong value is refused with the option's name and the expected form."""
    with pytest.raises(OptionError, match=f"^{name}: .* expected, not '{value}'"):
        readOptions({**LEAST, name: value})


def test_otherUse() -> None:
    """An option for another operation is refused, and has no default there."""
    with pytest.raises(OptionError, match="'endingOffsets' is for read, not for readStream"):
        readOptions({**LEAST, "endingoffsets": "5"}, "readStream")
    with pytest.raises(OptionError, match="'maxOffsetsPerTrigger' is for readStream, not for read"):
        readOptions({**LEAST, "maxOffsetsPerTrigger": "5"})
    assert "endingOffsets" not in readOptions(LEAST, "readStream")


def test_sparksOwn() -> None:
    """C{checkpointLocation}, which Spark adds, is accepted for streaming writes only."""
    assert "window" in readOptions({**LEAST, "checkpointLocation": "/c"}, "writeStream")
    with pytest.raises(OptionError, match="there is no option 'checkpointLocation'"):
        readOptions({**LEAST, "checkpointLocation": "/c"})


def test_namesAreDifferent() -> None:
    """No two options differ only in case."""
    names = [option.name.lower() for option in OPTIONS] + [option.lower() for option in PLANNED]
    assert len(set(names)) == len(names)


def test_reference() -> None:
    """The reference has a row for each option and each column, and names what is planned."""
    page = REFERENCE.read_text("utf-8")
    options, _, rest = page.partition("## Columns")
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (?:`(.+?)`)? \| (.+) \|$", options, re.M)
    assert [row[:3] for row in rows] == [(x.name, x.kind, x.default or "") for x in OPTIONS]
    assert dict(re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", rest, re.M)) == COLUMNS
    assert ", ".join(f"`{option}`" for option in PLANNED) in rest
