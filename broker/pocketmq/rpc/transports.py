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
    """Returns a server of the transport named, not yet listening.

    transport   how our own carries connections; grpcio can do nothing of it
    """
    if name == GRPCIO:
        # Here, because loading grpcio takes a tenth of a second and 20 MB.
        from pocketmq.rpc.grpcio.server import GrpcioServer

        return GrpcioServer(services)
    return OwnServer(services, transport=transport)
