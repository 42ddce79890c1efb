from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1._async import HealthServicer as _AsyncHealthServicer

class HealthStub:
    Check: Callable[..., Any]
    Watch: Callable[..., Any]
    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None: ...

def add_HealthServicer_to_server(
    servicer: _AsyncHealthServicer, server: grpc.aio.Server
) -> None: ...
