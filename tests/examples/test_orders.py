"""
C{examples/spark-pipeline/orders.py} runs in tests/spark/test_connect.py, where a Spark is.
"""

from __future__ import annotations

import ast
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "spark-pipeline"


def test_specification() -> None:
    """The specification names the file, and that a table and a view."""
    text = (EXAMPLE / "spark-pipeline.yml").read_text("utf-8")
    assert "include: orders.py\n" in text
    tree = ast.parse((EXAMPLE / "orders.py").read_text("utf-8"))
    decorators = {
        function.name: ast.unparse(function.decorator_list[0])
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
    }
    assert decorators == {"orders": "pipelines.table", "totals": "pipelines.materialized_view"}
