"""The transport on grpc.aio."""
