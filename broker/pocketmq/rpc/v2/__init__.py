"""apache.rocketmq.v2: what RocketMQ's own 5.x clients speak, beside v1 on the same services."""
