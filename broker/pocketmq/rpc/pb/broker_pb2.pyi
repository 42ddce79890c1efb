from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Wait(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_UNSPECIFIED: _ClassVar[Wait]
    DURABLE: _ClassVar[Wait]
    APPENDED: _ClassVar[Wait]

class Resolution(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOLUTION_UNSPECIFIED: _ClassVar[Resolution]
    COMMIT: _ClassVar[Resolution]
    ROLLBACK: _ClassVar[Resolution]
    UNKNOWN: _ClassVar[Resolution]

class EndStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_STATUS_UNSPECIFIED: _ClassVar[EndStatus]
    ENDED: _ClassVar[EndStatus]
    NO_TRANSACTION: _ClassVar[EndStatus]
    ENDED_OTHERWISE: _ClassVar[EndStatus]
    CANNOT_COMMIT: _ClassVar[EndStatus]

class SendStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEND_STATUS_UNSPECIFIED: _ClassVar[SendStatus]
    SEND_OK: _ClassVar[SendStatus]
    FLUSH_DISK_TIMEOUT: _ClassVar[SendStatus]
    FLUSH_REPLICA_TIMEOUT: _ClassVar[SendStatus]
    REPLICA_NOT_AVAILABLE: _ClassVar[SendStatus]

class PullShape(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGES: _ClassVar[PullShape]
    RECORDS: _ClassVar[PullShape]

class PullStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PULL_STATUS_UNSPECIFIED: _ClassVar[PullStatus]
    FOUND: _ClassVar[PullStatus]
    NO_NEW_MESSAGE: _ClassVar[PullStatus]
    NO_MATCHED_MESSAGE: _ClassVar[PullStatus]
    OFFSET_TOO_SMALL: _ClassVar[PullStatus]
    OFFSET_OVERFLOW_ONE: _ClassVar[PullStatus]
    OFFSET_OVERFLOW_BADLY: _ClassVar[PullStatus]
    NO_SUCH_QUEUE: _ClassVar[PullStatus]
    EXPIRED: _ClassVar[PullStatus]

class SettleStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLE_STATUS_UNSPECIFIED: _ClassVar[SettleStatus]
    SETTLED: _ClassVar[SettleStatus]
    INVALID_RECEIPT_HANDLE: _ClassVar[SettleStatus]
    ILLEGAL_INVISIBLE_TIME: _ClassVar[SettleStatus]

class Bound(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOWER: _ClassVar[Bound]
    UPPER: _ClassVar[Bound]
WAIT_UNSPECIFIED: Wait
DURABLE: Wait
APPENDED: Wait
RESOLUTION_UNSPECIFIED: Resolution
COMMIT: Resolution
ROLLBACK: Resolution
UNKNOWN: Resolution
END_STATUS_UNSPECIFIED: EndStatus
ENDED: EndStatus
NO_TRANSACTION: EndStatus
ENDED_OTHERWISE: EndStatus
CANNOT_COMMIT: EndStatus
SEND_STATUS_UNSPECIFIED: SendStatus
SEND_OK: SendStatus
FLUSH_DISK_TIMEOUT: SendStatus
FLUSH_REPLICA_TIMEOUT: SendStatus
REPLICA_NOT_AVAILABLE: SendStatus
MESSAGES: PullShape
RECORDS: PullShape
PULL_STATUS_UNSPECIFIED: PullStatus
FOUND: PullStatus
NO_NEW_MESSAGE: PullStatus
NO_MATCHED_MESSAGE: PullStatus
OFFSET_TOO_SMALL: PullStatus
OFFSET_OVERFLOW_ONE: PullStatus
OFFSET_OVERFLOW_BADLY: PullStatus
NO_SUCH_QUEUE: PullStatus
EXPIRED: PullStatus
SETTLE_STATUS_UNSPECIFIED: SettleStatus
SETTLED: SettleStatus
INVALID_RECEIPT_HANDLE: SettleStatus
ILLEGAL_INVISIBLE_TIME: SettleStatus
LOWER: Bound
UPPER: Bound

class Message(_message.Message):
    __slots__ = ("topic", "body", "tag", "keys", "message_id", "queue_id", "message_group", "delay_level", "deliver_at_ms", "transactional", "properties", "born_timestamp_ms", "born_host", "flag", "priority", "delay_ms", "producer_group", "first_check_ms")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_GROUP_FIELD_NUMBER: _ClassVar[int]
    DELAY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    BORN_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    BORN_HOST_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_GROUP_FIELD_NUMBER: _ClassVar[int]
    FIRST_CHECK_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    body: bytes
    tag: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    message_id: str
    queue_id: int
    message_group: str
    delay_level: int
    deliver_at_ms: int
    transactional: bool
    properties: _containers.ScalarMap[str, str]
    born_timestamp_ms: int
    born_host: str
    flag: int
    priority: int
    delay_ms: int
    producer_group: str
    first_check_ms: int
    def __init__(self, topic: _Optional[str] = ..., body: _Optional[bytes] = ..., tag: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., message_id: _Optional[str] = ..., queue_id: _Optional[int] = ..., message_group: _Optional[str] = ..., delay_level: _Optional[int] = ..., deliver_at_ms: _Optional[int] = ..., transactional: _Optional[bool] = ..., properties: _Optional[_Mapping[str, str]] = ..., born_timestamp_ms: _Optional[int] = ..., born_host: _Optional[str] = ..., flag: _Optional[int] = ..., priority: _Optional[int] = ..., delay_ms: _Optional[int] = ..., producer_group: _Optional[str] = ..., first_check_ms: _Optional[int] = ...) -> None: ...

class SendMessageRequest(_message.Message):
    __slots__ = ("messages", "wait")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    wait: Wait
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., wait: _Optional[_Union[Wait, str]] = ...) -> None: ...

class SendResult(_message.Message):
    __slots__ = ("topic", "message_id", "offset_message_id", "queue_id", "queue_offset", "physical_offset", "store_timestamp_ms", "status", "recall_handle", "transaction_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RECALL_HANDLE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    message_id: str
    offset_message_id: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    status: SendStatus
    recall_handle: str
    transaction_id: str
    def __init__(self, topic: _Optional[str] = ..., message_id: _Optional[str] = ..., offset_message_id: _Optional[str] = ..., queue_id: _Optional[int] = ..., queue_offset: _Optional[int] = ..., physical_offset: _Optional[int] = ..., store_timestamp_ms: _Optional[int] = ..., status: _Optional[_Union[SendStatus, str]] = ..., recall_handle: _Optional[str] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("topic", "recall_handle")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RECALL_HANDLE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    recall_handle: str
    def __init__(self, topic: _Optional[str] = ..., recall_handle: _Optional[str] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("message_id",)
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    def __init__(self, message_id: _Optional[str] = ...) -> None: ...

class EndTransactionRequest(_message.Message):
    __slots__ = ("group", "decisions")
    class Decision(_message.Message):
        __slots__ = ("transaction_id", "resolution")
        TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
        RESOLUTION_FIELD_NUMBER: _ClassVar[int]
        transaction_id: str
        resolution: Resolution
        def __init__(self, transaction_id: _Optional[str] = ..., resolution: _Optional[_Union[Resolution, str]] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    decisions: _containers.RepeatedCompositeFieldContainer[EndTransactionRequest.Decision]
    def __init__(self, group: _Optional[str] = ..., decisions: _Optional[_Iterable[_Union[EndTransactionRequest.Decision, _Mapping]]] = ...) -> None: ...

class EndTransactionResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("status", "why")
        STATUS_FIELD_NUMBER: _ClassVar[int]
        WHY_FIELD_NUMBER: _ClassVar[int]
        status: EndStatus
        why: str
        def __init__(self, status: _Optional[_Union[EndStatus, str]] = ..., why: _Optional[str] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EndTransactionResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[EndTransactionResponse.Result, _Mapping]]] = ...) -> None: ...

class CheckTransactionsRequest(_message.Message):
    __slots__ = ("group", "client_id", "max", "wait_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    client_id: str
    max: int
    wait_ms: int
    def __init__(self, group: _Optional[str] = ..., client_id: _Optional[str] = ..., max: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class TransactionCheck(_message.Message):
    __slots__ = ("transaction_id", "message", "checks")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    message: StoredMessage
    checks: int
    def __init__(self, transaction_id: _Optional[str] = ..., message: _Optional[_Union[StoredMessage, _Mapping]] = ..., checks: _Optional[int] = ...) -> None: ...

class CheckTransactionsResponse(_message.Message):
    __slots__ = ("checks",)
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    checks: _containers.RepeatedCompositeFieldContainer[TransactionCheck]
    def __init__(self, checks: _Optional[_Iterable[_Union[TransactionCheck, _Mapping]]] = ...) -> None: ...

class SendMessageResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SendResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SendResult, _Mapping]]] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("kind", "expression")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TAG: _ClassVar[Filter.Kind]
        SQL: _ClassVar[Filter.Kind]
    TAG: Filter.Kind
    SQL: Filter.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    kind: Filter.Kind
    expression: str
    def __init__(self, kind: _Optional[_Union[Filter.Kind, str]] = ..., expression: _Optional[str] = ...) -> None: ...

class PullMessageRequest(_message.Message):
    __slots__ = ("group", "topic", "queue_id", "offset", "max_messages", "max_bytes", "filter", "wait_ms", "shape", "commit_offset", "client_id", "begin")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    queue_id: int
    offset: int
    max_messages: int
    max_bytes: int
    filter: Filter
    wait_ms: int
    shape: PullShape
    commit_offset: int
    client_id: str
    begin: str
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., offset: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., wait_ms: _Optional[int] = ..., shape: _Optional[_Union[PullShape, str]] = ..., commit_offset: _Optional[int] = ..., client_id: _Optional[str] = ..., begin: _Optional[str] = ...) -> None: ...

class PullMessageResponse(_message.Message):
    __slots__ = ("status", "next_begin_offset", "min_offset", "max_offset", "messages", "records")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NEXT_BEGIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: _containers.RepeatedCompositeFieldContainer[StoredMessage]
    records: bytes
    def __init__(self, status: _Optional[_Union[PullStatus, str]] = ..., next_begin_offset: _Optional[int] = ..., min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[StoredMessage, _Mapping]]] = ..., records: _Optional[bytes] = ...) -> None: ...

class StoredMessage(_message.Message):
    __slots__ = ("topic", "queue_id", "queue_offset", "physical_offset", "store_size", "message_id", "offset_message_id", "tag", "keys", "message_group", "properties", "body", "body_crc", "system_flag", "flag", "reconsume_times", "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "prepared_transaction_offset", "delay_level", "deliver_at_ms", "body_codec")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STORE_SIZE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_GROUP_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    BODY_CRC_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FLAG_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    RECONSUME_TIMES_FIELD_NUMBER: _ClassVar[int]
    BORN_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    BORN_HOST_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STORE_HOST_FIELD_NUMBER: _ClassVar[int]
    PREPARED_TRANSACTION_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELAY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    BODY_CODEC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    message_id: str
    offset_message_id: str
    tag: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    message_group: str
    properties: _containers.ScalarMap[str, str]
    body: bytes
    body_crc: int
    system_flag: int
    flag: int
    reconsume_times: int
    born_timestamp_ms: int
    born_host: str
    store_timestamp_ms: int
    store_host: str
    prepared_transaction_offset: int
    delay_level: int
    deliver_at_ms: int
    body_codec: str
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., queue_offset: _Optional[int] = ..., physical_offset: _Optional[int] = ..., store_size: _Optional[int] = ..., message_id: _Optional[str] = ..., offset_message_id: _Optional[str] = ..., tag: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., message_group: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., body: _Optional[bytes] = ..., body_crc: _Optional[int] = ..., system_flag: _Optional[int] = ..., flag: _Optional[int] = ..., reconsume_times: _Optional[int] = ..., born_timestamp_ms: _Optional[int] = ..., born_host: _Optional[str] = ..., store_timestamp_ms: _Optional[int] = ..., store_host: _Optional[str] = ..., prepared_transaction_offset: _Optional[int] = ..., delay_level: _Optional[int] = ..., deliver_at_ms: _Optional[int] = ..., body_codec: _Optional[str] = ...) -> None: ...

class ReceiveRequest(_message.Message):
    __slots__ = ("group", "topic", "filter", "max_messages", "invisible_ms", "wait_ms", "client_id", "attempt_id", "auto_renew", "broadcast", "begin")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    INVISIBLE_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    AUTO_RENEW_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    filter: Filter
    max_messages: int
    invisible_ms: int
    wait_ms: int
    client_id: str
    attempt_id: str
    auto_renew: bool
    broadcast: bool
    begin: str
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., max_messages: _Optional[int] = ..., invisible_ms: _Optional[int] = ..., wait_ms: _Optional[int] = ..., client_id: _Optional[str] = ..., attempt_id: _Optional[str] = ..., auto_renew: _Optional[bool] = ..., broadcast: _Optional[bool] = ..., begin: _Optional[str] = ...) -> None: ...

