"""The pages of a broker: their connections, who may read them, and their answers."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from pocketmq.metrics.endpoint import Page
from pocketmq.metrics.tunnel import OtherProcess
from pocketmq.model.page import Answer, is_loopback_peer
from pocketmq.model.strangers import Sparingly

SMALL_SIZE: Final = 65_536
UNREAD_MAX: Final = 64 * 1024 * 1024
"""Upper limit of bytes that wait for all clients together; a response above SMALL_SIZE that exceeds
it is refused. A page of 50,000 series has 8 MiB."""
TEXT: Final = "text/plain; charset=utf-8"
TOKEN_ALONE: Final = 'Bearer realm="pocketmq"'
"""Challenge on a connection without TLS: a secret could be read on its way."""
SECRET_OR_TOKEN: Final = 'Basic realm="pocketmq", Bearer realm="pocketmq"'
GIVE_TOKEN: Final = (
    "the broker checks users: send the header `Authorization: Bearer TOKEN`; `pocketmq user token` "
    "prints a user's token"
)
GIVE_EITHER: Final = f"{GIVE_TOKEN}; HTTP Basic with access key and secret works here, too"

logger = logging.getLogger(__name__)

Admits = Callable[[str, str, str, bool], bool]
"""(path, Authorization header, client's address in gRPC's notation, whether the connection is
private) -> whether the page may be read."""


class SiteConnection(asyncio.Protocol):
    """A client's connection: a site counts what is unread, and ends the connection."""

    __slots__ = ()

    @property
    def unread(self) -> int:
        """Bytes of responses that the client has not read."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the connection; responses are sent before."""
        raise NotImplementedError

    def cut_off(self) -> None:
        """Aborts the connection, even if the client has not read its response."""
        raise NotImplementedError


class Site:
    """The pages and all connections.

    admits    decides whether a client may read a page
    console   process that serves further pages; None: there are none
    """

    __slots__ = ("_strangers", "admits", "connections", "console", "pages")

    def __init__(self, admits: Admits = lambda path, authorization, peer, is_private: True) -> None:
        self.admits = admits
        self._strangers = Sparingly()
        self.console: OtherProcess | None = None
        self.pages: dict[str, Page] = {}
        self.connections: dict[SiteConnection, None] = {}
        """Connections, ordered by the time of last use."""

    def tell_stranger(self, protocol: str, peer: str) -> None:
        """Logs a client that is disconnected because of a protocol error."""
        if self._strangers.may_tell(asyncio.get_running_loop().time()):
            left_out = self._strangers.told()
            logger.warning(
                "http.stranger", extra={"protocol": protocol, "peer": peer, "left_out": left_out}
            )

    async def answer(
        self, target: str, fields: Mapping[bytes, bytes], peer: str, is_private: bool
    ) -> Answer:
        """Returns the response to a GET request.

        target       path and query
        fields       header fields, with names in lower case
        is_private   whether the connection uses TLS
        """
        path = target.partition("?")[0]
        is_private = is_private or is_loopback_peer(peer)
        authorization = fields.get(b"authorization", b"").decode("latin-1")
        page = self.pages.get(path)
        try:
            if page is None and self.is_elsewhere(path):
                return plain(HTTPStatus.UPGRADE_REQUIRED)._replace(needs_http1=True)
            if page is None:
                return plain(HTTPStatus.NOT_FOUND, f"the pages are {' '.join(self.pages)}")
            if not self.admits(path, authorization, peer, is_private):
                challenge = SECRET_OR_TOKEN if is_private else TOKEN_ALONE
                step = GIVE_EITHER if is_private else GIVE_TOKEN
                return plain(HTTPStatus.UNAUTHORIZED, step)._replace(challenge=challenge)
            return await page(fields.get(b"accept", b"").decode("latin-1"))
        except Exception as error:
            logger.error("http.failed", exc_info=error, extra={"path": target})
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    def is_elsewhere(self, path: str) -> bool:
        """Returns whether the other process has a page."""
        return self.console is not None and path not in self.pages and self.console.owns(path)

    def has_room_for(self, size: int) -> bool:
        """Returns whether a response of this size may be sent.

        Cost     20 µs with CONNECTIONS_MAX connections
        """
        if size <= SMALL_SIZE:
            return True
        unread = sum(one.unread for one in self.connections)
        return not unread or size + unread <= UNREAD_MAX

    def close(self) -> None:
        """Closes all connections; responses in progress are lost."""
        for connection in [*self.connections]:
            connection.close()


def plain(status: HTTPStatus, step: str = "") -> Answer:
    """Returns a response with the status phrase and a next step as text."""
    text = f"{status.phrase}: {step}" if step else status.phrase
    return Answer(status, TEXT, f"{text}\n".encode())
