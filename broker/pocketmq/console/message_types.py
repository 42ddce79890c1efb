"""Protobuf message types that a visitor gives, so that bodies are shown by names of fields.

The types come as a FileDescriptorSet, which `protoc --descriptor_set_out` writes.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Iterable
from typing import Final

from google.protobuf import descriptor_pb2, json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

SIZE_MAX: Final = 1024 * 1024
"""Upper limit of bytes of a set."""
TYPES_MAX: Final = 1_000
BODY_MAX: Final = 1024 * 1024
"""Upper limit of bytes of a body that is shown with a type."""


class MessageTypes:
    """The message types of a set, by full name.

    Errors   ValueError: the bytes are no set, a file of it is missing or wrong, or it exceeds a
             limit
    """

    __slots__ = ("_pool", "names")

    def __init__(self, content: bytes) -> None:
        if len(content) > SIZE_MAX:
            raise ValueError(f"the types are larger than {SIZE_MAX // 1024} KiB")
        self._pool = DescriptorPool()
        found = descriptor_pb2.FileDescriptorSet()
        names: list[str] = []
        try:
            found.ParseFromString(content)
            for file in found.file:
                self._pool.Add(file)
                names += _names(file.package, file.message_type)
            for name in names:
                self._pool.FindMessageTypeByName(name)
        except (DecodeError, TypeError, KeyError) as error:
            why = "write the file by: protoc --include_imports --descriptor_set_out=FILE"
            raise ValueError(f"the file has no complete message types; {why}") from error
        if not names or len(names) > TYPES_MAX:
            raise ValueError(f"the file has {len(names)} message types, not 1 to {TYPES_MAX}")
        self.names = sorted(names)

    def text(self, name: str, body: bytes) -> str:
        """Returns a body of a type as JSON.

        Errors   ValueError: the type is unknown, or the body is too large or of another type
        """
        if name not in self.names:
            raise ValueError(f"there is no message type {name!r}")
        if len(body) > BODY_MAX:
            raise ValueError(f"the body is larger than {BODY_MAX // 1024} KiB")
        message = GetMessageClass(self._pool.FindMessageTypeByName(name))()
        try:
            message.ParseFromString(body)
            return str(json_format.MessageToJson(message, preserving_proto_field_name=True))
        except (DecodeError, json_format.Error, TypeError, ValueError) as error:
            raise ValueError(f"the body is no {name}") from error


def types_from_text(text: str) -> MessageTypes:
    """Returns the types of a set in base64.

    Errors   ValueError
    """
    try:
        return MessageTypes(b64decode(text, validate=True))
    except Error as error:
        raise ValueError("the types are no base64") from error


def _names(package: str, messages: Iterable[descriptor_pb2.DescriptorProto]) -> list[str]:
    names = []
    for one in messages:
        name = f"{package}.{one.name}" if package else one.name
        names += [name, *_names(name, one.nested_type)]
    return names