class ReceiveResponse(_message.Message):
    __slots__ = ("messages", "receipt_handles", "attempts", "invisible_until_ms", "popped_at_ms")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INVISIBLE_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    POPPED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[StoredMessage]
    receipt_handles: _containers.RepeatedScalarFieldContainer[str]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    invisible_until_ms: int
    popped_at_ms: int
    def __init__(self, messages: _Optional[_Iterable[_Union[StoredMessage, _Mapping]]] = ..., receipt_handles: _Optional[_Iterable[str]] = ..., attempts: _Optional[_Iterable[int]] = ..., invisible_until_ms: _Optional[int] = ..., popped_at_ms: _Optional[int] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("status", "receipt_handle")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    status: SettleStatus
    receipt_handle: str
    def __init__(self, status: _Optional[_Union[SettleStatus, str]] = ..., receipt_handle: _Optional[str] = ...) -> None: ...

class AckRequest(_message.Message):
    __slots__ = ("group", "topic", "receipt_handles")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    receipt_handles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., receipt_handles: _Optional[_Iterable[str]] = ...) -> None: ...

class AckResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class ChangeInvisibleRequest(_message.Message):
    __slots__ = ("group", "topic", "entries")
    class Entry(_message.Message):
        __slots__ = ("receipt_handle", "invisible_ms")
        RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
        INVISIBLE_MS_FIELD_NUMBER: _ClassVar[int]
        receipt_handle: str
        invisible_ms: int
        def __init__(self, receipt_handle: _Optional[str] = ..., invisible_ms: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    entries: _containers.RepeatedCompositeFieldContainer[ChangeInvisibleRequest.Entry]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[ChangeInvisibleRequest.Entry, _Mapping]]] = ...) -> None: ...

class ChangeInvisibleResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class SendBackRequest(_message.Message):
    __slots__ = ("group", "topic", "entries")
    class Entry(_message.Message):
        __slots__ = ("receipt_handle", "delay_level")
        RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
        DELAY_LEVEL_FIELD_NUMBER: _ClassVar[int]
        receipt_handle: str
        delay_level: int
        def __init__(self, receipt_handle: _Optional[str] = ..., delay_level: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    entries: _containers.RepeatedCompositeFieldContainer[SendBackRequest.Entry]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[SendBackRequest.Entry, _Mapping]]] = ...) -> None: ...

class SendBackResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class ForwardToDeadLettersRequest(_message.Message):
    __slots__ = ("group", "topic", "receipt_handles")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    receipt_handles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., receipt_handles: _Optional[_Iterable[str]] = ...) -> None: ...

class ForwardToDeadLettersResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class QueryByKeyRequest(_message.Message):
    __slots__ = ("topic", "key", "max", "begin_ms", "end_ms", "page_token")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    BEGIN_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    key: str
    max: int
    begin_ms: int
    end_ms: int
    page_token: str
    def __init__(self, topic: _Optional[str] = ..., key: _Optional[str] = ..., max: _Optional[int] = ..., begin_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class QueryByKeyResponse(_message.Message):
    __slots__ = ("messages", "complete", "next_page_token")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[StoredMessage]
    complete: bool
    next_page_token: str
    def __init__(self, messages: _Optional[_Iterable[_Union[StoredMessage, _Mapping]]] = ..., complete: _Optional[bool] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class QueryByIdRequest(_message.Message):
    __slots__ = ("topic", "id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    id: str
    def __init__(self, topic: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class QueryByIdResponse(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: StoredMessage
    def __init__(self, message: _Optional[_Union[StoredMessage, _Mapping]] = ...) -> None: ...

class QueryByTimeRequest(_message.Message):
    __slots__ = ("topic", "queue_id", "time_ms", "bound")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    time_ms: int
    bound: Bound
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., time_ms: _Optional[int] = ..., bound: _Optional[_Union[Bound, str]] = ...) -> None: ...

class QueryByTimeResponse(_message.Message):
    __slots__ = ("queue_offset",)
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue_offset: int
    def __init__(self, queue_offset: _Optional[int] = ...) -> None: ...

class QueryOffsetsRequest(_message.Message):
    __slots__ = ("topic", "queue_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ...) -> None: ...

class QueryOffsetsResponse(_message.Message):
    __slots__ = ("min_offset", "max_offset", "min_store_timestamp_ms", "max_store_timestamp_ms")
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MIN_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    min_offset: int
    max_offset: int
    min_store_timestamp_ms: int
    max_store_timestamp_ms: int
    def __init__(self, min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ..., min_store_timestamp_ms: _Optional[int] = ..., max_store_timestamp_ms: _Optional[int] = ...) -> None: ...

class CommitOffsetRequest(_message.Message):
    __slots__ = ("group", "topic", "queue_id", "offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    queue_id: int
    offset: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class CommitOffsetResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FetchOffsetRequest(_message.Message):
    __slots__ = ("group", "topic", "queue_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    queue_id: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., queue_id: _Optional[int] = ...) -> None: ...

class FetchOffsetResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...
