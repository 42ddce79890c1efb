"""pocketmq.v1.Admin: topics, groups, offsets and the store, for those who run the broker."""

from broker.rpc.v1.admin.methods import DESCRIPTOR, Admin
from broker.rpc.v1.admin.topics import proto_topic

__all__ = ["DESCRIPTOR", "Admin", "proto_topic"]
