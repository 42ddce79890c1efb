"""Identity of a client, from the headers of a call."""

from typing import Final, NamedTuple

from pocketmq.model.errors import ClientIdRequired
from pocketmq.rpc.call import Call
from pocketmq.rpc.v2.send_shortcut import CLIENT_ID_KEY, NAMESPACE_KEY

LANGUAGE_KEY: Final = "x-mq-language"
VERSION_KEY: Final = "x-mq-client-version"
NODE: Final = "HTTP"
"""Language header of the client for Node.js."""
GO: Final = "GO"
PYTHON: Final = "PYTHON"
SIZE_MAX: Final = 255
"""Upper limit in characters of a client id, language or version, which are cut beyond it, and of an
attempt id, which is ignored beyond it."""


class Caller(NamedTuple):
    """The client of a call; `language`, `version` and `namespace` may be ""."""

    client_id: str
    session_id: str
    language: str
    version: str
    namespace: str

    @property
    def is_node(self) -> bool:
        """Whether it is the client for Node.js, which interprets some settings differently."""
        return self.language == NODE

    @property
    def is_go(self) -> bool:
        """Whether it is the Go client, which consumes the next messages while it retries one."""
        return self.language == GO


def client_id_of(call: Call) -> str:
    """Returns the client id of a call.

    Errors   ClientIdRequired
    """
    client_id = call.metadata(CLIENT_ID_KEY)
    if not client_id:
        raise ClientIdRequired()
    return client_id[:SIZE_MAX]


def session_id_of(call: Call) -> str:
    """Returns the id of a client's session.

    The session id is the client id. With authentication it is prefixed by the user, as a client
    may send the id of another user's client.

    Errors   ClientIdRequired
    """
    client_id = client_id_of(call)
    return f"{call.user} {client_id}" if call.user else client_id


def caller_of(call: Call) -> Caller:
    """Returns the client of a call.

    Errors   ClientIdRequired
    """
    language, version = call.metadata(LANGUAGE_KEY) or "", call.metadata(VERSION_KEY) or ""
    return Caller(
        client_id_of(call), session_id_of(call), language[:SIZE_MAX], version[:SIZE_MAX],
        namespace_of(call),
    )  # fmt: skip


def namespace_of(call: Call) -> str:
    """Returns the namespace of resources that name no namespace; "" if the call sets none."""
    return call.metadata(NAMESPACE_KEY) or ""
