"""pocketmq.v1.Admin: topics, groups, offsets and the store, for those who run the broker."""

from broker.rpc.admin.methods import DESCRIPTOR, Admin
from broker.rpc.admin.topics import proto_topic

__all__ = ["DESCRIPTOR", "Admin", "proto_topic"]
