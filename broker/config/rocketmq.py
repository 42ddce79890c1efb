"""RocketMQ's names for settings: those that mean something here, and those that do not.

Which setting of ours a name stands for is said beside the setting (sections.py). The rest of the
names in RocketMQ's MessageStoreConfig and BrokerConfig that operators are known to set are listed
here, so that a broker.conf can be taken over: they draw a warning, an unknown name is an error.
"""

from collections.abc import Mapping
from typing import Final

from broker.config.sections import KNOBS, Knob

VALUE_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "flushDiskType": {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}
}
"""Words of RocketMQ that have another spelling here, by name."""

MEANINGLESS: Final = frozenset(
    """brokerId brokerIP2 brokerRole namesrvAddr autoCreateSubscriptionGroup
    rejectTransactionMessage storePathCommitLog storePathConsumeQueue storePathIndex
    mappedFileSizeConsumeQueueExt mapperFileSizeBatchConsumeQueue mappedFileSizeTimerLog
    flushCommitLogTimed commitIntervalCommitLog commitCommitLogLeastPages
    commitCommitLogThoroughInterval checkCRCOnRecover messageIndexEnable messageIndexSafe
    maxMsgsNumBatch defaultQueryMaxNum maxTransferBytesOnMessageInMemory
    maxTransferCountOnMessageInMemory maxTransferBytesOnMessageInDisk
    maxTransferCountOnMessageInDisk accessMessageInMemoryMaxRatio maxFilterMessageSize
    travelCqFileNumWhenGetMessage deleteWhen fileReservedTime diskMaxUsedSpaceRatio
    diskSpaceWarningLevelRatio diskSpaceCleanForciblyRatio deleteFileBatchMax cleanResourceInterval
    deleteCommitLogFilesInterval destroyMapedFileIntervalForcibly redeleteHangedFileInterval
    slaveTimeout putMessageTimeout useReentrantLockWhenPutMessage topicQueueLockNum haListenPort
    haSendHeartbeatInterval haHousekeepingInterval haTransferBatchSize haMaxGapNotInSync
    inSyncReplicas minInSyncReplicas totalReplicas allAckInSyncStateSet timerWheelEnable
    timerPrecisionMs timerRollWindowSlot timerMaxDelaySec timerFlushIntervalMs
    transientStorePoolEnable transientStorePoolSize forceVerifyPropCRC autoMessageVersionOnTopicLen
    enableConsumeQueueExt bitMapLengthConsumeQueueExt enableCalcFilterBitMap duplicationEnable
    readUnCommitted recheckReputOffsetFromCq offsetCheckInSlave putConsumeQueueDataByFileChannel
    maxRecoveryCommitlogFiles commitLogRecoverMaxNum enableCompaction warmMapedFileEnable
    flushDelayOffsetInterval""".split()
)


def knobs_of(name: str) -> list[Knob]:
    """Return the settings a RocketMQ name stands for; none for a name of no meaning here."""
    return [knob for knob in KNOBS.values() if knob.rocketmq == name]


def names() -> list[str]:
    """Return every RocketMQ name that is known, with or without a meaning."""
    return sorted({knob.rocketmq for knob in KNOBS.values() if knob.rocketmq} | MEANINGLESS)
