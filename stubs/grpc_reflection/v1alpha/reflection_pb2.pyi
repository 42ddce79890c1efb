# The part of the reflection protocol that tests use.
from collections.abc import Sequence

from google.protobuf.message import Message

class ServiceResponse(Message):
    name: str

class ListServiceResponse(Message):
    service: Sequence[ServiceResponse]

class FileDescriptorResponse(Message):
    file_descriptor_proto: Sequence[bytes]

class ServerReflectionRequest(Message):
    def __init__(
        self, *, list_services: str | None = None, file_containing_symbol: str | None = None
    ) -> None: ...

class ServerReflectionResponse(Message):
    list_services_response: ListServiceResponse
    file_descriptor_response: FileDescriptorResponse
