"""A broker for the methods of the API, and what carries them."""

import pytest

from pocketmq.rpc.grpcio.receiving import Receiving
from pocketmq.rpc.grpcio.server import GrpcioServer
from pocketmq.rpc.own.server import OwnServer
from tests.kit.store_broker import ServerClass
from tests.kit.store_broker import broker as broker

TRANSPORTS: dict[str, ServerClass] = {
    "own": OwnServer,
    "grpcio": GrpcioServer,
    "careful": GrpcioServer,
}
"""Servers by name; careful: grpcio where each request is read by the handler."""


@pytest.fixture(params=TRANSPORTS)
def server_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ServerClass:
    """Each kind of server in turn."""
    if request.param == "careful":
        monkeypatch.setattr(Receiving, "is_busy", True)
    return TRANSPORTS[request.param]
