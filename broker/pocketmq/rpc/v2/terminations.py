"""Clients that have terminated, while their connection may still be open.

The client for Java reopens its stream a second after it broke, even during its shutdown. The
shutdown waits for all its streams, that one included, which the client never ends.
"""

from collections import OrderedDict
from typing import Final

from pocketmq.rpc.call import Call
from pocketmq.rpc.v2.caller import client_id_of

REMEMBERED_MAX: Final = 1_000
"""Goodbyes that are remembered; of more the oldest one is forgotten."""
WITH_A_PORT: Final = ("ipv4:", "ipv6:")
"""How peers begin that differ from connection to connection."""


class Terminations:
    """Recent terminations: which client, on which connection.

    An id alone would not do: a program that is started again may have the one it had before.
    """

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], None] = OrderedDict()

    def note(self, call: Call) -> None:
        """Notes that the client of a call terminates.

        Errors   ClientIdRequired
        """
        if call.peer.startswith(WITH_A_PORT):
            self._said[client_id_of(call), call.peer] = None
        if len(self._said) > REMEMBERED_MAX:
            self._said.popitem(last=False)
        assert len(self._said) <= REMEMBERED_MAX

    def came_before(self, call: Call) -> bool:
        """Returns whether the client of a call terminated before, on the same connection.

        Errors   ClientIdRequired
        """
        return (client_id_of(call), call.peer) in self._said
