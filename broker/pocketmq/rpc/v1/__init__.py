"""pocketmq.v1: the broker's own face: its methods, and how errors look there."""
