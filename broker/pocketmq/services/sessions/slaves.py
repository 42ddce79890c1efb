"""Slave brokers that have registered with this broker, which is their name server and master.

A slave registers every 30 s on one connection. It is removed when it unregisters, when its
connection ends, or after two minutes of silence. Slaves are kept only in memory.
Source: RouteInfoManager of the name server.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

from pocketmq.model.errors import CapacityReached

SILENCE_MS: Final = 120_000
"""Time without a registration after which a slave is removed."""
SLAVES_MAX: Final = 16
"""Upper limit of slaves."""


class Slave(NamedTuple):
    """A registered slave.

    address      "host:port" for its clients
    version      version of its topic table, as JSON; "": not known
    connection   object that identifies its connection
    seen_ms      monotonic time of its last registration
    """

    broker_id: int
    address: str
    version: str
    connection: Hashable
    seen_ms: int


class SlaveRegistry:
    """The slaves by their id."""

    __slots__ = ("_connections", "_slaves")

    def __init__(self) -> None:
        self._slaves: dict[int, Slave] = {}
        self._connections: set[Hashable] = set()

    def register(self, slave: Slave) -> bool:
        """Adds or refreshes a slave; returns whether it is the first on its connection.

        Effects  replaces slaves with the same id or address
        Errors   CapacityReached: nothing was added
        """
        others = {
            number: one
            for number, one in self._slaves.items()
            if number != slave.broker_id and one.address != slave.address
        }
        if len(others) >= SLAVES_MAX:
            raise CapacityReached(limit=SLAVES_MAX, field="slaves")
        self._slaves = dict(sorted({**others, slave.broker_id: slave}.items()))
        is_first = slave.connection not in self._connections
        self._connections.add(slave.connection)
        return is_first

    def unregister(self, broker_id: int, address: str) -> None:
        """Removes a slave, unless its id has another address now."""
        known = self._slaves.get(broker_id)
        if known is not None and known.address == address:
            del self._slaves[broker_id]

    def gone(self, connection: Hashable) -> None:
        """Removes the slaves of a closed connection."""
        self._connections.discard(connection)
        self._keep({n: one for n, one in self._slaves.items() if one.connection != connection})

    def expire(self, now_ms: int) -> None:
        """Removes silent slaves."""
        self._keep(
            {n: one for n, one in self._slaves.items() if now_ms - one.seen_ms <= SILENCE_MS}
        )

    def find(self, broker_id: int, address: str) -> Slave | None:
        """Returns a registered slave, None for an unknown id or another address."""
        known = self._slaves.get(broker_id)
        return known if known is not None and known.address == address else None

    def addresses(self) -> dict[int, str]:
        """Returns the addresses of all slaves by their id, in ascending order."""
        return {number: one.address for number, one in self._slaves.items()}

    def _keep(self, slaves: dict[int, Slave]) -> None:
        assert slaves.items() <= self._slaves.items(), "a slave appeared without a registration"
        self._slaves = slaves
