"""RocketMQ's names of settings: translated ones, and those without a meaning in PocketMQ.

config/sections.py and config/port_sections.py contain RocketMQ's name of each setting that has one.
This module lists other names of MessageStoreConfig and BrokerConfig that operators are known to
set, each with the reason why it is ignored. An ignored name causes a warning. An unknown name is an
error in --set, and a warning in a broker.conf.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Final

from pocketmq.config.knob import Knob, Value
from pocketmq.config.sections import KNOBS
from pocketmq.config.units import HOUR_MS, SECOND_MS
from pocketmq.model.decimal import number_of
from pocketmq.model.endpoint import leader_from_text
from pocketmq.model.store_shape import DEFAULT_DELAY_LEVELS

Translation = tuple[object, str]
"""(value for PocketMQ's setting, note for the operator or "")."""

_IGNORED: Final[Mapping[str, str]] = {
    "[replication] sets the leader that it follows, and the port of its slaves": """
        brokerId brokerIP2 brokerRole haListenPort
        haSendHeartbeatInterval haHousekeepingInterval haTransferBatchSize haMasterAddress
        haSlaveFallbehindMax haMaxGapNotInSync minInSyncReplicas totalReplicas slaveReadEnable
        offsetCheckInSlave duplicationEnable
        enableDLegerCommitLog dLegerGroup dLegerPeers dLegerSelfId enableControllerMode
        controllerAddr enableSlaveActingMaster enableRemoteEscape brokerElectionPriority""",
    "clients connect to this broker without a name server": """namesrvAddr rmqAddressServerDomain
        fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup registerNameServerPeriod
        registerBrokerTimeoutMills brokerHeartbeatInterval forceRegister compressedRegister
        sendHeartbeatTimeoutMillis brokerNotActiveTimeoutMillis""",
    "all files are below store.directory, in RocketMQ's layout": """storePathCommitLog
        storePathConsumeQueue storePathIndex storeCheckpoint abortFile
        storePathDLedgerCommitLog""",
    "one event loop serves all calls; there are no thread pools to size": """
        sendMessageThreadPoolNums putMessageFutureThreadPoolNums pullMessageThreadPoolNums
        litePullMessageThreadPoolNums ackMessageThreadPoolNums processReplyMessageThreadPoolNums
        queryMessageThreadPoolNums adminBrokerThreadPoolNums clientManageThreadPoolNums
        consumerManageThreadPoolNums heartbeatThreadPoolNums endTransactionThreadPoolNums
        sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity queryThreadPoolQueueCapacity
        clientManagerThreadPoolQueueCapacity consumerManagerThreadPoolQueueCapacity
        waitTimeMillsInSendQueue waitTimeMillsInPullQueue brokerFastFailureEnable
        useReentrantLockWhenPutMessage topicQueueLockNum putMessageTimeout serverWorkerThreads
        serverCallbackExecutorThreads serverSelectorThreads""",
    "the store manages it itself": """flushCommitLogTimed checkCRCOnRecover messageIndexEnable
        messageIndexSafe destroyMapedFileIntervalForcibly redeleteHangedFileInterval
        deleteConsumeQueueFilesInterval cleanFileForciblyEnable maxRecoveryCommitlogFiles
        commitLogRecoverMaxNum recheckReputOffsetFromCq putConsumeQueueDataByFileChannel
        forceVerifyPropCRC autoMessageVersionOnTopicLen readUnCommitted
        flushLeastPagesWhenWarmMapedFile fastFailIfNoBufferInStorePool putMsgIndexHightWater
        debugLockEnable diskFallRecorded mapperFileSizeBatchConsumeQueue
        transferMsgByHeap""",
    "the limits of a pull are those of its request": """maxMsgsNumBatch defaultQueryMaxNum
        maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInMemory
        maxTransferBytesOnMessageInDisk maxTransferCountOnMessageInDisk
        accessMessageInMemoryMaxRatio travelCqFileNumWhenGetMessage longPollingEnable
        shortPollingTimeMills""",
    "offsets are durable when a commit is answered": """flushConsumerOffsetInterval
        flushConsumerOffsetHistoryInterval flushDelayOffsetInterval""",
    "the broker sizes its timer wheel itself": """timerWheelEnable timerPrecisionMs
        timerRollWindowSlot timerFlushIntervalMs""",
    "this pop setting has no counterpart here": """popPollingSize reviveQueueNum reviveInterval
        enablePopBufferMerge""",
    "users and grants are in the store: pocketmq user, pocketmq acl": "aclEnable",
    "this setting has no counterpart here": """maxFilterMessageSize
        bitMapLengthConsumeQueueExt enableCalcFilterBitMap
        enablePropertyFilter filterSupportRetry expectConsumerNumUseFilter
        maxErrorRateOfBloomFilter filterDataCleanTimeSpan enableCompaction traceTopicEnable
        msgTraceTopicName traceOn regionId clusterTopicEnable brokerTopicEnable
        rejectPullConsumerEnable disableConsumeIfConsumerReadSlowly consumerFallbehindThreshold
        isolateLogEnable rocketmqHome brokerConfigPath messageStorePlugIn""",
    "metrics are shown on the HTTP port": """metricsExporterType metricsGrpcExporterTarget
        metricsGrpcExporterHeader metricsPromExporterPort metricsPromExporterHost metricsLabel
        metricsInDelta enableDetailStat""",
}
MEANINGLESS: Final[Mapping[str, str]] = {
    name: why for why, words in _IGNORED.items() for name in words.split()
}
"""Reason why a name has no meaning here, by name."""

_NAME: Final = re.compile(r"""^[ \t{]*["']?([A-Za-z][A-Za-z0-9.]*)["']?[ \t]*[=:]""", re.MULTILINE)
_SECTION: Final = re.compile(r"^\s*\[\w+\]", re.MULTILINE)
_OF_USERS: Final = frozenset({"accounts", "globalWhiteRemoteAddresses"})
OF_OTHER_FILES: Final = _OF_USERS | {"grpcServerPort", "rocketMQClusterName"}
"""Names by which plain_acl.yml and rmq-proxy.json are recognized."""

ALIASES: Final[Mapping[str, str]] = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
    "warmMappedFileEnable": "warmMapedFileEnable",
    "destroyMappedFileIntervalForcibly": "destroyMapedFileIntervalForcibly",
}
"""Spellings of other RocketMQ releases."""


