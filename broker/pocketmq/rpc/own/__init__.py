"""PocketMQ's own transport: serves gRPC and pages on one port, by asyncio around wire/."""
