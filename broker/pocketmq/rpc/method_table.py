"""Tables of RPCs: a row states everything about a method that does not depend on a running broker.

    Rpc("CreateTopic", "create_topic", of_topic(CREATE, "name"), "update_and_create_topic")

A table yields the service, a closed service (which refuses all calls during recovery), and the
permission rules for guard.py. Messages and streaming kinds are taken from the proto.
"""

from abc import abstractmethod
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor

from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.permissions import AdminOnly, Asked, FaceRules, Named
from pocketmq.rpc.service import GRPC, Handler, Method, Refuse, Service, closed, method


@dataclass(frozen=True, slots=True)
class OnCluster:
    """Permissions of a call that concerns the broker as a whole."""

    actions: tuple[Action, ...]

    def of(self, cluster: str) -> Asked:
        """Returns a function that lists the permissions for a call on a cluster."""
        return lambda request, call: [Need(self.actions, ResourceKind.CLUSTER, cluster)]


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method.

    name          the method's name in the proto
    handler       attribute path of the handler in the serving object, "query_messages.by_key";
                  empty: the method is refused as unsupported
    needs         permissions that a call needs
    request_code  RocketMQ's request code in lower case, for metrics; "": the method's name
    call_class    None: the table's call class
    creates       whether a call creates missing topics or groups that it names
    shortcut      attribute path of the shortcut in the serving object, tried before the handler
    quick         the topic or group to check for the shortcut; None: with authentication, the
                  shortcut is not used
    own           further fields of the Method: sizes, codecs
    """

    name: str
    handler: str
    needs: Asked | AdminOnly | OnCluster
    request_code: str = ""
    call_class: CallClass | None = None
    creates: bool = False
    shortcut: str = ""
    quick: Named | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


Row = TypeVar("Row", bound=Rpc)
_CLOSED: Final = object()
Around = Callable[[Handler], Handler]


@dataclass(frozen=True)
class MethodTable(Generic[Row]):
    """The methods of a service.

    name        full name of the service, as clients call it
    call_class  default call class of the methods
    """

    name: str
    call_class: CallClass
    refuse: Refuse
    rows: tuple[Row, ...]
    protocol: ClassVar[str] = GRPC

    def __post_init__(self) -> None:
        assert len({row.name for row in self.rows}) == len(self.rows), "one row for each method"

    @abstractmethod
    def _made(self, row: Row, handler: Handler, **own: Any) -> Method:
        """Returns the method of a row."""

    def face(
        self, serving: object, around: Around | None = None, names: Container[str] | None = None
    ) -> Service:
        """Returns the service whose methods are served by an object.

        around   wraps the handlers of the methods in `names`
        names    None: the methods without a call class of their own
        """
        rows = [
            self._method(row, serving, around if _is_among(row, names) else None)
            for row in self.rows
        ]
        return Service(self.name, tuple(rows), self.refuse, self.protocol)

    def closed_face(self) -> Service:
        """Returns a service that refuses every call while the store recovers."""
        return self.face(_CLOSED)

    def rules(self, cluster: str) -> FaceRules:
        """Returns the permission rules of the service on a broker of a cluster."""
        return FaceRules(
            {
                row.name: row.needs.of(cluster) if isinstance(row.needs, OnCluster) else row.needs
                for row in self.rows
            },
            {row.name: row.quick for row in self.rows if row.quick is not None},
            frozenset(row.name for row in self.rows if row.creates),
        )

    def _method(self, row: Row, serving: object, around: Around | None) -> Method:
        is_closed = serving is _CLOSED
        handler = closed if is_closed else _handler(row, serving)
        if around is not None:
            handler = around(handler)
        shortcut = attrgetter(row.shortcut)(serving) if row.shortcut and not is_closed else None
        return self._made(
            row, handler, call_class=row.call_class or self.call_class,
            request_code=row.request_code, shortcut=shortcut, **row.own,
        )  # fmt: skip


@dataclass(frozen=True)
class RpcTable(MethodTable[Rpc]):
    """The methods of a service of gRPC.

    descriptor   names, messages and kinds of the methods, from the proto
    """

    descriptor: ServiceDescriptor

    def __post_init__(self) -> None:
        super().__post_init__()
        names = {row.name for row in self.rows}
        assert names == set(self.descriptor.methods_by_name), "a row for each method of the proto"

    def _made(self, row: Rpc, handler: Handler, **own: Any) -> Method:
        return method(self.descriptor, row.name, handler, **own)


def _is_among(row: Rpc, names: Container[str] | None) -> bool:
    return row.call_class is None if names is None else row.name in names


def _handler(row: Rpc, serving: object) -> Handler:
    if row.handler:
        found: Handler = attrgetter(row.handler)(serving)
        return found

    def refused(request: Any, call: Call) -> Any:
        raise UnsupportedFeature(feature=row.name)

    return refused
