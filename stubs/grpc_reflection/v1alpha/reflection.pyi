from collections.abc import Iterable

import grpc
from google.protobuf.descriptor_pool import DescriptorPool

SERVICE_NAME: str

def enable_server_reflection(
    service_names: Iterable[str], server: grpc.aio.Server, pool: DescriptorPool | None = None
) -> None: ...
