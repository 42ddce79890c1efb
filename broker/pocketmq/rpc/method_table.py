"""Tables of RPCs: one row has all that is known of a method before a broker serves it.

    Rpc("CreateTopic", "create_topic", of_topic(CREATE, "name"), "update_and_create_topic")

From a table come the service as it is served, the same while it is closed, and its rules for the
guard. Names, messages and streams are the proto's.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor

from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.permissions import AdminOnly, Asked, FaceRules, Named
from pocketmq.rpc.service import Handler, Method, Refuse, Service, closed, method


@dataclass(frozen=True, slots=True)
class OnCluster:
    """Needs of a call that is about the broker as a whole."""

    actions: tuple[Action, ...]

    def of(self, cluster: str) -> Asked:
        """Returns the needs on a broker of a cluster."""
        return lambda request, call: [Need(self.actions, ResourceKind.CLUSTER, cluster)]


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method.

    name          the proto's
    handler       attribute of the object that serves the face, "query_messages.by_key"; empty: the
                  method is refused as unsupported
    needs         permissions of a call
    request_code  RocketMQ's name of such a request, in lower case; "": metrics use the method's
    call_class    None: the one of the table
    creates       whether a call creates topics or groups that it names
    shortcut      attribute of that object that is asked first; taken by who passes `quick`
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


_CLOSED: Final = object()
Around = Callable[[Handler], Handler]


@dataclass(frozen=True, slots=True)
class RpcTable:
    """The methods of a service.

    name        full name that clients call it by
    call_class  of the methods that say no other
    """

    descriptor: ServiceDescriptor
    name: str
    call_class: CallClass
    refuse: Refuse
    rows: tuple[Rpc, ...]

    def __post_init__(self) -> None:
        names = {row.name for row in self.rows}
        assert names == set(self.descriptor.methods_by_name), "a row for each method of the proto"
        assert len(names) == len(self.rows), "one row for each method"

    def face(
        self, serving: object, around: Around | None = None, names: Container[str] | None = None
    ) -> Service:
        """Returns the service whose methods are served by an object.

        around   returns a handler in place of another, for methods of these names
        names    None: the methods of the table's own class
        """
        rows = [
            self._method(row, serving, around if _is_among(row, names) else None)
            for row in self.rows
        ]
        return Service(self.name, tuple(rows), self.refuse)

    def closed_face(self) -> Service:
        """Returns the service while nothing can be served."""
        return self.face(_CLOSED)

    def rules(self, cluster: str) -> FaceRules:
        """Returns the permissions of its calls on a broker of a cluster."""
        return FaceRules(
            {
                row.name: row.needs.of(cluster) if isinstance(row.needs, OnCluster) else row.needs
                for row in self.rows
            },
            {row.name: row.quick for row in self.rows if row.quick is not None},
            frozenset(row.name for row in self.rows if row.creates),
        )

    def _method(self, row: Rpc, serving: object, around: Around | None) -> Method:
        is_closed = serving is _CLOSED
        handler = closed if is_closed else _handler(row, serving)
        if around is not None:
            handler = around(handler)
        shortcut = attrgetter(row.shortcut)(serving) if row.shortcut and not is_closed else None
        return method(
            self.descriptor, row.name, handler, row.call_class or self.call_class,
            request_code=row.request_code, shortcut=shortcut, **row.own,
        )  # fmt: skip


def _is_among(row: Rpc, names: Container[str] | None) -> bool:
    return row.call_class is None if names is None else row.name in names


def _handler(row: Rpc, serving: object) -> Handler:
    if row.handler:
        found: Handler = attrgetter(row.handler)(serving)
        return found

    def refused(request: Any, call: Call) -> Any:
        raise UnsupportedFeature(feature=row.name)

    return refused
