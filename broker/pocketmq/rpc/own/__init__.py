"""Our own transport: an asyncio shell around wire/ that serves gRPC and pages on one port."""
