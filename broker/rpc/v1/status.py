"""Errors as the wire carries them: a gRPC status and google.rpc details.

Every class of `model/errors.py` has its own row here; a test walks the tree. Details are one
`google.rpc.Status` with
    ErrorInfo      reason = the class name, domain "pocketmq", metadata = the error's fields
    BadRequest     the field of the request at fault, for request errors
    RetryInfo      after how long to try again, where that makes sense
"""

from dataclasses import fields
from typing import Final, NamedTuple

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from broker.model import errors
from broker.model.errors import BrokerError
from broker.rpc.service import Internal, MalformedRequest, Method, WireStatus

DOMAIN: Final = "pocketmq"
RETRY_DELAY_MS: Final = 100
"""Long enough for a group commit or a burst to pass, short enough not to be felt."""
TYPE_PREFIX: Final = "type.googleapis.com/"
ERROR_INFO_URL: Final = TYPE_PREFIX + error_details_pb2.ErrorInfo.DESCRIPTOR.full_name
RETRY_INFO_URL: Final = TYPE_PREFIX + error_details_pb2.RetryInfo.DESCRIPTOR.full_name
TEXT_SIZE_MAX: Final = 1_000
FIELD_SIZE_MAX: Final = 400
"""Bytes of a message, and of one field, in a status: it has to fit 8 KiB of metadata, where the
message stands once percent-encoded and, with the fields, twice in base64."""
HIDDEN_FIELDS: Final = frozenset({"path"})
"""Where files lie is the operator's business; the log tells it."""

INVALID: Final = code_pb2.INVALID_ARGUMENT


class Row(NamedTuple):
    """What a class of errors becomes: a gRPC status code, and the request's field at fault."""

    code: int
    field: str = ""


ROWS: Final[dict[type[BrokerError], Row]] = {
    errors.BrokerError: Row(code_pb2.INTERNAL),
    Internal: Row(code_pb2.INTERNAL),
    errors.RequestError: Row(INVALID),
    MalformedRequest: Row(INVALID),
    errors.IllegalTopic: Row(INVALID, "topic"),
    errors.SystemTopic: Row(code_pb2.PERMISSION_DENIED, "topic"),
    errors.TopicNotFound: Row(code_pb2.NOT_FOUND, "topic"),
    errors.TopicExists: Row(code_pb2.ALREADY_EXISTS, "topic"),
    errors.IllegalGroup: Row(INVALID, "group"),
    errors.SystemGroup: Row(code_pb2.PERMISSION_DENIED, "group"),
    errors.GroupNotFound: Row(code_pb2.NOT_FOUND, "group"),
    errors.GroupExists: Row(code_pb2.ALREADY_EXISTS, "group"),
    errors.IllegalAttribute: Row(INVALID, "attributes"),
    errors.IllegalTag: Row(INVALID, "tag"),
    errors.IllegalKey: Row(INVALID, "key"),
    errors.IllegalProperty: Row(INVALID, "properties"),
    errors.IllegalMessageGroup: Row(INVALID, "message_group"),
    errors.IllegalMessageId: Row(INVALID, "message_id"),
    errors.MessageNotFound: Row(code_pb2.NOT_FOUND, "message_id"),
    errors.BodyEmpty: Row(INVALID, "body"),
    errors.BodyTooLarge: Row(INVALID, "body"),
    errors.PropertiesTooLarge: Row(INVALID, "properties"),
    errors.TooManyProperties: Row(INVALID, "properties"),
    errors.RecordTooLarge: Row(INVALID, "messages"),
    errors.NoMessages: Row(INVALID, "messages"),
    errors.TooManyMessages: Row(INVALID, "messages"),
    errors.MixedTopics: Row(INVALID, "messages"),
    errors.MixedQueues: Row(INVALID, "messages"),
    errors.QueueOutOfRange: Row(code_pb2.OUT_OF_RANGE, "queue_id"),
    errors.TopicNotWritable: Row(code_pb2.PERMISSION_DENIED, "topic"),
    errors.TopicNotReadable: Row(code_pb2.PERMISSION_DENIED, "topic"),
    errors.IllegalNumber: Row(INVALID),
    errors.OffsetOutOfRange: Row(code_pb2.OUT_OF_RANGE, "offset"),
    errors.IllegalFilter: Row(INVALID, "filter"),
    errors.IllegalPageToken: Row(INVALID, "page_token"),
    errors.UnsupportedFeature: Row(code_pb2.UNIMPLEMENTED),
    errors.Unavailable: Row(code_pb2.UNAVAILABLE),
    errors.NotAccepting: Row(code_pb2.UNAVAILABLE),
    errors.BrokerReadOnly: Row(code_pb2.FAILED_PRECONDITION),
    errors.StoreDamaged: Row(code_pb2.FAILED_PRECONDITION),
    errors.StoreBusy: Row(code_pb2.RESOURCE_EXHAUSTED),
    errors.TooManyRequests: Row(code_pb2.RESOURCE_EXHAUSTED),
    errors.Recovering: Row(code_pb2.UNAVAILABLE),
    errors.Draining: Row(code_pb2.UNAVAILABLE),
    errors.DiskFull: Row(code_pb2.RESOURCE_EXHAUSTED),
    errors.DiskAboveLimit: Row(code_pb2.RESOURCE_EXHAUSTED),
    errors.DiskSlow: Row(code_pb2.UNAVAILABLE),
    errors.TransientPoolEmpty: Row(code_pb2.RESOURCE_EXHAUSTED),
    errors.StorageError: Row(code_pb2.INTERNAL),
    errors.Corruption: Row(code_pb2.DATA_LOSS),
    errors.MessageDamaged: Row(code_pb2.DATA_LOSS),
    errors.ReadFailed: Row(code_pb2.INTERNAL),
    errors.StoreLocked: Row(code_pb2.FAILED_PRECONDITION),
    errors.NotAStore: Row(code_pb2.FAILED_PRECONDITION),
    errors.StoreTooNew: Row(code_pb2.FAILED_PRECONDITION),
    errors.TableUnreadable: Row(code_pb2.DATA_LOSS),
    errors.StoreGap: Row(code_pb2.DATA_LOSS),
    errors.WrongFileSize: Row(code_pb2.FAILED_PRECONDITION),
    errors.UnknownGeometry: Row(code_pb2.FAILED_PRECONDITION),
    errors.IllegalConfig: Row(code_pb2.FAILED_PRECONDITION),
    errors.SparkMissing: Row(code_pb2.INTERNAL),
    errors.ViewFailed: Row(code_pb2.INTERNAL),
    errors.StoreFailed: Row(code_pb2.INTERNAL),
    errors.FsyncFailed: Row(code_pb2.INTERNAL),
    errors.AllocationFailed: Row(code_pb2.INTERNAL),
    errors.WriteFailed: Row(code_pb2.INTERNAL),
}


