"""Every error this broker raises, with its wire code and whether a retry makes sense.

BrokerError
    RequestError                the request is at fault; the client changes it
        IllegalTopic · SystemTopic · TopicNotFound · TopicExists
        IllegalGroup · SystemGroup · GroupNotFound · GroupExists · IllegalAttribute
        IllegalTag · IllegalKey · IllegalProperty · IllegalMessageGroup
        IllegalMessageId · MessageNotFound
        BodyEmpty · BodyTooLarge · PropertiesTooLarge · TooManyProperties · RecordTooLarge
        NoMessages · TooManyMessages · MixedTopics · MixedQueues
        QueueOutOfRange · TopicNotWritable · TopicNotReadable
        IllegalNumber · OffsetOutOfRange · IllegalFilter · IllegalPageToken · UnsupportedFeature
    Unavailable                 nothing is wrong with the request; try again
        NotAccepting · StoreBusy · TooManyRequests · Draining
        Recovering · DiskSlow · TransientPoolEmpty
        BrokerReadOnly
            StoreDamaged
        DiskFull
            DiskAboveLimit
    StorageError                the operator acts
        ReadFailed · StoreLocked · NotAStore · StoreTooNew · StoreGap · WrongFileSize
        UnknownGeometry · IllegalConfig · SparkMissing · ViewFailed · TableUnreadable
        Corruption
            MessageDamaged
        StoreFailed             the process ends
            FsyncFailed · AllocationFailed · WriteFailed

Each class carries typed fields and says what happened, which limit it met, and what to do next.
Only `rpc/status.py` turns codes into wire statuses.
"""

from broker.model.errors.code import (
    BrokerError,
    Code,
    RequestError,
    shown,
)
from broker.model.errors.request import (
    BodyEmpty,
    BodyTooLarge,
    GroupExists,
    GroupNotFound,
    IllegalAttribute,
    IllegalFilter,
    IllegalGroup,
    IllegalKey,
    IllegalMessageGroup,
    IllegalMessageId,
    IllegalNumber,
    IllegalPageToken,
    IllegalProperty,
    IllegalTag,
    IllegalTopic,
    MessageNotFound,
    MixedQueues,
    MixedTopics,
    NoMessages,
    OffsetOutOfRange,
    PropertiesTooLarge,
    QueueOutOfRange,
    RecordTooLarge,
    SystemGroup,
    SystemTopic,
    TooManyMessages,
    TooManyProperties,
    TopicExists,
    TopicNotFound,
    TopicNotReadable,
    TopicNotWritable,
    UnsupportedFeature,
)
from broker.model.errors.storage import (
    AllocationFailed,
    BrokerReadOnly,
    Corruption,
    DiskAboveLimit,
    DiskFull,
    DiskSlow,
    Draining,
    FsyncFailed,
    IllegalConfig,
    MessageDamaged,
    NotAccepting,
    NotAStore,
    ReadFailed,
    Recovering,
    SparkMissing,
    StorageError,
    StoreBusy,
    StoreDamaged,
    StoreFailed,
    StoreGap,
    StoreLocked,
    StoreTooNew,
    TableUnreadable,
    TooManyRequests,
    TransientPoolEmpty,
    Unavailable,
    UnknownGeometry,
    ViewFailed,
    WriteFailed,
    WrongFileSize,
)

__all__ = [
    "AllocationFailed",
    "BodyEmpty",
    "BodyTooLarge",
    "BrokerError",
    "BrokerReadOnly",
    "Code",
    "Corruption",
    "DiskAboveLimit",
    "DiskFull",
    "DiskSlow",
    "Draining",
    "FsyncFailed",
    "GroupExists",
    "GroupNotFound",
    "IllegalAttribute",
    "IllegalConfig",
    "IllegalFilter",
    "IllegalGroup",
    "IllegalKey",
    "IllegalMessageGroup",
    "IllegalMessageId",
    "IllegalNumber",
    "IllegalPageToken",
    "IllegalProperty",
    "IllegalTag",
    "IllegalTopic",
    "MessageDamaged",
    "MessageNotFound",
    "MixedQueues",
    "MixedTopics",
    "NoMessages",
    "NotAStore",
    "NotAccepting",
    "OffsetOutOfRange",
    "PropertiesTooLarge",
    "QueueOutOfRange",
    "ReadFailed",
    "RecordTooLarge",
    "Recovering",
    "RequestError",
    "SparkMissing",
    "StorageError",
    "StoreBusy",
    "StoreDamaged",
    "StoreFailed",
    "StoreGap",
    "StoreLocked",
    "StoreTooNew",
    "SystemGroup",
    "SystemTopic",
    "TableUnreadable",
    "TooManyMessages",
    "TooManyProperties",
    "TooManyRequests",
    "TopicExists",
    "TopicNotFound",
    "TopicNotReadable",
    "TopicNotWritable",
    "TransientPoolEmpty",
    "Unavailable",
    "UnknownGeometry",
    "UnsupportedFeature",
    "ViewFailed",
    "WriteFailed",
    "WrongFileSize",
    "shown",
]
