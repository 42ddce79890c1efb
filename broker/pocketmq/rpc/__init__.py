"""gRPC service layer: parses and checks requests, calls services, answers; never reads the disk."""