def knobs_of(name: str) -> list[Knob]:
    """Returns the settings for a RocketMQ name; [] for a name without a meaning here."""
    name = ALIASES.get(name, name)
    return [knob for knob in KNOBS.values() if knob.rocketmq == name]


def why_meaningless(name: str) -> str:
    """Returns why a RocketMQ name has no meaning here, "" for other names."""
    return MEANINGLESS.get(ALIASES.get(name, name), "")


def names() -> list[str]:
    """Returns every known RocketMQ name, with or without a meaning here."""
    ours = {knob.rocketmq for knob in KNOBS.values() if knob.rocketmq}
    return sorted({*ours, *MEANINGLESS, *ALIASES})


def names_in(text: str) -> list[str]:
    """Returns the names in a text of any of RocketMQ's formats; [] for a text with sections."""
    return [] if _SECTION.search(text) else [one[1] for one in _NAME.finditer(text)]


def is_known(name: str) -> bool:
    """Returns whether a name is RocketMQ's, with or without a meaning here."""
    return bool(knobs_of(name) or why_meaningless(name))


def import_hint(file: str, text: str) -> str:
    """Returns a hint to import plain_acl.yml or rmq-proxy.json, "" for other files."""
    name = next((name for name in names_in(text) if name in OF_OTHER_FILES), "")
    if not name:
        return ""
    more = "--store DIR" if name in _OF_USERS else "> pocketmq.toml"
    command = f"pocketmq config import-broker-conf {quote(file)} {more}"
    return f"it is in RocketMQ's format, as {name} shows; import it: {command}"


