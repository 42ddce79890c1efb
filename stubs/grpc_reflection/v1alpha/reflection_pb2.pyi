from collections.abc import Sequence

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

class ServiceResponse(Message):
    name: str
    def __init__(self, *, name: str | None = None) -> None: ...

class ListServiceResponse(Message):
    service: Sequence[ServiceResponse]
    def __init__(self, *, service: Sequence[ServiceResponse] | None = None) -> None: ...

class FileDescriptorResponse(Message):
    file_descriptor_proto: Sequence[bytes]
    def __init__(self, *, file_descriptor_proto: Sequence[bytes] | None = None) -> None: ...

class ExtensionRequest(Message):
    containing_type: str
    extension_number: int
    def __init__(
        self, *, containing_type: str | None = None, extension_number: int | None = None
    ) -> None: ...

class ExtensionNumberResponse(Message):
    base_type_name: str
    extension_number: Sequence[int]
    def __init__(
        self, *, base_type_name: str | None = None, extension_number: Sequence[int] | None = None
    ) -> None: ...

class ErrorResponse(Message):
    error_code: int
    error_message: str
    def __init__(
        self, *, error_code: int | None = None, error_message: str | None = None
    ) -> None: ...

class ServerReflectionRequest(Message):
    list_services: str
    file_by_filename: str
    file_containing_symbol: str
    file_containing_extension: ExtensionRequest
    all_extension_numbers_of_type: str
    def __init__(
        self,
        *,
        list_services: str | None = None,
        file_by_filename: str | None = None,
        file_containing_symbol: str | None = None,
        file_containing_extension: ExtensionRequest | None = None,
        all_extension_numbers_of_type: str | None = None,
    ) -> None: ...

class ServerReflectionResponse(Message):
    original_request: ServerReflectionRequest
    list_services_response: ListServiceResponse
    file_descriptor_response: FileDescriptorResponse
    all_extension_numbers_response: ExtensionNumberResponse
    error_response: ErrorResponse
    def __init__(
        self,
        *,
        list_services_response: ListServiceResponse | None = None,
        file_descriptor_response: FileDescriptorResponse | None = None,
        all_extension_numbers_response: ExtensionNumberResponse | None = None,
        error_response: ErrorResponse | None = None,
    ) -> None: ...
