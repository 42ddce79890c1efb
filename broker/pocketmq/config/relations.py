"""Checks of relations between settings: contradictions are errors, doubts are warnings.

Each text contains all keys involved.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pocketmq.config.knob import INT32_MAX, Value
from pocketmq.config.port_sections import ON, OWN, RpcSection
from pocketmq.config.sections import KNOBS, Config
from pocketmq.config.units import GIB, HOUR_MS, KIB, text_from_size
from pocketmq.format.index_layout import IndexGeometry
from pocketmq.model.errors import IllegalConfig
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC

RECORD_OVERHEAD_BYTES: Final = 64 * KIB
"""Upper limit of bytes of a record in addition to its body."""

POOL_SIZE_USUAL: Final = 1 * GIB
"""Locked memory above which a warning is given."""
NEVER_PERCENT: Final = 100
"""Disk usage that is never exceeded: a threshold of 100 % switches its action off."""
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
"""Settings that have an effect only with a certain value of another setting."""
OWN_ALONE: Final[dict[str, Value]] = {
    "rpc.tls_cert": "",
    "rpc.proxy_protocol": False,
    "rpc.connection_age_ms": 0,
    "rpc.connection_idle_ms": 0,
    "rpc.connections_max": RpcSection.connections_max,
}
"""Settings that only the transport `own` supports, with the values that disable them."""
FLOORS: Final[dict[str, tuple[int, str]]] = {
    "retention.age_ms": (HOUR_MS, "messages would be removed soon after they arrived"),
}
"""Setting -> (minimum, effect of lower values); the value 0 is always allowed."""


def broken(config: Config) -> list[IllegalConfig]:
    """Returns the errors of contradictory settings."""
    return [
        IllegalConfig(
            field=key,
            why=f"{_stated(config, key)} and {_stated(config, other)} do not go together: {why}",
        )
        for key, other, why in _conflicts(config)
    ]


def too_low(config: Config) -> list[IllegalConfig]:
    """Returns the errors of settings below their floor, which only --force allows."""
    return [
        IllegalConfig(
            field=key,
            why=f"{KNOBS[key].text_of(config.value(key))} ({config.origin(key)}) "
            f"is below the floor of {KNOBS[key].text_of(floor)}: "
            f"{why}; raise it, or allow it with --force, which is for tests and development",
        )
        for key, (floor, why) in FLOORS.items()
        if 0 < int(config.value(key)) < floor
    ]


def doubts(config: Config) -> list[str]:
    """Returns warnings about settings that are allowed but probably not intended."""
    return [*_unused(config), *_sizes(config), *_switched_off(config)]


def unreadable(config: Config, key: str, error: OSError | ValueError) -> IllegalConfig:
    """Returns the error of a setting that names a file which cannot be read."""
    why = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return IllegalConfig(
        field=f"{key} ({config.origin(key)})", why=f"{config.value(key)} cannot be read: {why}"
    )


def unread(config: Config) -> list[str]:
    """Returns a warning for each file that a start with these settings could not read here."""
    return [str(error) for key in _files(config) if (error := _unread(config, key)) is not None]


def _files(config: Config) -> Iterator[str]:
    if config.rpc.tls:
        yield from ("rpc.tls_cert", "rpc.tls_key")
    if config.replication.leader and config.replication.user:
        yield "replication.secret_path"
    yield "access.admin_secret_path"


def _unread(config: Config, key: str) -> IllegalConfig | None:
    path = str(config.value(key))
    try:
        if path:
            Path(path).expanduser().read_bytes()
    except OSError as error:
        return unreadable(config, key, error)
    return None


def _conflicts(config: Config) -> Iterator[tuple[str, str, str]]:
    store, retention = config.store, config.retention
    if store.transient_pool and store.flush != FLUSH_ASYNC:
        why = "messages in the pool are not on disk, so it needs store.flush = async"
        yield "store.transient_pool", "store.flush", why
    if NEVER_PERCENT > retention.disk_expire_percent > retention.disk_force_percent:
        why = "messages must expire by age before files are removed regardless of age"
        yield "retention.disk_expire_percent", "retention.disk_force_percent", why
    if NEVER_PERCENT > retention.disk_force_percent > retention.disk_refuse_percent:
        why = "files must be removed before sends are refused"
        yield "retention.disk_force_percent", "retention.disk_refuse_percent", why
    size = IndexGeometry(store.index_slot_count, store.index_entry_count_max).file_size
    if size > INT32_MAX:
        why = f"an index file would have {size} bytes, but RocketMQ reads at most {INT32_MAX}"
        yield "store.index_slot_count", "store.index_entry_count_max", why
    yield from _network_conflicts(config)


def _network_conflicts(config: Config) -> Iterator[tuple[str, str, str]]:
    rpc, http = config.rpc, config.http
    rpc_host, _, rpc_port = rpc.listen.rpartition(":")
    http_host, _, http_port = http.listen.rpartition(":")
    is_shared = rpc_host == http_host or not EVERY_HOST.isdisjoint({rpc_host, http_host})
    if rpc_port == http_port != "0" and is_shared:
        why = "each needs an address of its own; with http.listen empty, rpc.listen serves both"
        yield "rpc.listen", "http.listen", why
    if bool(rpc.tls_cert) != bool(rpc.tls_key):
        why = "TLS needs both files: set both, or neither for the broker's own certificate"
        yield "rpc.tls_cert", "rpc.tls_key", why
    if rpc.tls_only and not rpc.tls:
        yield "rpc.tls_only", "rpc.tls", "no client could connect"
    if not http.listen and rpc.transport != OWN:
        yield "http.listen", "rpc.transport", "grpcio's port serves no HTTP/1.1"
    if rpc.classic == ON and rpc.transport != OWN:
        yield "rpc.classic", "rpc.transport", 'only the transport "own" serves classic clients'
    for key, value in OWN_ALONE.items():
        if rpc.transport != OWN and config.value(key) != value:
            yield key, "rpc.transport", 'only the transport "own" supports it'


def _stated(config: Config, key: str) -> str:
    text = KNOBS[key].text_of(config.value(key)) or '""'
    return f"{key} = {text} ({config.origin(key)})"


def _unused(config: Config) -> Iterator[str]:
    for key, (other, value) in NEEDED.items():
        is_changed = key in config.origins and config.value(key) != KNOBS[key].default
        if is_changed and config.value(other) != value:
            wanted = KNOBS[other].text_of(value)
            yield f"{key} has no effect without {other} = {wanted}"


def _sizes(config: Config) -> Iterator[str]:
    store, retention = config.store, config.retention
    body_size = config.limits.max_message_size_bytes
    file_size = store.commit_log_file_size_bytes
    file_text = f"store.commit_log_file_size_bytes = {text_from_size(file_size)}"
    if body_size + RECORD_OVERHEAD_BYTES > file_size:
        yield (
            f"limits.max_message_size_bytes = {text_from_size(body_size)} allows messages that do "
            f"not fit a log file with their properties ({file_text}): these are refused"
        )
    pool_size = store.transient_pool_file_count * file_size
    if store.transient_pool and pool_size > POOL_SIZE_USUAL:
        yield (
            f"the pool locks {text_from_size(pool_size)} of memory: "
            f"store.transient_pool_file_count = {store.transient_pool_file_count} buffers, each as "
            f"large as a log file ({file_text})"
        )
    if 0 < retention.size_bytes < file_size:
        yield (
            f"retention.size_bytes = {text_from_size(retention.size_bytes)} cannot be met: the "
            f"file being written is never removed, and it has {file_text}"
        )


def _switched_off(config: Config) -> Iterator[str]:
    others = [k for k in config.origins if k.startswith("retention.") and k != "retention.mode"]
    if config.retention.mode == "off" and others:
        yield f"retention.mode = off: no message expires; without effect: {', '.join(others)}"
    if config.rpc.tls_cert and not config.rpc.tls:
        yield "rpc.tls = false: the certificate of rpc.tls_cert is not used"
