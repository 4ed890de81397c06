"""
The totals of JetStream if the configuration has none. As in nats-server, they are three quarters of
the machine's memory and of the disk.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from natsbroker.config.model import JetStream


def machineMemory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def diskFor(directory: str) -> int:
    """
    The bytes of the disk that a folder may fill: free space and the space of its own files, so that
    the next start computes no less. The folder need not exist.
    """
    path = Path(directory).absolute()
    there = next(candidate for candidate in (path, *path.parents) if candidate.is_dir())
    files = there.rglob("*") if there == path else ()
    used = sum(file.stat().st_blocks * 512 for file in files if file.is_file())
    return shutil.disk_usage(there).free + used


def withTotals(block: JetStream, directory: str) -> JetStream:
    """
    The block with the totals in force. A store on another machine's disk has no limits.

    @param directory: of the streams in files; empty where the store has none.
    """
    memory, files = block.max_memory_store, block.max_file_store
    if memory < 0 and block.backend in ("lmdb", "memory"):
        memory = machineMemory() // 4 * 3
    if files < 0 and block.backend == "memory":
        files = machineMemory() // 4 * 3
    elif files < 0 and directory:
        files = diskFor(directory) // 4 * 3
    return replace(block, max_memory_store=memory, max_file_store=files)
