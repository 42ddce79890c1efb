"""Sessions of clients of RocketMQ's protocol, and commands to these clients."""