def leader_of_slave(address: str) -> str:
    """Returns the leader for a slave's haMasterAddress, "" if that is no HOST:PORT.

    The port of clients is the one below, as RocketMQ's default of haListenPort is above it.
    """
    host, _, port = address.strip().rpartition(":")
    number = number_of(port, 65_535)
    try:
        return leader_from_text(f"rocketmq://{host}:{number - 1}") if host and number > 1 else ""
    except ValueError:
        return ""


def translated(name: str, text: str) -> Translation:
    """Translates the value of a RocketMQ setting.

    Errors   ValueError
    """
    translate = TRANSLATIONS.get(ALIASES.get(name, name))
    return translate(text) if translate else (text, "")


def _flush(text: str) -> Translation:
    own = {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}.get(text, text)
    if own not in ("sync", "async"):
        raise ValueError(f"{text!r} is not one of SYNC_FLUSH, ASYNC_FLUSH")
    return own, ""


def _hours(text: str) -> Translation:
    """Returns ms for a number of hours; a text with a unit ("72h") is unchanged."""
    number = number_of(text.strip())
    if number < 0 and not text.strip()[:1].isdecimal():
        raise ValueError(f"{text!r} is not a number of hours, such as 72")
    return (text if number < 0 else number * HOUR_MS), ""


def _seconds(text: str) -> Translation:
    """Returns ms for a number of seconds; a text with a unit ("3d") is unchanged."""
    number = number_of(text.strip())
    return (text if number < 0 else number * SECOND_MS), ""


def _percent(name: str, lower: int, upper: int) -> Callable[[str], Translation]:
    """Returns a translation of a percentage or ratio (0.85), clamped to its bounds.

    Source   MessageStoreConfig.getDiskMaxUsedSpaceRatio, DefaultMessageStore
    """

    def translate(text: str) -> Translation:
        try:
            share = round(float(text) * 100) if "." in text else int(text)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{text!r} is not a percentage, such as 85 or 0.85") from error
        held = min(max(share, lower), upper)
        note = f"{name} = {text} is changed to {held}, as RocketMQ does" if held != share else ""
        return held, note

    return translate


TRANSLATIONS: Final[Mapping[str, Callable[[str], Translation]]] = {
    "flushDiskType": _flush,
    "fileReservedTime": _hours,
    "timerMaxDelaySec": _seconds,
    "diskMaxUsedSpaceRatio": _percent("diskMaxUsedSpaceRatio", 10, 95),
    "diskSpaceCleanForciblyRatio": _percent("diskSpaceCleanForciblyRatio", 30, 85),
    "diskSpaceWarningLevelRatio": _percent("diskSpaceWarningLevelRatio", 35, 90),
}


# -- the way back ------------------------------------------------------------------------------
_UNITS_MS: Final[Mapping[str, int]] = {"fileReservedTime": HOUR_MS, "timerMaxDelaySec": SECOND_MS}
_PLACES: Final = frozenset({"storePathRootDir", "listenPort", "brokerIP1"})
"""Names of a path and an address; the settings here have another form."""


def rocketmq_rows(value_of: Callable[[str], Value]) -> Iterator[tuple[str, str]]:
    """Yields (RocketMQ's name, value as text) of every setting that has such a name.

    The values have the form that RocketMQ's tools expect; a time that is no whole number of
    RocketMQ's unit is rounded up. Paths and addresses are left out.

    value_of   setting's key -> value
    """
    for key, knob in KNOBS.items():
        name = knob.rocketmq
        if not name or name in _PLACES:
            continue
        value = value_of(key)
        if name == "flushDiskType":
            yield name, f"{str(value).upper()}_FLUSH"
        elif name == "messageDelayLevel":
            yield name, str(value) or DEFAULT_DELAY_LEVELS
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, int):
            yield name, str(-(-value // _UNITS_MS.get(name, 1)))
        else:
            yield name, str(value)