def refuse(error: BrokerError, method: Method) -> WireStatus:
    """Return what a client is told of an error, whatever method it called."""
    return wire_status(error)


def wire_status(error: BrokerError) -> WireStatus:
    """Return what a client is told of an error."""
    row = ROWS[type(error)]
    message = _public_text(error)
    metadata = _public_fields(error)
    reason = error.reason
    parts: list[Message] = [
        error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)
    ]
    field = row.field or getattr(error, "field", "")
    if isinstance(error, errors.RequestError) and field:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=field, description=message, reason=reason
        )
        parts.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.retryable:
        delay = duration_pb2.Duration(nanos=RETRY_DELAY_MS * 1_000_000)
        parts.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return _packed(row.code, message, parts)


def _packed(code: int, message: str, parts: list[Message]) -> WireStatus:
    packed = [
        any_pb2.Any(
            type_url=TYPE_PREFIX + part.DESCRIPTOR.full_name, value=part.SerializeToString()
        )
        for part in parts
    ]
    status = status_pb2.Status(code=code, message=message, details=packed)
    return WireStatus(code, message, status.SerializeToString())


def _public_fields(error: BrokerError) -> dict[str, str]:
    names = [field.name for field in fields(error) if field.name not in HIDDEN_FIELDS]
    return {name: _cut(str(getattr(error, name)), FIELD_SIZE_MAX) for name in names}


def _public_text(error: BrokerError) -> str:
    if isinstance(error, errors.DiskFull):
        return "the broker's disk is full; sends resume by themselves once there is room"
    if isinstance(error, errors.StoreDamaged):
        return "the broker's store is damaged: what is sound is served, no message is taken"
    if isinstance(error, errors.StorageError):
        return f"the store cannot serve this ({error.reason}); the broker's log tells more"
    return _cut(str(error), TEXT_SIZE_MAX)


def _cut(text: str, size_max: int) -> str:
    encoded = text.encode("utf-8", "replace")
    return text if len(encoded) <= size_max else encoded[:size_max].decode("utf-8", "ignore") + "…"
