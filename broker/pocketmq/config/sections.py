"""The settings: one dataclass per section, one field per setting, with its explanation.

`KNOBS` lists all of them by key ("store.flush"), with RocketMQ's name for each setting.

Presets are sets of defaults for a kind of machine; an operator's settings override them.

preset   commit-log files   index file                 flush
dev      64 MiB             0.2 M slots, 1 M entries   async   may lose the last messages
edge     64 MiB             0.2 M slots, 1 M entries   sync    one small machine that may lose power
server   1 GiB              5 M slots, 20 M entries    async   RocketMQ's defaults

Edge has the default of every setting. An existing store keeps its sizes under any preset.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pocketmq.config.knob import INT32_MAX, Knob, Value, knob, knobs_of_section, live_knob
from pocketmq.config.port_sections import (
    AUTO,
    OFF,
    ON,
    ConsoleSection,
    HttpSection,
    ReplicationSection,
    RpcSection,
)
from pocketmq.config.texts import (
    PORT_MAX,
    begin_setting,
    delay_levels_from_text,
    hours_from_text,
    int_from_text,
    ip_from_text,
    name_from_text,
    otlp_endpoint_from_text,
    profiles_from_text,
    zone_from_text,
)
from pocketmq.config.units import GIB, HOUR_MS, KIB, MIB, SECOND_MS
from pocketmq.format.consume_unit import EXTENSION_END_SIZE, EXTENSION_SIZE_MIN
from pocketmq.format.index_layout import STYLES
from pocketmq.model.store_shape import StoreShape
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC, StoreSettings

# -- settings of access control ----------------------------------------------------------------
USERS: Final = "users"


@dataclass(frozen=True, kw_only=True)
class AccessSection:
    """Access control; the store holds users and grants, see `pocketmq user`, `pocketmq acl`."""

    check: str = knob(
        AUTO,
        "Whether calls must be signed by a user with permission: on, off, auto, which is on "
        "if other machines can reach a port, or users, which is on if the store has users.",
        choices=(AUTO, ON, OFF, USERS),
    )  # fmt: skip
    date_window_ms: int = live_knob(
        15 * HOUR_MS, "Largest difference between a signature's date and the broker's clock; 0: no "
        "limit. Most clients send their local time, so that less than 14h refuses some of them. "
        "If all clients run in UTC, 5m suffices.",
    )  # fmt: skip
    admin_secret_path: str = knob(
        "", "File with the secret of the user admin, who has all permissions and is created in a "
        "store without users.",
    )  # fmt: skip


# -- transactions ------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class TransactionsSection:
    """Messages that are delivered when their producer commits them."""

    refuse: bool = live_knob(
        False, "Refuse new transactions; existing ones can still be committed or rolled back.",
        "rejectTransactionMessage",
    )  # fmt: skip
    timeout_ms: int = live_knob(
        6 * SECOND_MS, "Age of an undecided transaction at its first check with a producer.",
        "transactionTimeOut", lower=1, upper=INT32_MAX,
    )  # fmt: skip
    check_interval_ms: int = live_knob(
        30 * SECOND_MS, "Interval between checks of a transaction.",
        "transactionCheckInterval", lower=1, upper=INT32_MAX,
    )  # fmt: skip
    checks_max: int = live_knob(
        15,
        "Number of checks after which an undecided transaction expires.",
        "transactionCheckMax",
        upper=1_000,
    )


# -- sections ----------------------------------------------------------------------------------
if TYPE_CHECKING:
    from pocketmq.services.retention import RetentionSettings

PRESET: Final = "preset"
"""The only key outside the sections."""
TEMPORARY_STORE: Final = "pocketmq dev"
"""Origin of the store directory that is removed with its broker."""
DEV: Final = "dev"
EDGE: Final = "edge"
SERVER: Final = "server"

PRESETS: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        DEV: {
            "store.flush": FLUSH_ASYNC,
            "retention.disk_margin_bytes": 0,
            "broker.default_topic_type": "mixed",
        },
        EDGE: {},
        SERVER: {
            "store.flush": FLUSH_ASYNC,
            "store.commit_log_file_size_bytes": GIB,
            "store.index_slot_count": 5_000_000,
            "store.index_entry_count_max": 20_000_000,
            "retention.disk_expire_percent": 75,
            "retention.disk_force_percent": 85,
            "retention.disk_refuse_percent": 90,
            "retention.disk_margin_bytes": 0,
        },
    }
)

COMMIT_LOG_FILE_SIZE_MIN: Final = 4 * KIB
"""Smallest size, used by tests; smaller files hold hardly any message."""
INDEX_ENTRY_COUNT_MIN: Final = 2
"""Smallest number of entries, as entry 0 is never used."""
EXTENSION_FILE_SIZE_MIN: Final = EXTENSION_SIZE_MIN + EXTENSION_END_SIZE
MODES: Final = ("auto", "on", "off")


@dataclass(frozen=True, kw_only=True)
class StoreSection:
    """One directory with everything that outlives the process.

    Sizes apply to a new store. An existing store keeps its sizes unless the operator sets them.
    Fields are named as in StoreSettings.
    """

    directory: str = knob("./store", "Directory of the store.", "storePathRootDir")
    commit_log_file_size_bytes: int = knob(
        StoreShape.commit_log_file_size_bytes,
        "Length of each commit-log file.", "mappedFileSizeCommitLog",
        lower=COMMIT_LOG_FILE_SIZE_MIN, upper=INT32_MAX,
    )  # fmt: skip
    consume_queue_file_size_bytes: int = knob(
        StoreShape.consume_queue_file_size_bytes,
        "Length of each consume-queue file, 20 bytes a message.",
        "mappedFileSizeConsumeQueue", lower=20, upper=INT32_MAX,
    )  # fmt: skip
    index_slot_count: int = knob(
        StoreShape.index_slot_count,
        "Hash slots of each index file.",
        "maxHashSlotNum",
        lower=1,
        upper=INT32_MAX,
    )  # fmt: skip
    index_entry_count_max: int = knob(
        StoreShape.index_entry_count_max,
        "Entries at which an index file is full.", "maxIndexNum",
        lower=INDEX_ENTRY_COUNT_MIN, upper=INT32_MAX,
    )  # fmt: skip
    index_style: str = knob(
        StoreShape.index_style,
        "RocketMQ version whose index format is written; from 5.5 on it also has tags.",
        choices=STYLES,
    )  # fmt: skip
    time_zone: str = knob(
        StoreShape.time_zone,
        'Zone of index file names, such as "Europe/Berlin"; empty: the machine\'s.',
        read=zone_from_text,
    )  # fmt: skip
    flush: str = knob(
        FLUSH_SYNC, "sync acknowledges a message on disk, async one in memory.",
        "flushDiskType", choices=(FLUSH_SYNC, FLUSH_ASYNC),
    )  # fmt: skip
    flush_interval_ms: int = knob(
        500, "async: interval of commit-log flushes.", "flushIntervalCommitLog", lower=1
    )
    flush_least_pages: int = knob(
        4, "async: a flush of fewer dirty pages of 4 KiB is skipped, unless it is thorough.",
        "flushCommitLogLeastPages",
    )  # fmt: skip
    flush_thorough_interval_ms: int = knob(
        10_000, "async: interval of thorough flushes.", "flushCommitLogThoroughInterval", lower=1
    )
    sync_flush_timeout_ms: int = knob(
        5_000,
        "sync: time after which a producer gets FLUSH_DISK_TIMEOUT.",
        "syncFlushTimeout",
        lower=1,
    )
    view_flush_interval_ms: int = knob(
        1_000, "Interval of consume-queue flushes.", "flushIntervalConsumeQueue", lower=1
    )
    view_flush_least_pages: int = knob(
        2, "A flush of fewer dirty pages of a queue is skipped, unless it is thorough.",
        "flushConsumeQueueLeastPages",
    )  # fmt: skip
    view_flush_thorough_interval_ms: int = knob(
        10_000, "Interval of thorough flushes of queues and index, and of the checkpoint.",
        "flushConsumeQueueThoroughInterval", lower=1,
    )  # fmt: skip
    busy_timeout_ms: int = knob(
        1_000, "If one put holds the put lock for longer, further sends are refused.",
        "osPageCacheBusyTimeOutMills", lower=1,
    )  # fmt: skip
    transient_pool: bool = knob(
        False, "async: append to locked memory and write it to the file in larger pieces.",
        "transientStorePoolEnable",
    )  # fmt: skip
    transient_pool_file_count: int = knob(
        5, "Number of file-sized locked buffers in the pool.", "transientStorePoolSize",
        lower=1, upper=1024,
    )  # fmt: skip
    commit_interval_ms: int = knob(
        200, "Pool: interval of writes to the file.", "commitIntervalCommitLog", lower=1
    )
    commit_least_pages: int = knob(
        4, "Pool: a write of fewer pages of 4 KiB is skipped, unless it is thorough.",
        "commitCommitLogLeastPages",
    )  # fmt: skip
    commit_thorough_interval_ms: int = knob(
        200, "Pool: interval of thorough writes to the file.",
        "commitCommitLogThoroughInterval", lower=1,
    )  # fmt: skip
    warm_files: bool = knob(
        False, "Touch and lock the pages of the next commit-log file before it is written to.",
        "warmMapedFileEnable",
    )  # fmt: skip
    consume_queue_extension: bool = knob(
        StoreShape.consume_queue_extension,
        "Write consume-queue extension units; existing ones are always read.",
        "enableConsumeQueueExt",
    )  # fmt: skip
    consume_queue_extension_file_size_bytes: int = knob(
        StoreShape.consume_queue_extension_file_size_bytes,
        "Length of each consume-queue extension file.", "mappedFileSizeConsumeQueueExt",
        lower=EXTENSION_FILE_SIZE_MIN, upper=INT32_MAX,
    )  # fmt: skip
    open_queue_files_max: int = knob(
        16_384, "Upper limit of open consume-queue files, at most half of the process's open-file "
        "limit; the least recently used file is closed before a further file is opened.",
        lower=1, upper=INT32_MAX,
    )  # fmt: skip
    reserve_size_bytes: int = knob(
        16 * MIB,
        "Reserve for a full disk, at most one commit-log file: queues, offsets and a clean stop "
        "then still have room; 0: none.",
        upper=INT32_MAX,
    )  # fmt: skip
    property_crc: bool = knob(
        StoreShape.property_crc,
        "End each record with a CRC over all of it; costs 20 bytes.",
        "enabledAppendPropCRC",
    )  # fmt: skip
    timer_log_file_size_bytes: int = knob(
        100 * MIB, "Length of each timer-log file, 52 bytes per delayed message.",
        "mappedFileSizeTimerLog", lower=128, upper=INT32_MAX,
    )  # fmt: skip
    delay_levels: str = knob(
        StoreShape.delay_levels,
        "Delays by level; empty: RocketMQ's 18, from 1s to 2h.", "messageDelayLevel",
        read=delay_levels_from_text,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RetentionSection:
    """Retention of messages.

    Fields are named as in RetentionSettings (services/retention.py).
    """

    mode: str = live_knob(
        "auto", "auto: on in a store that PocketMQ created; off in a store that RocketMQ created, "
        "unless a key of this section is set.", choices=MODES,
    )  # fmt: skip
    age_ms: int = live_knob(
        72 * HOUR_MS, "Age of its last message at which a file expires, 1h or more; 0: never.",
        "fileReservedTime",
    )  # fmt: skip
    hours: str = live_knob(
        "04", 'Local hours in which messages expire by age: "04;16"; empty: any.', "deleteWhen",
        read=hours_from_text,
    )  # fmt: skip
    size_bytes: int = live_knob(0, "Upper limit of the commit log's size; 0: no limit.")
    archive_hold: bool = live_knob(
        False,
        "Keep files until `pocketmq archive` has archived them, if the disk has room.",
    )
    disk_expire_percent: int = live_knob(
        100, "Disk usage above which messages expire by age at any hour; 100: never.",
        "diskMaxUsedSpaceRatio", lower=10, upper=100,
    )  # fmt: skip
    disk_force_percent: int = live_knob(
        100, "Disk usage above which the oldest files are removed regardless of age; 100: never.",
        "diskSpaceCleanForciblyRatio", lower=30, upper=100,
    )  # fmt: skip
    disk_refuse_percent: int = live_knob(
        100, "Disk usage above which sends are refused; 100: never.", "diskSpaceWarningLevelRatio",
        lower=35, upper=100,
    )  # fmt: skip
    disk_margin_bytes: int = live_knob(
        64 * MIB,
        "Sends are refused while the free space is less than a commit-log file, the reserve and "
        "this margin together; 0: only a full disk refuses sends.",
    )
    file_batch_max: int = live_knob(
        10, "Upper limit of files removed in one scan.", "deleteFileBatchMax",
        lower=1, upper=INT32_MAX,
    )  # fmt: skip
    interval_ms: int = live_knob(
        10_000, "Interval between retention scans.", "cleanResourceInterval", lower=1
    )
    pause_ms: int = live_knob(
        100, "Pause between two removals of a scan.", "deleteCommitLogFilesInterval"
    )


@dataclass(frozen=True, kw_only=True)
class BrokerSection:
    """Identity of this broker, and the messages it accepts."""

    name: str = knob("broker-a", "Name of this broker.", "brokerName", read=name_from_text)
    cluster: str = knob(
        "DefaultCluster", "Name of its cluster, stored with each message.", "brokerClusterName",
        read=name_from_text,
    )  # fmt: skip
    advertised_host: str = knob(
        "", "IP address for clients and messages; empty: the listening or own address.",
        "brokerIP1", read=ip_from_text,
    )  # fmt: skip
    advertised_port: int = knob(
        0, "Port for clients and messages; 0: the listening port.", "listenPort", upper=PORT_MAX
    )
    permission: int = live_knob(
        6, "Sum of 4 (read) and 2 (write); 4 refuses all sends.", "brokerPermission", upper=7
    )
    auto_create_topics: bool = live_knob(
        True, "Create a topic when the first message for it arrives.", "autoCreateTopicEnable"
    )
    auto_create_groups: bool = live_knob(
        True, "Create a consumer group when an official client uses it.",
        "autoCreateSubscriptionGroup",
    )  # fmt: skip
    group_begin: str = live_knob(
        "min", "Where new groups begin: min, max, or a time such as 2026-11-21T02:30:00Z.",
        read=begin_setting,
    )  # fmt: skip
    default_queue_count: int = live_knob(
        8, "Queues of a topic created by its first message.", "defaultTopicQueueNums",
        lower=1, upper=1024,
    )  # fmt: skip
    default_topic_type: str = live_knob(
        "normal", "Type of a topic created by its first message; mixed: messages of all kinds.",
        choices=("normal", "fifo", "delay", "transaction", "priority", "mixed"),
    )  # fmt: skip
    accept_from_ms: int = live_knob(
        0, "Refuse sends before this time, in ms since 1970.", "startAcceptSendRequestTimeStamp",
        read=int_from_text,
    )  # fmt: skip
    check_message_types: bool = live_knob(
        True,
        "A topic with a type accepts only messages of this type; those of classic clients are "
        "not checked, as in RocketMQ.",
        "enableTopicMessageTypeCheck",
    )
    dedupe_window_ms: int = live_knob(
        0, "Deduplication window for sends with the same message ids; 0: off."
    )


@dataclass(frozen=True, kw_only=True)
class LimitsSection:
    """Limits on messages, topics, groups and users."""

    max_message_size_bytes: int = live_knob(
        4 * MIB, "Largest body of a message, and of all messages of one request.",
        "maxMessageSize", lower=1, upper=INT32_MAX,
    )  # fmt: skip
    delay_max_ms: int = live_knob(
        24 * HOUR_MS, "Longest delay of a message.", "timerMaxDelaySec", lower=1
    )
    in_flight_max: int = knob(
        10_000, "Upper limit of unacknowledged messages of a queue for one group.",
        "popInflightMessageThreshold", lower=1, upper=INT32_MAX,
    )  # fmt: skip
    topics_max: int = live_knob(
        20_000, "Upper limit of topics; beyond it none can be created, but existing ones stay.",
        lower=1, upper=INT32_MAX,
    )  # fmt: skip
    queues_max: int = live_knob(
        200_000, "Upper limit of queues of all topics together.", lower=1, upper=INT32_MAX
    )
    groups_max: int = live_knob(
        20_000, "Upper limit of consumer groups; beyond it none can be created, but existing ones "
        "stay.",
        lower=1, upper=INT32_MAX,
    )  # fmt: skip
    user_creations_per_hour: int = live_knob(
        1_000,
        "Topics and groups that one user may create in an hour with access control; admins are "
        "exempt.",
        upper=INT32_MAX,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MetricsSection:
    """The contents of /metrics."""

    profile: str = knob(
        "native", "Names of RocketMQ's metrics: native (with units, from 5.1.4 on), native-legacy "
        'or both: "native,native-legacy".', read=profiles_from_text,
    )  # fmt: skip
    detail: str = knob(
        "public", "full adds series of every queue.",
        choices=("public", "full"),
    )  # fmt: skip
    max_series: int = knob(
        50_000, "Upper limit of time series shown; further series are left out and counted.",
        "metricsOtelCardinalityLimit", lower=1, upper=INT32_MAX,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OtelSection:
    """Export of spans and metrics by OTLP; needs the extra `otel`."""

    endpoint: str = knob(
        "", "Receiver of OTLP over gRPC, such as http://127.0.0.1:4317; https:// uses TLS; empty: "
        "nothing is exported.",
        read=otlp_endpoint_from_text,
    )  # fmt: skip
    traces: bool = knob(True, "Export spans of messages that have a sampled traceparent.")
    metrics_interval_ms: int = knob(
        60 * SECOND_MS, "Interval at which the metrics of /metrics are exported; 0: never."
    )


@dataclass(frozen=True, kw_only=True)
class LogsSection:
    """The log on standard error."""

    level: str = live_knob(
        "info", "Lowest level that is logged.", choices=("debug", "info", "warning", "error")
    )
    format: str = knob(
        "auto", "auto: readable lines on a terminal, JSON elsewhere.",
        choices=("auto", "json", "console"),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config:
    """All sections, each key's source ("store.flush" -> "--set"), and notes for the operator."""

    store: StoreSection = StoreSection()
    retention: RetentionSection = RetentionSection()
    broker: BrokerSection = BrokerSection()
    limits: LimitsSection = LimitsSection()
    transactions: TransactionsSection = TransactionsSection()
    rpc: RpcSection = RpcSection()
    http: HttpSection = HttpSection()
    console: ConsoleSection = ConsoleSection()
    replication: ReplicationSection = ReplicationSection()
    access: AccessSection = AccessSection()
    metrics: MetricsSection = MetricsSection()
    otel: OtelSection = OtelSection()
    logs: LogsSection = LogsSection()
    preset: str = EDGE
    preset_origin: str = "default"
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def retention_is_set(self) -> bool:
        """Whether the operator set any key of the section `retention`."""
        return any(key.startswith("retention.") for key in self.origins)

    def value(self, key: str) -> Value:
        """Returns the value of a setting by its key."""
        section, _, name = key.partition(".")
        value: Value = getattr(getattr(self, section), name)
        return value

    def origin(self, key: str) -> str:
        """Returns a setting's origin: file and line, variable, --set, preset or default."""
        if key in self.origins:
            return self.origins[key]
        return f"preset {self.preset}" if key in PRESETS[self.preset] else "default"

    def store_settings(self) -> StoreSettings:
        """Returns the store's settings; `explicit` has the fields that the operator set."""
        values = {item.name: getattr(self.store, item.name) for item in fields(self.store)}
        values["directory"] = Path(self.store.directory).expanduser()
        names = [key.partition(".") for key in self.origins]
        return StoreSettings(
            **values,
            cluster=self.broker.cluster,
            broker=self.broker.name,
            in_sync_replicas=self.replication.in_sync_replicas,
            ack_timeout_ms=self.replication.ack_timeout_ms,
            explicit=frozenset(name for section, _, name in names if section == "store"),
        )

    def retention_settings(self) -> "RetentionSettings":
        """Returns the settings of retention."""
        from pocketmq.services.retention import RetentionSettings  # not needed by offline tools

        section = self.retention
        return RetentionSettings(
            **{item.name: getattr(section, item.name) for item in fields(section)}
        )


SECTIONS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {item.name: type(item.default) for item in fields(Config) if is_dataclass(item.default)}
)
KNOBS: Final[Mapping[str, Knob]] = MappingProxyType(
    {knob.key: knob for name, kind in SECTIONS.items() for knob in knobs_of_section(name, kind)}
)
