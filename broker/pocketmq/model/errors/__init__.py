"""Every error this broker raises, with its wire code and whether a retry makes sense.

BrokerError
    RequestError                the request is at fault; the client changes it
        IllegalTopic · SystemTopic · TopicNotFound · TopicExists
        IllegalGroup · SystemGroup · GroupNotFound · GroupExists · GroupDisabled
        IllegalAttribute
        IllegalTag · IllegalKey · IllegalProperty · IllegalMessageGroup
        IllegalMessageId · MessageNotFound
        BodyEmpty · BodyTooLarge · PropertiesTooLarge · TooManyProperties · RecordTooLarge
        NoMessages · TooManyMessages · TooManyElements · MixedTopics · MixedQueues · MixedKinds
        KindConflict · AmbiguousKind · IllegalDeliveryTime · IllegalRecallHandle · NotWaiting
        QueueOutOfRange · TopicNotWritable · TopicNotReadable · UnsupportedTopic
        IllegalNumber · OffsetOutOfRange · IllegalFilter · IllegalPageToken · UnsupportedFeature
        OriginUnknown · TransactionUnknown · TransactionDecided · TransactionsRefused
        ClientIdRequired · InvalidReceiptHandle · IllegalInvisibleTime · BodyCorrupted
        IllegalSettings · OffsetNotFound · ClientNotFound · ClientSilent
        Unauthenticated · AccessDenied · AdminsOnly
        IllegalUser · UserNotFound · UserExists · IllegalGrant · GrantNotFound
    Unavailable                 nothing is wrong with the request; try again
        NotAccepting · StoreBusy · TooManyRequests · ShareTaken · Draining
        LimitReached · CreationsUsedUp
        Recovering · DiskSlow · TransientPoolEmpty
        BrokerReadOnly
            StoreDamaged
        DiskFull
            DiskAboveLimit
    StorageError                the operator acts
        StoreLocked · StoreTooNew · StoreGap · WrongFileSize
        UnsupportedStore · LogMissing
        UnknownGeometry · SparkMissing · ViewFailed · TableUnreadable
        IllegalConfig
            AddressUnavailable
        Corruption
            MessageDamaged
        ReadFailed
            NotAPlainFile
        NotAStore
            StrayFile
        StoreFailed             the process ends
            FsyncFailed · AllocationFailed · WriteFailed

Each class carries typed fields and says what happened, which limit it met, and what to do next.
Only `rpc/v1/status.py` and `rpc/v2/status.py` turn them into wire statuses.
"""

from pocketmq.model.errors.access import *
from pocketmq.model.errors.code import *
from pocketmq.model.errors.official import *
from pocketmq.model.errors.request import *
from pocketmq.model.errors.storage import *
