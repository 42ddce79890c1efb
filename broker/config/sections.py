"""The settings: one dataclass a section, one field a knob, each with its reason.

A field's name carries its unit and with it how its text is read: `_bytes` takes "64MiB", `_ms`
takes "10s", everything else is what its type says. `KNOBS` lists all of them by key
("store.flush"). RocketMQ's name for a setting stands beside it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_type_hints

from broker.config.units import KIB, MIB, duration_from_text, size_from_text
from broker.format.index_layout import STYLES
from broker.model.errors import IllegalConfig
from broker.store.settings import FLUSH_ASYNC, FLUSH_SYNC, StoreSettings

Value = int | str | bool

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
PORT_MAX: Final = 65_535
COMMIT_LOG_FILE_SIZE_MIN: Final = 4 * KIB
"""Less holds no message worth the file; tests go that low."""
INDEX_ENTRY_COUNT_MIN: Final = 2
"""Entry number 0 is never used."""
TRUE_WORDS: Final = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS: Final = frozenset({"false", "no", "off", "0"})


def address_from_text(text: str) -> str:
    """Return "HOST:PORT" of an address to listen on; a port alone means 127.0.0.1.

    Errors   ValueError
    """
    host, separator, port = text.rpartition(":")
    if not separator:
        host = "127.0.0.1"
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return f"{host}:{int(port)}"


def ip_from_text(text: str) -> str:
    """Return an IP address, or "" as it is.

    Errors   ValueError
    """
    return str(ip_address(text)) if text else ""


def knob(
    default: Value,
    why: str,
    rocketmq: str = "",
    *,
    choices: tuple[str, ...] = (),
    lower: int = 0,
    upper: int = INT64_MAX,
    read: Callable[[str], Value] | None = None,
) -> Any:
    """Return a dataclass field that is one setting; `why` is shown in conf/broker.toml."""
    extra = {"why": why, "rocketmq": rocketmq, "choices": choices, "read": read}
    return field(default=default, metadata={**extra, "lower": lower, "upper": upper})


@dataclass(frozen=True, kw_only=True)
class StoreSection:
    """One directory with everything that outlives the process.

    Sizes hold for a new store: one that exists keeps its own unless the operator sets them.
    Fields are named as in StoreSettings.
    """

    directory: str = knob("./store", "Where the store lies.", "storePathRootDir")
    commit_log_file_size_bytes: int = knob(
        64 * MIB, "Length of each commit-log file.", "mappedFileSizeCommitLog",
        lower=COMMIT_LOG_FILE_SIZE_MIN,
    )  # fmt: skip
    consume_queue_file_size_bytes: int = knob(
        6_000_000, "Length of each consume-queue file, 20 bytes a message.",
        "mappedFileSizeConsumeQueue", lower=20,
    )  # fmt: skip
    index_slot_count: int = knob(
        200_000, "Hash slots of each index file.", "maxHashSlotNum", lower=1, upper=INT32_MAX
    )
    index_entry_count_max: int = knob(
        1_000_000, "Entries at which an index file is full.", "maxIndexNum",
        lower=INDEX_ENTRY_COUNT_MIN, upper=INT32_MAX,
    )  # fmt: skip
    index_style: str = knob(
        "5.5", "Which RocketMQ the index is written as: from 5.5 on tags are indexed too.",
        choices=STYLES,
    )  # fmt: skip
    time_zone: str = knob(
        "", 'Zone of index file names, such as "Europe/Berlin"; empty: the machine\'s.'
    )
    flush: str = knob(
        FLUSH_SYNC, "sync answers when a message is on disk, async when it is in memory.",
        "flushDiskType", choices=(FLUSH_SYNC, FLUSH_ASYNC),
    )  # fmt: skip
    flush_interval_ms: int = knob(
        500, "async: how often the commit log is flushed.", "flushIntervalCommitLog", lower=1
    )
    flush_least_pages: int = knob(
        4, "async: fewer dirty pages of 4 KiB wait for the thorough flush.",
        "flushCommitLogLeastPages",
    )  # fmt: skip
    flush_thorough_interval_ms: int = knob(
        10_000, "async: how often everything is flushed.", "flushCommitLogThoroughInterval", lower=1
    )
    sync_flush_timeout_ms: int = knob(
        5_000, "sync: when a producer is told FLUSH_DISK_TIMEOUT.", "syncFlushTimeout", lower=1
    )
    view_flush_interval_ms: int = knob(
        1_000, "How often consume queues are flushed.", "flushIntervalConsumeQueue", lower=1
    )
    view_flush_least_pages: int = knob(
        2, "Fewer dirty pages of a queue wait for the thorough flush.",
        "flushConsumeQueueLeastPages",
    )  # fmt: skip
    view_flush_thorough_interval_ms: int = knob(
        10_000, "How often queues and index are flushed and the checkpoint is written.",
        "flushConsumeQueueThoroughInterval", lower=1,
    )  # fmt: skip
    busy_timeout_ms: int = knob(
        1_000, "How long one write may hold the store before others are refused.",
        "osPageCacheBusyTimeOutMills", lower=1,
    )  # fmt: skip
    property_crc: bool = knob(
        False, "End each record with a CRC over all of it; costs 20 bytes.", "enabledAppendPropCRC"
    )
    delay_levels: str = knob(
        "", "Delays by level; empty: RocketMQ's 18, from 1s to 2h.", "messageDelayLevel"
    )


@dataclass(frozen=True, kw_only=True)
class BrokerSection:
    """What this broker is called and what it takes."""

    name: str = knob("broker-a", "Name of this broker.", "brokerName")
    cluster: str = knob(
        "DefaultCluster", "Name of its cluster, kept with each message.", "brokerClusterName"
    )
    advertised_host: str = knob(
        "", "IP address kept with each message; empty: the one listened on, or the machine's.",
        "brokerIP1", read=ip_from_text,
    )  # fmt: skip
    advertised_port: int = knob(
        0, "Its port; 0: the one listened on.", "listenPort", upper=PORT_MAX
    )
    permission: int = knob(
        6, "Sum of 4 (read) and 2 (write); 4 refuses all sends.", "brokerPermission", upper=7
    )
    auto_create_topics: bool = knob(
        True, "Make a topic when the first message for it comes.", "autoCreateTopicEnable"
    )
    default_queue_count: int = knob(
        8, "Queues of a topic made that way.", "defaultTopicQueueNums", lower=1, upper=1024
    )
    accept_from_ms: int = knob(
        0, "Refuse sends before this time, in ms since 1970.", "startAcceptSendRequestTimeStamp"
    )


@dataclass(frozen=True, kw_only=True)
class LimitsSection:
    """How much is too much."""

    max_message_size_bytes: int = knob(
        4 * MIB, "Largest body of a message, and of all messages of one request.",
        "maxMessageSize", lower=1, upper=INT32_MAX,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RpcSection:
    """The gRPC port."""

    listen: str = knob(
        "127.0.0.1:8081", "Where gRPC is served; port 0: any.", "listenPort", read=address_from_text
    )
    shutdown_grace_ms: int = knob(
        25_000, "How long calls may finish after SIGTERM; stays below the 30 s of Kubernetes."
    )


@dataclass(frozen=True, kw_only=True)
class HttpSection:
    """The HTTP port: metrics, health and version."""

    listen: str = knob(
        "127.0.0.1:5557", "Where HTTP is served; port 0: any.", read=address_from_text
    )


SECTIONS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        "store": StoreSection,
        "broker": BrokerSection,
        "limits": LimitsSection,
        "rpc": RpcSection,
        "http": HttpSection,
    }
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """All sections, who set which key ("store.flush" -> "--set"), and what to tell the operator."""

    store: StoreSection = StoreSection()
    broker: BrokerSection = BrokerSection()
    limits: LimitsSection = LimitsSection()
    rpc: RpcSection = RpcSection()
    http: HttpSection = HttpSection()
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def store_settings(self) -> StoreSettings:
        """Return what the store is told; sizes the operator did not set give way to the store's."""
        values = {item.name: getattr(self.store, item.name) for item in fields(self.store)}
        values["directory"] = Path(self.store.directory).expanduser()
        names = [key.partition(".") for key in self.origins]
        return StoreSettings(
            **values,
            cluster=self.broker.cluster,
            broker=self.broker.name,
            max_message_size_bytes=self.limits.max_message_size_bytes,
            explicit=frozenset(name for section, _, name in names if section == "store"),
        )


