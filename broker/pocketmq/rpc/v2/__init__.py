"""apache.rocketmq.v2: the protocol of RocketMQ's 5.x clients, on the same services as v1."""
