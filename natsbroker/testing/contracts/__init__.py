"""
Contract tests for third-party providers of the interfaces.

Each function takes a factory of the provider and returns a trial test case, which any test runner
collects from a module::

    from natsbroker.testing.contracts import subjectRouterTests

    TestMyRouter = subjectRouterTests(MyRouter)

Those of stores are classes to mix in; see L{natsbroker.testing.contracts.stores}. The tests use
public interfaces only.
"""

from __future__ import annotations

from natsbroker.testing.contracts.authorizers import authorizerTests
from natsbroker.testing.contracts.buses import (
    interestWatcherTests,
    messageBusTests,
    subscriberTests,
)
from natsbroker.testing.contracts.routers import subjectRouterTests

__all__ = [
    "authorizerTests",
    "interestWatcherTests",
    "messageBusTests",
    "subjectRouterTests",
    "subscriberTests",
]
