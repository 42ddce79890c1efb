from grpc_health.v1 import _async as aio

SERVICE_NAME: str
OVERALL_HEALTH: str

__all__ = ["OVERALL_HEALTH", "SERVICE_NAME", "aio"]
