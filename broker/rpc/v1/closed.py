"""The faces of v1 while there is nothing to serve: every method is known, and refused."""

from typing import Any, Final

from broker.model.errors import Recovering
from broker.rpc.admission import CallClass
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2, broker_pb2
from broker.rpc.service import Service, method
from broker.rpc.v1.status import refuse

_FACES: Final = (
    broker_pb2.DESCRIPTOR.services_by_name["Broker"],
    admin_pb2.DESCRIPTOR.services_by_name["Admin"],
)


def closed_services() -> list[Service]:
    """Return all services as tables of methods that cannot answer."""
    return [
        Service(
            face.full_name,
            tuple(method(face, row.name, _closed, CallClass.ADMIN) for row in face.methods),
            refuse,
        )
        for face in _FACES
    ]


def _closed(request: Any, call: Call) -> Any:
    raise Recovering()
