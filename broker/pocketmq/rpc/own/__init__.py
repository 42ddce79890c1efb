"""PocketMQ's own transport: serves gRPC, remoting and web pages on one port, with asyncio."""
