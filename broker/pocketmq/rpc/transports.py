"""Chooses the transport of the services, by its name in the settings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pocketmq.rpc.own.listener import Transport
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.service import Service

if TYPE_CHECKING:
    from pocketmq.rpc.grpcio.server import GrpcioServer

GRPCIO: Final = "grpcio"


def new_server(
    name: str, services: Sequence[Service], transport: Transport
) -> "GrpcioServer | OwnServer":
    """Returns a server with the named transport, which does not listen yet.

    transport   connection settings of the own transport; grpcio ignores them
    """
    if name == GRPCIO:
        # Imported on demand: grpcio takes 0.1 s and 20 MB to load.
        from pocketmq.rpc.grpcio.server import GrpcioServer

        return GrpcioServer(services)
    return OwnServer(services, transport=transport)
