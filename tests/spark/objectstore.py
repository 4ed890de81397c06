"""
An object store as Amazon's, for the time of the tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config


@contextmanager
def objectStore() -> Iterator[dict[str, str]]:
    """
    @return: environment variables with the address of the store and the login.
    """
    # In a process of its own: the library that writes objects holds Python's lock meanwhile.
    process = subprocess.Popen(
        (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    results: list[str] = []
    started = threading.Event()

    def read(lines: Iterator[str]) -> None:
        for line in lines:
            if not results and (match := re.search(r"http://127\.0\.0\.1:\d+", line)):
                results.append(match[0])
                started.set()
        started.set()

    thread = threading.Thread(target=read, args=[process.stderr])
    thread.start()
    try:
        started.wait(60)
        yield {
            "AWS_ENDPOINT_URL": results[0],
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        process.terminate()
        process.wait()
        thread.join()
        process.stderr.close()


def newBucket() -> str:
    """
    The URL of an empty bucket in the store that the environment names.
    """
    name = uuid.uuid4().hex
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{name}"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
    return f"s3://{name}"


#: What an archive in L{icebergCatalog} has as its catalog.
IN_CATALOG = "lake:raw.log"


@contextmanager
def icebergCatalog(directory: Path) -> Iterator[None]:
    """
    A catalog that PyIceberg is configured for, in this process and those that it starts.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
        uri = f"sqlite:///{directory}/lake.db?timeout=60"
        patch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
        # PyIceberg has read its configuration when it was imported.
        patch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        yield


def openedInCatalog() -> Any:
    """The table of the archive, opened as by programs that configure PyIceberg themselves."""
    store = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
    return load_catalog("lake", **store).load_table(IN_CATALOG.partition(":")[2])
