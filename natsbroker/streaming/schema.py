"""
Message classes of Google's protobuf library from compiled C{.proto} files.

protoc compiles C{NAME.proto} into the descriptor set C{NAME.binpb} beside it. A test compares the
two, and CONTRIBUTING.md has the command. Generated Python modules would share the library's default
pool, where a stan.py in the same process registers messages of the same names.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

__all__ = ["messageClasses"]


def messageClasses(package: str, name: str) -> dict[str, Any]:
    """
    The message classes of a file, in a pool of their own.

    @param package: the Python package that the file is in.
    @param name: of the file, without its suffix.
    @return: the classes by message name.
    """
    compiled = files(package).joinpath(f"{name}.binpb").read_bytes()
    (file,) = FileDescriptorSet.FromString(compiled).file
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    messages = pool.FindFileByName(file.name).message_types_by_name
    return {each: GetMessageClass(descriptor) for each, descriptor in messages.items()}
