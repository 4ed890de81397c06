"""
The pipeline C{examples/spark-pipeline/orders.py}, which tests/spark/test_connect.py runs where
Spark is installed.
"""

from __future__ import annotations

import ast
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "spark-pipeline"


def test_specification() -> None:
    """The specification includes the file, which has one table and one materialized view."""
    text = (EXAMPLE / "spark-pipeline.yml").read_text("utf-8")
    assert "include: orders.py\n" in text
    tree = ast.parse((EXAMPLE / "orders.py").read_text("utf-8"))
    decorators = {
        function.name: ast.unparse(function.decorator_list[0])
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
    }
    assert decorators == {"orders": "pipelines.table", "totals": "pipelines.materialized_view"}
