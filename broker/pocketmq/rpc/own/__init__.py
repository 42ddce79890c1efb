"""Services carried by the transport of our own: an asyncio shell around wire/, one port for all."""
