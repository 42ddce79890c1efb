"""Rows for the requests of the classic protocol.

    request(105, "GET_ROUTEINFO_BY_TOPIC", "routes.route", found, fields=("topic",))

A row contains what does not depend on a running broker. A handler is a function (request, call)
that returns the answer, a `Command` with code, fields and body, or an awaitable of one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.method_table import MethodTable, OnCluster, Rpc
from pocketmq.rpc.permissions import AdminOnly, Asked
from pocketmq.rpc.service import REMOTING, SMALL_REQUEST_MAX, Handler, Method
from pocketmq.wire.remoting import Command, encode

Parse = Callable[[Command], Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow(Rpc):
    """One request code.

    number   the code
    parse    checks the header's fields; returns the request for the handler
    """

    number: int
    parse: Parse


def request(
    number: int,
    name: str,
    handler: str,
    needs: Asked | AdminOnly | OnCluster,
    *,
    fields: tuple[str, ...] = (),
    parse: Parse | None = None,
    body_max: int = SMALL_REQUEST_MAX,
    call_class: CallClass | None = None,
    creates: bool = False,
    shortcut: str = "",
) -> RequestRow:
    """Returns the row of a request code.

    name      RocketMQ's name of the code (RequestCode)
    fields    required fields of the header
    parse     replaces the check of `fields`
    body_max  upper limit of bytes of the body
    shortcut  tried before the handler, on the whole frame; not used if the broker checks
              signatures, which cover all fields
    """

    def check(command: Command) -> Command:
        for field in fields:
            text_field(command, field)
        return command

    return RequestRow(
        name, handler, needs, name.lower(), call_class, creates, shortcut,
        own={"request_size_max": body_max}, number=number, parse=parse or check,
    )  # fmt: skip


@dataclass(frozen=True)
class RequestTable(MethodTable[RequestRow]):
    """The request codes of the classic protocol."""

    protocol: ClassVar[str] = REMOTING

    def __post_init__(self) -> None:
        super().__post_init__()
        assert len({row.number for row in self.rows}) == len(self.rows), "one row for each code"

    def _made(self, row: RequestRow, handler: Handler, **own: Any) -> Method:
        return Method(
            row.name,
            Command,
            Command,
            handler,
            parse=row.parse,
            serialize=encode,
            number=row.number,
            **own,
        )
