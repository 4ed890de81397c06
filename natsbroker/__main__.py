"""
C{python -m natsbroker}.

Promises: the console script. Must never know: anything else.
"""

from __future__ import annotations

from natsbroker.main import run

if __name__ == "__main__":
    run()
