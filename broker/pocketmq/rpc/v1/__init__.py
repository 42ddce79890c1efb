"""pocketmq.v1: the broker's own protocol, its methods and its errors."""
