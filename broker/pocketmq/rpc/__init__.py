"""gRPC on one side, the model on the other: parse, check, answer; nothing of the disk."""
