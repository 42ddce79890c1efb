"""The root of the error tree: wire codes, reasons, and how client text is shown."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final, dataclass_transform

__all__ = ["BrokerError", "Code", "RequestError", "shown"]

SHOWN_LENGTH_MAX: Final = 200
"""Longest client text in an error message: longer text is cut, so that it cannot flood logs."""


class Code(Enum):
    """Numbers of the v2 protocol (apache.rocketmq.v2.Code) for the broker's errors."""

    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_OFFSET = 40019
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    PAYLOAD_TOO_LARGE = 41300
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    UNSUPPORTED = 50500


def shown(value: object) -> str:
    """Returns client text for an error message: quoted, without control characters, shortened."""
    if not isinstance(value, str):
        return str(value)
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else text[:SHOWN_LENGTH_MAX] + "…'"


@dataclass_transform(eq_default=False)
@dataclass(eq=False)
class BrokerError(Exception):
    """Base of all errors; `reason` is the stable name that clients may test for.

    A subclass is made from its fields like a dataclass. Its `code` is its parent's by default, and
    its `message` names every field.
    """

    code: ClassVar[Code] = Code.INTERNAL_SERVER_ERROR
    retryable: ClassVar[bool] = False
    message: ClassVar[str] = "internal error"
    plain: ClassVar[frozenset[str]] = frozenset({"why", "feature", "field", "path", "key_names"})
    """Fields with the broker's own words, printed without quotes."""

    def __init_subclass__(cls, *, code: Code | None = None) -> None:
        cls.code = code or cls.code
        dataclass(eq=False)(cls)

    @property
    def reason(self) -> str:
        """The class name, which never changes."""
        return type(self).__name__

    def __str__(self) -> str:
        fields = vars(self).items()
        texts = {k: str(v) if k in self.plain else shown(v) for k, v in fields}
        return self.message.format(**texts)


class RequestError(BrokerError, code=Code.BAD_REQUEST):
    """An invalid request: sent again unchanged, it fails again."""
