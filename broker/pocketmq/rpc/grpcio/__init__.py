"""Services carried by grpc.aio."""
