"""C{python -m natsbroker}: the console script."""

from __future__ import annotations

from natsbroker.main import run

if __name__ == "__main__":
    run()
