"""Calls of pocketmq.v1.Replication: the broker's role, and its followers."""

from pocketmq.client.channel import Channel, Stub, value_of
from pocketmq.model.replication import Replica, ReplicationStatus
from pocketmq.rpc.pb import replication_pb2


class AsyncReplication:
    """Roles and followers: `AsyncClient.admin.replication`.

    Errors   raised by every method: ClientError and its subclasses
    """

    __slots__ = ("_ask", "_read")

    def __init__(self, channel: Channel) -> None:
        stub = Stub(channel, replication_pb2.DESCRIPTOR.services_by_name["Replication"])
        self._ask, self._read = stub.ask, stub.read

    async def status(self) -> ReplicationStatus:
        """Returns the broker's role, its term, and its followers."""
        answer = await self._read("ReplicationStatus")
        replicas = [value_of(Replica, one) for one in answer.replicas]
        return value_of(ReplicationStatus, answer, replicas=replicas)

    async def promote(self, *, force: bool = False) -> tuple[int, int]:
        """Makes a follower the leader; returns its term's epoch and first physical offset.

        force   promotes it even while it is connected to its leader
        """
        answer = await self._ask("Promote", force=force)
        return answer.epoch, answer.term_begin

    async def follow(self, leader: str, *, force: bool = False, wait_ms: int = 0) -> None:
        """Makes the broker a follower of the one at "host:port" or "tls://host:port".

        force     a leader changes its role without waiting for its followers; records that only it
                  has are set aside
        wait_ms   limit of the wait; 0: 10 s
        """
        await self._ask("Follow", leader=leader, force=force, wait_ms=wait_ms)

    async def remove(self, replica: str) -> None:
        """Forgets a follower, by its id, peer or host."""
        await self._ask("RemoveReplica", replica=replica)

    async def resync(self) -> None:
        """Makes a follower set its log aside, and copy its leader's log from the begin."""
        await self._ask("Resync")
