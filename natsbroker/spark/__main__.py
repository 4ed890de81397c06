"""C{python -m natsbroker.spark JOB ...}, and what C{spark-submit} is given to run a job."""

from __future__ import annotations

import sys

from natsbroker.spark.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
