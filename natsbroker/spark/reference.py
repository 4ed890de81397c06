"""
The reference page of the options, made from their table: C{python -m natsbroker.spark.reference}.
"""

from __future__ import annotations

import sys

from natsbroker.spark.logs.columns import COLUMNS
from natsbroker.spark.settings import OPTIONS, PLANNED

_TOP = """\
# Options of the Spark data source

Made by `python -m natsbroker.spark.reference` from the table that the options are read with. What
they are for stands in [Spark](../topics/spark.md).

Case does not matter in the names of options. An option that is not listed is refused, with the
nearest one as a suggestion.
"""


def page() -> str:
    parts = [_TOP]
    for group in dict.fromkeys(each.group for each in OPTIONS):
        rows = [each for each in OPTIONS if each.group == group]
        parts.append(
            f"\n## {group}\n\n| option | value | default | what it does |\n|---|---|---|---|\n"
        )
        for row in rows:
            default = f"`{row.default}`" if row.default else ""
            parts.append(f"| `{row.name}` | {row.kind} | {default} | {row.text} |\n")
    parts.append("\n## Columns\n\n| column | type |\n|---|---|\n")
    parts += [f"| `{name}` | `{kind}` |\n" for name, kind in COLUMNS.items()]
    names = ", ".join(f"`{each}`" for each in PLANNED)
    parts.append(f"\n## Not supported yet\n\nThese are refused by their names: {names}.\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
