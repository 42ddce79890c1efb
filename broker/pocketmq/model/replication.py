"""Roles of brokers in replication, as operators see them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

LEADER, FOLLOWER, FENCED = "leader", "follower", "fenced"
"""A fenced broker is a former leader. It accepts no messages, because another broker leads."""
ROLES: Final = (LEADER, FOLLOWER, FENCED)


class Replica(NamedTuple):
    """A broker that copies the log; offsets are physical, -1 before its first report.

    peer       address of its connection; after the connection ended, only the host
    follower   id of a PocketMQ follower; "" for a RocketMQ slave
    """

    peer: str
    follower: str
    acknowledged_offset: int
    sent_offset: int
    lag_bytes: int
    connected: bool


class ReplicationStatus(NamedTuple):
    """The role of a broker.

    epoch        number of the leader's term; 0 before the first promotion
    term_begin   physical offset at which the term began
    leader       of a follower: "host:port"; of a fenced leader: the new one, if it is known; of a
                 leader with `left_bytes`: the former one
    connected    whether a follower is connected to its leader
    lag_bytes    bytes of the leader's log that a follower lacks
    trouble      why a follower is not connected
    fenced_from  of a fenced leader: physical offset from which on its records are only here
    replicas     brokers that copy the log
    diverged_messages   messages that were set aside, because a leader did not have them
    left_bytes   of a promoted leader: bytes of the log of `leader`, which it followed, that it
                 was promoted without, as far as it knew
    """

    role: str
    epoch: int
    term_begin: int
    appended_offset: int
    leader: str
    connected: bool
    lag_bytes: int
    trouble: str
    fenced_from: int
    replicas: Sequence[Replica]
    diverged_messages: int = 0
    left_bytes: int = 0
