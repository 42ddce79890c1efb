from typing import ClassVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

class HealthCheckRequest(Message):
    service: str
    def __init__(self, service: str | None = None) -> None: ...

class HealthCheckResponse(Message):
    class ServingStatus(int, metaclass=EnumTypeWrapper): ...

    UNKNOWN: ClassVar[ServingStatus]
    SERVING: ClassVar[ServingStatus]
    NOT_SERVING: ClassVar[ServingStatus]
    SERVICE_UNKNOWN: ClassVar[ServingStatus]
    status: ServingStatus
    def __init__(self, status: ServingStatus | str | None = None) -> None: ...
