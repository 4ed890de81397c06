"""
Invalid subject functions with their errors, and a source of randomness that no test may use.
"""

from __future__ import annotations

from typing import NoReturn


def noChance(limit: int) -> NoReturn:
    """Fail, because the tested function must not draw numbers."""
    raise AssertionError("a random number was drawn")


TOO_FEW = "not enough arguments passed to the function"


TOO_MANY = "too many arguments passed to the function"


BAD = "function argument is invalid or in the wrong format"


RANGE = "wildcard index out of range"


UNKNOWN = "unknown function"


#: Source, token, and what nats-server 2.15.1 says is wrong with it.
WRONG = [
    (b"*", b"{{foo(1)}}", f"{UNKNOWN} in {{{{foo(1)}}}}"),
    (b"*", b"{{WILDCARD(1)}}", f"{UNKNOWN} in {{{{WILDCARD(1)}}}}"),
    (b"*", b"{{wildcard 1}}", f"{UNKNOWN} in {{{{wildcard 1}}}}"),
    (b"*", b"{{wildcard()}}", f"{TOO_FEW} in {{{{wildcard()}}}}"),
    (b"*", b"{{wildcard(1,2)}}", f"{TOO_MANY} in {{{{wildcard(1,2)}}}}"),
    (b"*", b"{{wildcard(x)}}", f"{BAD} in {{{{wildcard(x)}}}}"),
    (b"*", b"{{wildcard(2)}}", f"{RANGE} in {{{{wildcard(2)}}}}: [2]"),
    (b"*", b"$2", f"{RANGE} in $2: [2]"),
    (b"a", b"$1", f"{RANGE} in $1"),
    (b"a", b"{{wildcard(1)}}", f"{RANGE} in {{{{wildcard(1)}}}}"),
    (b"*", b"{{partition()}}", f"{BAD} in {{{{partition()}}}}"),
    (b"*", b"{{partition(2,)}}", f"{BAD} in {{{{partition(2,)}}}}"),
    (b"*", b"{{partition(2,2)}}", f"{RANGE} in {{{{partition(2,2)}}}}: [2]"),
    (b"a.>", b"{{partition(2,1)}}", f"{RANGE} in {{{{partition(2,1)}}}}: [1]"),
    (b"*", b"{{partition(2147483648)}}", f"{BAD} in {{{{partition(2147483648)}}}}"),
    (b"*", b"{{split(1)}}", f"{TOO_FEW} in {{{{split(1)}}}}"),
    (b"*", b"{{split(1,-,-)}}", f"{TOO_MANY} in {{{{split(1,-,-)}}}}"),
    (b"*", b"{{split(1,- )}}", f"{BAD} in {{{{split(1,- )}}}}"),
    (b"*", b"{{sliceFromLeft(1)}}", f"{TOO_FEW} in {{{{sliceFromLeft(1)}}}}"),
    (b"*", b"{{sliceFromLeft(1,2,3)}}", f"{TOO_MANY} in {{{{sliceFromLeft(1,2,3)}}}}"),
    (b"*", b"{{sliceFromRight(1,x)}}", f"{BAD} in {{{{sliceFromRight(1,x)}}}}"),
    (b"*", b"{{splitFromLeft(x,1)}}", f"{BAD} in {{{{splitFromLeft(x,1)}}}}"),
    (b"*", b"{{splitFromRight(2,1)}}", f"{RANGE} in {{{{splitFromRight(2,1)}}}}: [2]"),
    (b"*", b"{{random()}}", f"{BAD} in {{{{random()}}}}"),
    (b"*", b"{{random(1,2)}}", f"{TOO_FEW} in {{{{random(1,2)}}}}"),
]
