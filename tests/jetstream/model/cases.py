"""
Requests and nats-server's answers, as the interop tests have recorded them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["answerOf", "cases", "expanded"]

_HERE = Path(__file__).parent
_REPEATED = re.compile(r"(.)\*(\d+)")


def cases(name: str) -> Any:
    """
    @return: the recorded cases of a file.
    """
    return json.loads((_HERE / f"{name}cases.json").read_text("utf-8"))


def expanded(value: Any) -> Any:
    """
    @return: a request with its long texts written out, which the file has as C{x*4097}.
    """
    if isinstance(value, dict):
        return {key: expanded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [expanded(element) for element in value]
    repeated = _REPEATED.fullmatch(value) if isinstance(value, str) else None
    return repeated[1] * int(repeated[2]) if repeated else value


def answerOf(answer: dict[str, Any]) -> Any:
    """
    @return: what the file has for an answer: the numbers and the text of an error, or the
        configuration.
    """
    error = answer.get("error")
    if error is not None:
        return [error["code"], error["err_code"], error["description"]]
    return answer["config"]