@dataclass(frozen=True)
class Knob:
    """One setting as data."""

    section: str
    name: str
    kind: type[Value]
    default: Value
    why: str
    rocketmq: str
    choices: tuple[str, ...]
    lower: int
    upper: int
    read: Callable[[str], Value] | None

    @property
    def key(self) -> str:
        """How the operator names it: section.name."""
        return f"{self.section}.{self.name}"

    def value_of(self, given: object) -> Value:
        """Return the value of a text, or of what TOML made of one.

        Errors   IllegalConfig
        """
        try:
            value = self._converted(given)
        except ValueError as error:
            raise IllegalConfig(field=self.key, why=str(error)) from error
        if self.choices and value not in self.choices:
            why = f"{value!r} is not one of {', '.join(self.choices)}"
            raise IllegalConfig(field=self.key, why=why)
        if isinstance(value, int) and not self.lower <= value <= self.upper:
            why = f"{given} is outside {self.lower} to {self.upper}"
            raise IllegalConfig(field=self.key, why=why)
        return value

    def _converted(self, given: object) -> Value:
        if isinstance(given, str):
            return self._from_text(given)
        if type(given) is not self.kind:
            raise ValueError(f"{given!r} is not {_KIND_NAMES[self.kind]}")
        assert isinstance(given, Value)
        return given

    def _from_text(self, text: str) -> Value:
        if self.read is not None:
            return self.read(text)
        if self.name.endswith("_bytes"):
            return size_from_text(text)
        if self.name.endswith("_ms"):
            return duration_from_text(text)
        if self.kind is bool:
            return _bool_from_text(text)
        if self.kind is int:
            return _int_from_text(text)
        return text


_KIND_NAMES: Final[Mapping[type[Value], str]] = {
    int: "a number",
    str: "a text",
    bool: "true or false",
}


def _bool_from_text(text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(f"{text!r} is not true or false")
    return word in TRUE_WORDS


def _int_from_text(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a number") from error


def _knobs_of(section: str, section_type: type[Any]) -> Iterator[Knob]:
    kinds = get_type_hints(section_type)
    for item in fields(section_type):
        default: Any = item.default
        yield Knob(
            section=section,
            name=item.name,
            kind=kinds[item.name],
            default=default,
            **item.metadata,
        )


KNOBS: Final[Mapping[str, Knob]] = MappingProxyType(
    {knob.key: knob for section, kind in SECTIONS.items() for knob in _knobs_of(section, kind)}
)
"""Every setting by its key."""
