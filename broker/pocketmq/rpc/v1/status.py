"""Encodes errors for the wire: a gRPC status and google.rpc details.

KINDS contains every class of `model/errors` (checked by a test). Details are one
`google.rpc.Status`:
    ErrorInfo      reason = the class name, domain "pocketmq", metadata = the error's fields
    BadRequest     the field of the request at fault, for request errors
    RetryInfo      time before a retry, for errors that may be retried
"""

from typing import Final

from google.protobuf import duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from pocketmq.model import errors
from pocketmq.model.errors import BrokerError
from pocketmq.rpc.error_text import cut, public_text
from pocketmq.rpc.service import Internal, MalformedRequest, Method, UnknownService, WireStatus

DOMAIN: Final = "pocketmq"
RETRY_DELAY_MS: Final = 100
"""Suggested delay of a retry: long enough for a group commit or a burst, and barely noticeable."""
FIELD_SIZE_MAX: Final = 400
"""Upper limit of bytes of one field in a status: a status has to fit 8 KiB of metadata."""
HIDDEN_FIELDS: Final = frozenset({"path"})
"""Fields that only operators see, in the broker's log."""

KINDS: Final[dict[int, tuple[type[BrokerError], ...]]] = {
    code_pb2.INVALID_ARGUMENT: (
        errors.RequestError, MalformedRequest, errors.IllegalTopic, errors.IllegalGroup,
        errors.IllegalAttribute, errors.IllegalBegin, errors.IllegalTag, errors.IllegalKey,
        errors.IllegalProperty,
        errors.IllegalMessageGroup, errors.IllegalMessageId, errors.BodyEmpty, errors.BodyTooLarge,
        errors.PropertiesTooLarge, errors.TooManyProperties, errors.RecordTooLarge,
        errors.NoMessages, errors.TooManyMessages, errors.MixedTopics, errors.MixedQueues,
        errors.MixedKinds, errors.KindConflict, errors.AmbiguousKind, errors.IllegalDeliveryTime,
        errors.IllegalRecallHandle,
        errors.IllegalNumber, errors.IllegalFilter, errors.IllegalPageToken,
        errors.ClientIdRequired, errors.InvalidReceiptHandle, errors.IllegalInvisibleTime,
        errors.TooManyElements, errors.BodyCorrupted,
        errors.IllegalSettings, errors.IllegalUser, errors.IllegalGrant,
    ),
    code_pb2.NOT_FOUND: (
        errors.TopicNotFound, errors.GroupNotFound, errors.MessageNotFound, errors.NotWaiting,
        errors.OffsetNotFound, errors.TransactionUnknown, UnknownService, errors.UserNotFound,
        errors.GrantNotFound, errors.ClientNotFound, errors.ReplicaNotFound,
    ),
    code_pb2.DEADLINE_EXCEEDED: (errors.ClientSilent,),
    code_pb2.ALREADY_EXISTS: (errors.TopicExists, errors.GroupExists, errors.UserExists),
    code_pb2.PERMISSION_DENIED: (
        errors.SystemTopic, errors.SystemGroup, errors.TopicNotWritable, errors.TopicNotReadable,
        errors.GroupDisabled, errors.TransactionsRefused, errors.AccessDenied, errors.AdminsOnly,
    ),
    code_pb2.UNAUTHENTICATED: (errors.Unauthenticated,),
    code_pb2.OUT_OF_RANGE: (errors.QueueOutOfRange, errors.OffsetOutOfRange),
    code_pb2.UNIMPLEMENTED: (errors.UnsupportedFeature, errors.UnsupportedTopic),
    code_pb2.UNAVAILABLE: (
        errors.Unavailable, errors.NotAccepting, errors.Recovering, errors.Draining,
        errors.DiskSlow, errors.NotReplicated, errors.FollowersLate,
    ),
    code_pb2.RESOURCE_EXHAUSTED: (
        errors.StoreBusy, errors.TooManyRequests, errors.ShareTaken, errors.LimitReached,
        errors.CreationsUsedUp, errors.CapacityReached, errors.DiskFull,
        errors.DiskAboveLimit, errors.DiskNearlyFull, errors.TransientPoolEmpty,
    ),
    code_pb2.FAILED_PRECONDITION: (
        errors.BrokerReadOnly, errors.NotLeader, errors.StoreDamaged, errors.StoreLocked,
        errors.NotAStore, errors.PlaceUnusable,
        errors.StoreTooNew, errors.WrongFileSize, errors.UnknownGeometry, errors.IllegalConfig,
        errors.AddressUnavailable, errors.UnsupportedStore, errors.OriginUnknown, errors.GroupInUse,
        errors.NotAPlainFile, errors.StrayFile, errors.SettingsFileUnusable,
        errors.TransactionDecided, errors.WrongRole, errors.FollowersBehind, errors.LastAdmin,
        errors.TableChanged,
    ),
    code_pb2.DATA_LOSS: (
        errors.Corruption, errors.MessageDamaged, errors.TableUnreadable, errors.StoreGap,
        errors.LogMissing,
    ),
    code_pb2.INTERNAL: (
        errors.BrokerError, Internal, errors.StorageError, errors.ReadFailed, errors.SparkMissing,
        errors.ViewFailed, errors.StoreFailed, errors.FsyncFailed, errors.AllocationFailed,
        errors.WriteFailed,
    ),
}  # fmt: skip
"""gRPC status -> classes of errors with this status."""
FIELDS: Final[dict[str, tuple[type[BrokerError], ...]]] = {
    "topic": (
        errors.IllegalTopic, errors.SystemTopic, errors.TopicNotFound, errors.TopicExists,
        errors.TopicNotWritable, errors.TopicNotReadable, errors.UnsupportedTopic,
        errors.KindConflict,
    ),
    "group": (
        errors.IllegalGroup, errors.SystemGroup, errors.GroupNotFound, errors.GroupExists,
        errors.GroupDisabled, errors.GroupInUse,
    ),
    "attributes": (errors.IllegalAttribute,),
    "tag": (errors.IllegalTag,),
    "key": (errors.IllegalKey,),
    "properties": (errors.IllegalProperty, errors.PropertiesTooLarge, errors.TooManyProperties),
    "message_group": (errors.IllegalMessageGroup,),
    "message_id": (errors.IllegalMessageId, errors.MessageNotFound),
    "recall_handle": (errors.IllegalRecallHandle, errors.NotWaiting),
    "transaction_id": (errors.TransactionUnknown, errors.TransactionDecided),
    "body": (errors.BodyEmpty, errors.BodyTooLarge),
    "messages": (
        errors.RecordTooLarge, errors.NoMessages, errors.TooManyMessages, errors.MixedTopics,
        errors.MixedQueues, errors.MixedKinds, errors.AmbiguousKind,
    ),
    "deliver_at_ms": (errors.IllegalDeliveryTime,),
    "queue_id": (errors.QueueOutOfRange,),
    "offset": (errors.OffsetOutOfRange,),
    "filter": (errors.IllegalFilter,),
    "page_token": (errors.IllegalPageToken,),
}  # fmt: skip
"""Request field -> classes of errors about it; other errors may have an attribute `field`."""
STATUSES: Final = {kind: code for code, kinds in KINDS.items() for kind in kinds}
_FIELD_OF: Final = {kind: field for field, kinds in FIELDS.items() for kind in kinds}


def refuse(error: BrokerError, method: Method) -> WireStatus:
    """Returns the status of an error for clients; it is the same for all methods."""
    return wire_status(error)


def wire_status(error: BrokerError) -> WireStatus:
    """Returns the status of an error for clients."""
    kind = type(error)
    message = public_text(error)
    metadata = _public_fields(error)
    reason = error.reason
    parts: list[Message] = [
        error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)
    ]
    field = _FIELD_OF.get(kind) or getattr(error, "field", "")
    if isinstance(error, errors.RequestError) and field:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=field, description=message, reason=reason
        )
        parts.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.retryable:
        delay = duration_pb2.Duration(nanos=RETRY_DELAY_MS * 1_000_000)
        parts.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=STATUSES[kind], message=message)
    for part in parts:
        status.details.add().Pack(part)
    return WireStatus(status.code, message, status.SerializeToString())


def _public_fields(error: BrokerError) -> dict[str, str]:
    names = [name for name in error.field_types if name not in HIDDEN_FIELDS]
    return {name: cut(str(getattr(error, name)), FIELD_SIZE_MAX) for name in names}
