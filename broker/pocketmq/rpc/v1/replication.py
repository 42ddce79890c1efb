"""pocketmq.v1.Replication: the broker's role, and its followers, for operators."""

from typing import Final

from pocketmq.model.endpoint import leader_from_text
from pocketmq.model.names import check_number
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import replication_pb2 as pb
from pocketmq.rpc.service import MalformedRequest, Service
from pocketmq.rpc.v1.service_table import REPLICATION_TABLE
from pocketmq.services.replication.roles import Roles

WAIT_MAX_MS: Final = 600_000


class ReplicationFace:
    """Methods of pocketmq.v1.Replication."""

    __slots__ = ("_roles",)

    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    def service(self) -> Service:
        """Returns the service."""
        return REPLICATION_TABLE.face(self)

    def replication_status(
        self, request: pb.ReplicationStatusRequest, call: Call
    ) -> pb.ReplicationStatusResponse:
        """Returns the role, its term, and the broker's followers."""
        found = self._roles.status()._asdict()
        found["replicas"] = [pb.Replica(**one._asdict()) for one in found["replicas"]]
        return pb.ReplicationStatusResponse(**found)

    async def promote(self, request: pb.PromoteRequest, call: Call) -> pb.PromoteResponse:
        """Makes a follower the leader of a new term.

        Errors   WrongRole, DiskFull
        """
        term = await self._roles.promote(is_forced=request.force)
        return pb.PromoteResponse(epoch=term.epoch, term_begin=term.begin)

    async def follow(self, request: pb.FollowRequest, call: Call) -> pb.FollowResponse:
        """Makes the broker a follower.

        Errors   MalformedRequest, IllegalNumber, FollowersBehind, WrongRole, DiskFull
        """
        check_number("wait_ms", request.wait_ms, upper=WAIT_MAX_MS)
        if not request.leader:
            raise MalformedRequest(why="leader is missing")
        try:
            leader = leader_from_text(request.leader)
        except ValueError as error:
            raise MalformedRequest(why=f"leader {error}") from error
        await self._roles.follow(leader, is_forced=request.force, wait_ms=request.wait_ms)
        return pb.FollowResponse()

    def remove_replica(
        self, request: pb.RemoveReplicaRequest, call: Call
    ) -> pb.RemoveReplicaResponse:
        """Forgets a follower.

        Errors   ReplicaNotFound
        """
        self._roles.remove(request.replica)
        return pb.RemoveReplicaResponse()

    async def resync(self, request: pb.ResyncRequest, call: Call) -> pb.ResyncResponse:
        """Makes a follower discard its copy, and copy its leader's log and tables again.

        Errors   WrongRole
        """
        await self._roles.resync()
        return pb.ResyncResponse()
