"""Settings that do not go together: refused, or allowed and doubted.

Each relation is a function of the whole configuration; `broken` and `doubts` ask them all. The text
names every key that is part of it.
"""

from collections.abc import Callable, Iterator
from typing import Final

from broker.config.knob import INT32_MAX, Value
from broker.config.sections import KNOBS, Config
from broker.config.units import GIB, KIB, text_from_size
from broker.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from broker.model.errors import IllegalConfig
from broker.store.settings import FLUSH_ASYNC, FLUSH_SYNC

RECORD_OVERHEAD_BYTES: Final = 64 * KIB
"""What a record may hold besides its body (store-format.md 2.4)."""

POOL_SIZE_USUAL: Final = 1 * GIB
"""Locked memory that a machine for a broker is known to have."""
EVERY_HOST: Final = frozenset({"0.0.0.0", "[::]"})

_ASYNC: Final = ("store.flush", FLUSH_ASYNC)
_POOL: Final = ("store.transient_pool", True)
NEEDED: Final[dict[str, tuple[str, Value]]] = {
    "store.flush_interval_ms": _ASYNC,
    "store.flush_least_pages": _ASYNC,
    "store.flush_thorough_interval_ms": _ASYNC,
    "store.sync_flush_timeout_ms": ("store.flush", FLUSH_SYNC),
    "store.transient_pool_file_count": _POOL,
    "store.commit_interval_ms": _POOL,
    "store.commit_least_pages": _POOL,
    "store.commit_thorough_interval_ms": _POOL,
}
"""Settings that count only while another one has a value."""


def broken(config: Config) -> list[IllegalConfig]:
    """Return what must not be together."""
    found = (relation(config) for relation in _RELATIONS)
    return [problem for problem in found if problem is not None]


def doubts(config: Config) -> list[str]:
    """Return what is allowed but will probably not do what was meant."""
    return [*_unused(config), *_large_messages(config), *_large_pool(config), *_retention(config)]


def _pool_and_flush(config: Config) -> IllegalConfig | None:
    if not config.store.transient_pool or config.store.flush == FLUSH_ASYNC:
        return None
    return _refusal(
        config, "store.transient_pool", "store.flush",
        "what lies in the pool is not on disk, so it needs store.flush = async",
    )  # fmt: skip


def _expire_and_force(config: Config) -> IllegalConfig | None:
    retention = config.retention
    if retention.disk_expire_percent <= retention.disk_force_percent:
        return None
    return _refusal(
        config, "retention.disk_expire_percent", "retention.disk_force_percent",
        "messages must expire by age before files go whatever their age",
    )  # fmt: skip


def _force_and_refuse(config: Config) -> IllegalConfig | None:
    retention = config.retention
    if retention.disk_force_percent <= retention.disk_refuse_percent:
        return None
    return _refusal(
        config, "retention.disk_force_percent", "retention.disk_refuse_percent",
        "files must go before sends are refused",
    )  # fmt: skip


def _index_file_size(config: Config) -> IllegalConfig | None:
    store = config.store
    size = HEADER_SIZE + store.index_slot_count * SLOT_SIZE
    size += store.index_entry_count_max * ENTRY_SIZE
    if size <= INT32_MAX:
        return None
    return _refusal(
        config, "store.index_slot_count", "store.index_entry_count_max",
        f"an index file of {size} bytes would be longer than RocketMQ can read, {INT32_MAX}",
    )  # fmt: skip


def _ports(config: Config) -> IllegalConfig | None:
    rpc_host, _, rpc_port = config.rpc.listen.rpartition(":")
    http_host, _, http_port = config.http.listen.rpartition(":")
    is_shared = rpc_host == http_host or not EVERY_HOST.isdisjoint({rpc_host, http_host})
    if rpc_port != http_port or rpc_port == "0" or not is_shared:
        return None
    return _refusal(config, "rpc.listen", "http.listen", "each needs an address of its own")


_RELATIONS: Final[tuple[Callable[[Config], IllegalConfig | None], ...]] = (
    _pool_and_flush,
    _expire_and_force,
    _force_and_refuse,
    _index_file_size,
    _ports,
)


def _refusal(config: Config, key: str, other: str, why: str) -> IllegalConfig:
    pair = f"{_stated(config, key)} and {_stated(config, other)}"
    return IllegalConfig(field=key, why=f"{pair} do not go together: {why}")


def _stated(config: Config, key: str) -> str:
    return f"{key} = {KNOBS[key].text_of(config.value(key))} ({config.origin(key)})"


def _unused(config: Config) -> Iterator[str]:
    for key, (other, value) in NEEDED.items():
        is_changed = key in config.origins and config.value(key) != KNOBS[key].default
        if is_changed and config.value(other) != value:
            wanted = KNOBS[other].text_of(value)
            yield f"{key} counts only with {other} = {wanted}, which is not so"


def _large_messages(config: Config) -> Iterator[str]:
    body_size = config.limits.max_message_size_bytes
    file_size = config.store.commit_log_file_size_bytes
    if body_size + RECORD_OVERHEAD_BYTES > file_size:
        yield (
            f"messages may have limits.max_message_size_bytes = {text_from_size(body_size)}, but "
            f"one that does not fit store.commit_log_file_size_bytes = {text_from_size(file_size)} "
            "with its properties is refused"
        )


def _large_pool(config: Config) -> Iterator[str]:
    store = config.store
    size = store.transient_pool_file_count * store.commit_log_file_size_bytes
    if store.transient_pool and size > POOL_SIZE_USUAL:
        yield (
            f"the pool locks {text_from_size(size)} of memory: "
            f"store.transient_pool_file_count = {store.transient_pool_file_count} times "
            f"store.commit_log_file_size_bytes = {text_from_size(store.commit_log_file_size_bytes)}"
        )


def _retention(config: Config) -> Iterator[str]:
    retention, file_size = config.retention, config.store.commit_log_file_size_bytes
    if 0 < retention.size_bytes < file_size:
        yield (
            f"retention.size_bytes = {text_from_size(retention.size_bytes)} cannot be kept: the "
            "file that is written to never goes, and it has store.commit_log_file_size_bytes = "
            f"{text_from_size(file_size)}"
        )
    others = [k for k in config.origins if k.startswith("retention.") and k != "retention.mode"]
    if retention.mode == "off" and others:
        yield f"retention.mode = off: no message expires, whatever {', '.join(others)} say"
