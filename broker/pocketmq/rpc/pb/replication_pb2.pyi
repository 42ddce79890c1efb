from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Replica(_message.Message):
    __slots__ = ("peer", "follower", "acknowledged_offset", "sent_offset", "lag_bytes", "connected")
    PEER_FIELD_NUMBER: _ClassVar[int]
    FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SENT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    peer: str
    follower: str
    acknowledged_offset: int
    sent_offset: int
    lag_bytes: int
    connected: bool
    def __init__(self, peer: _Optional[str] = ..., follower: _Optional[str] = ..., acknowledged_offset: _Optional[int] = ..., sent_offset: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., connected: _Optional[bool] = ...) -> None: ...

class ReplicationStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReplicationStatusResponse(_message.Message):
    __slots__ = ("role", "epoch", "term_begin", "appended_offset", "leader", "connected", "lag_bytes", "trouble", "fenced_from", "replicas", "diverged_messages", "left_bytes")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TERM_BEGIN_FIELD_NUMBER: _ClassVar[int]
    APPENDED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    FENCED_FROM_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LEFT_BYTES_FIELD_NUMBER: _ClassVar[int]
    role: str
    epoch: int
    term_begin: int
    appended_offset: int
    leader: str
    connected: bool
    lag_bytes: int
    trouble: str
    fenced_from: int
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    diverged_messages: int
    left_bytes: int
    def __init__(self, role: _Optional[str] = ..., epoch: _Optional[int] = ..., term_begin: _Optional[int] = ..., appended_offset: _Optional[int] = ..., leader: _Optional[str] = ..., connected: _Optional[bool] = ..., lag_bytes: _Optional[int] = ..., trouble: _Optional[str] = ..., fenced_from: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., diverged_messages: _Optional[int] = ..., left_bytes: _Optional[int] = ...) -> None: ...

class PromoteRequest(_message.Message):
    __slots__ = ("force",)
    FORCE_FIELD_NUMBER: _ClassVar[int]
    force: bool
    def __init__(self, force: _Optional[bool] = ...) -> None: ...

class PromoteResponse(_message.Message):
    __slots__ = ("epoch", "term_begin")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TERM_BEGIN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    term_begin: int
    def __init__(self, epoch: _Optional[int] = ..., term_begin: _Optional[int] = ...) -> None: ...

class FollowRequest(_message.Message):
    __slots__ = ("leader", "force", "wait_ms")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    leader: str
    force: bool
    wait_ms: int
    def __init__(self, leader: _Optional[str] = ..., force: _Optional[bool] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class FollowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveReplicaRequest(_message.Message):
    __slots__ = ("replica",)
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    replica: str
    def __init__(self, replica: _Optional[str] = ...) -> None: ...

class RemoveReplicaResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResyncRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResyncResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
