"""Status of a store and of the broker process that runs the store."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from pocketmq import __version__, native
from pocketmq.model.administration import Member, StoreStatus
from pocketmq.model.consuming import Leased
from pocketmq.model.stats import Gauge
from pocketmq.native.commit import commit
from pocketmq.services.admin.topic_counts import RateOf, no_rate
from pocketmq.store.message_store import MessageStore
from pocketmq.store.pieces import in_pieces
from pocketmq.store.tables.topics import TopicTable

INDEX_FILES: Final = "pocketmq_index_files"


class Process(NamedTuple):
    """Callbacks into the broker process that runs a store.

    The defaults are for a store that is used without a broker.

    read_settings      returns (key, value, origin) of every setting
    drain              starts an orderly shutdown, and returns at once; None: not supported
    retention_status   returns `Retention.status`
    send_refusal       returns `Retention.send_refusal`
    store_host         packed address of the broker
    members_of         returns the consuming clients of a group
    read_leased        returns the counts of leased messages
    member_counts      returns the number of consuming clients by group
    rate_of            returns the messages sent to a topic in a second (`Rates.stored_tps`)
    """

    read_settings: Callable[[], Iterable[tuple[str, str, str]]] = tuple
    drain: Callable[[], None] | None = None
    retention_status: Callable[[], str] = lambda: "off"
    store_host: bytes = bytes(8)
    members_of: Callable[[str], list[Member]] = lambda group: []
    read_leased: Callable[[], Leased] = dict
    member_counts: Callable[[], Mapping[str, int]] = dict
    rate_of: RateOf = no_rate
    send_refusal: Callable[[], str] = str


async def store_status(store: MessageStore, process: Process) -> StoreStatus:
    """Returns the state, offsets and counts of a store.

    Cost     linear in topics and queues, in pieces
    """
    settings, tables = store.settings, store.tables
    queue_count, queue_file_count = await _queue_count(tables.topics), await _queue_files(store)
    _, used_bytes, free_bytes = store.disk_space()
    return StoreStatus(
        state=store.state,
        state_since_ms=store.state_since_ms,
        directory=str(settings.directory.absolute()),
        min_offset=store.min_offset,
        appended_offset=store.appended,
        flushed_offset=store.flushed,
        dispatched_offset=store.dispatched,
        flush_mode=settings.flush,
        version=__version__,
        modules=native.form(),
        commit=commit(),
        topic_count=tables.topics.count,
        queue_count=queue_count,
        group_count=tables.groups.count,
        cluster=settings.cluster,
        broker=settings.broker,
        retention_state=process.retention_status(),
        disk_free_bytes=free_bytes,
        disk_total_bytes=used_bytes + free_bytes,
        index_file_count=_gauge(store, INDEX_FILES),
        queue_file_count=queue_file_count,
        send_refusal=process.send_refusal(),
    )


async def _queue_count(topics: TopicTable) -> int:
    total = 0
    async for piece in in_pieces(topics.names()):
        found = [topics.find(name) for name in piece]  # None: it was deleted during a pause.
        total += sum(config.write_queue_count for config in found if config is not None)
    return total


async def _queue_files(store: MessageStore) -> int:
    total = 0
    async for piece in in_pieces([*store.views.queues.queues.values()]):
        total += sum(len(queue.files.files) for queue in piece)
    return total


def _gauge(store: MessageStore, name: str) -> int:
    for stat in store.stats:
        if stat.name == name and isinstance(stat, Gauge):
            shown = stat.read()
            return 0 if isinstance(shown, dict) else int(shown)
    return 0
