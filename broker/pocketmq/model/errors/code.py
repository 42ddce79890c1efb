"""The root of the error tree: wire codes, reasons, and how client text is shown."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar, Final, dataclass_transform

__all__ = ["BrokerError", "Code", "RequestError", "shown", "shown_duration"]

SHOWN_LENGTH_MAX: Final = 200
"""Maximum length of a client's text in an error message; longer text is shortened."""


FIELD_TYPES: Final = (str, int)
"""Types of the fields of errors; other annotations are of class variables."""
DURATION_UNITS: Final = (
    ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
)  # fmt: skip
MOMENTS: Final = frozenset({"accept_from_ms"})
"""Names of fields in ms that are times; other fields in ms are durations."""
ROOM: Final = frozenset({"free_bytes", "needed_bytes"})
"""Names of fields in bytes that are shown in the largest unit that fits."""
VALUES: Final = frozenset({"value", "lower", "upper"})
"""Names of fields whose unit is the unit of the setting or parameter in the error's `field`."""


class Code(Enum):
    """Codes of the v2 protocol (apache.rocketmq.v2.Code) for the broker's errors."""

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


def shown_duration(duration_ms: int) -> str:
    """Returns a duration for people, without loss: 5m · 1d 2h · 1s 500ms."""
    left, parts = abs(duration_ms), []
    for unit, unit_ms in DURATION_UNITS:
        count, left = divmod(left, unit_ms)
        parts += [f"{count}{unit}"] if count else []
    return ("-" if duration_ms < 0 else "") + (" ".join(parts) or "0ms")


def _shown_moment(time_ms: int) -> str:
    try:
        text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} (epoch ms)"  # beyond the years of a calendar
    return text.replace("+00:00", "Z")


def shown_room(byte_count: int) -> str:
    """Returns a number of bytes for people, in the units of all commands, rounded down: 39.8 MB."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if byte_count >= size:
            tenths = byte_count * 10 // size
            return f"{tenths // 10} {unit}" if tenths >= 1_000 else f"{tenths / 10:.1f} {unit}"
    return f"{byte_count} bytes"


@dataclass_transform(eq_default=False)
class BrokerError(Exception):
    """Base of all errors; `reason` is the stable name by which clients identify the error.

    A subclass declares its fields like a dataclass; its constructor accepts them as keywords. By
    default it inherits the `code` of its parent. Its `message` contains every field.
    """

    code: ClassVar[Code] = Code.INTERNAL_SERVER_ERROR
    retryable: ClassVar[bool] = False
    message: ClassVar[str] = "internal error"
    plain: ClassVar[frozenset[str]] = frozenset({"why", "feature", "field", "path", "key_names"})
    """Names of fields that contain no client text; they are printed without quotes."""
    field_types: ClassVar[Mapping[str, type]] = {}
    """Fields and their types, in the order of their declarations, those of the parent first."""

    def __init_subclass__(cls, *, code: Code | None = None) -> None:
        cls.code = code or cls.code
        own = cls.__annotations__.items()
        cls.field_types = {**cls.field_types, **{name: of for name, of in own if of in FIELD_TYPES}}

    # A dataclass would generate a constructor for each class, 0.1 ms of every command's start.
    def __init__(self, **given: Any) -> None:
        fields = vars(self)
        for name in self.field_types:
            fields[name] = given.pop(name) if name in given else getattr(type(self), name)
        assert not given, "unknown field of an error"

    @property
    def reason(self) -> str:
        """The class name, which never changes."""
        return type(self).__name__

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{self.reason}({fields})"

    def __str__(self) -> str:
        texts = {name: self._text(name, value) for name, value in vars(self).items()}
        return self.message.format(**texts)

    def _text(self, name: str, value: object) -> str:
        if name in MOMENTS and isinstance(value, int):
            return _shown_moment(value)
        if name in ROOM and isinstance(value, int):
            return shown_room(value)
        unit_name = str(vars(self).get("field", "")) if name in VALUES else name
        if unit_name.endswith("_ms") and isinstance(value, int):
            return shown_duration(value)
        return str(value) if name in self.plain else shown(value)


class RequestError(BrokerError, code=Code.BAD_REQUEST):
    """An invalid request: sent again unchanged, it fails again."""
