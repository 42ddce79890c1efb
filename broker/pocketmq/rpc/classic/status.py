"""Encodes errors as classic response codes with a remark.

Source: ResponseCode, RemotingSysResponseCode.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import (
    BrokerError,
    Code,
    DiskFull,
    IllegalRecallHandle,
    NotWaiting,
    Unavailable,
)
from pocketmq.rpc.error_text import public_text
from pocketmq.rpc.service import Method
from pocketmq.wire.remoting import Command

SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
SYSTEM_BUSY: Final = 2
NOT_SUPPORTED: Final = 3
FLUSH_DISK_TIMEOUT: Final = 10
SLAVE_NOT_AVAILABLE: Final = 11
FLUSH_SLAVE_TIMEOUT: Final = 12
MESSAGE_ILLEGAL: Final = 13
SERVICE_NOT_AVAILABLE: Final = 14
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
PULL_NOT_FOUND: Final = 19
PULL_RETRY_IMMEDIATELY: Final = 20
PULL_OFFSET_MOVED: Final = 21
QUERY_NOT_FOUND: Final = 22
SUBSCRIPTION_PARSE_FAILED: Final = 23
SUBSCRIPTION_NOT_EXIST: Final = 24
SUBSCRIPTION_NOT_LATEST: Final = 25
GROUP_NOT_EXIST: Final = 26
NO_MESSAGE: Final = 208
POLLING_TIMEOUT: Final = 210
ILLEGAL_OPERATION: Final = 604

OK: Final = Command(SUCCESS)
"""Answer without fields or body."""
OF_PUT: Final[Mapping[PutStatus, int]] = {
    PutStatus.OK: SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_REPLICA_TIMEOUT: FLUSH_SLAVE_TIMEOUT,
    PutStatus.REPLICA_NOT_AVAILABLE: SLAVE_NOT_AVAILABLE,
}
"""Put status -> response code; a code other than SUCCESS means less durability than configured."""
_ILLEGAL: Final = (
    Code.ILLEGAL_TOPIC, Code.ILLEGAL_MESSAGE_TAG, Code.ILLEGAL_MESSAGE_KEY,
    Code.ILLEGAL_MESSAGE_GROUP, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, Code.ILLEGAL_MESSAGE_ID,
    Code.ILLEGAL_DELIVERY_TIME, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, Code.MESSAGE_CORRUPTED,
    Code.PAYLOAD_TOO_LARGE, Code.MESSAGE_BODY_TOO_LARGE, Code.MESSAGE_BODY_EMPTY,
    Code.MESSAGE_PROPERTIES_TOO_LARGE,
)  # fmt: skip
_CODES: Final[Mapping[Code, int]] = {
    **dict.fromkeys(_ILLEGAL, MESSAGE_ILLEGAL),
    Code.ILLEGAL_FILTER_EXPRESSION: SUBSCRIPTION_PARSE_FAILED,
    Code.UNAUTHORIZED: NO_PERMISSION,
    Code.FORBIDDEN: NO_PERMISSION,
    Code.TOPIC_NOT_FOUND: TOPIC_NOT_EXIST,
    Code.CONSUMER_GROUP_NOT_FOUND: GROUP_NOT_EXIST,
    Code.MESSAGE_NOT_FOUND: QUERY_NOT_FOUND,
    Code.OFFSET_NOT_FOUND: QUERY_NOT_FOUND,
    Code.TOO_MANY_REQUESTS: SYSTEM_BUSY,
    Code.UNSUPPORTED: NOT_SUPPORTED,
}


def code_of(error: BrokerError) -> int:
    """Returns the response code of an error; after SERVICE_NOT_AVAILABLE, producers try again."""
    if isinstance(error, DiskFull):
        return SERVICE_NOT_AVAILABLE
    if isinstance(error, IllegalRecallHandle | NotWaiting):
        return ILLEGAL_OPERATION
    found = _CODES.get(error.code)
    if found is None:
        return SERVICE_NOT_AVAILABLE if isinstance(error, Unavailable) else SYSTEM_ERROR
    return found


def refuse(error: BrokerError, method: Method) -> Command:
    """Returns the answer that reports an error to a client."""
    return Command(code_of(error), remark=public_text(error))
