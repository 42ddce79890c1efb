"""The store as a whole, and the process around it: status, flush, settings, the end."""

from typing import Final

from broker import __version__
from broker.model.errors import UnsupportedFeature
from broker.model.stats import Gauge
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.v1.admin.needs import GroupTable, Process, Store, TopicTable

INDEX_FILES: Final = "pocketmq_index_files"
QUEUE_FILES: Final = "pocketmq_consume_queue_files"


class StateMethods:
    """The methods about the store and its process."""

    __slots__ = ("_groups", "_process", "_store", "_topics")

    def __init__(
        self, groups: GroupTable, *, store: Store, topics: TopicTable, process: Process
    ) -> None:
        self._groups = groups
        self._store = store
        self._topics = topics
        self._process = process

    def store_status(self, request: pb.StoreStatusRequest, call: Call) -> pb.StoreStatusResponse:
        """Return what the store is doing and how far it has come."""
        store, settings = self._store, self._store.settings
        names = self._topics.names()
        configs = [config for config in map(self._topics.find, names) if config is not None]
        disk_free_bytes, disk_total_bytes = store.disk_usage()
        return pb.StoreStatusResponse(
            state=store.state,
            state_since_ms=store.state_since_ms,
            directory=str(settings.directory),
            min_offset=store.min_offset,
            appended_offset=store.appended,
            flushed_offset=store.flushed,
            dispatched_offset=store.dispatched,
            flush_mode=settings.flush,
            version=__version__,
            topic_count=len(configs),
            queue_count=sum(config.write_queue_count for config in configs),
            group_count=len(self._groups.names()),
            cluster=settings.cluster,
            broker=settings.broker,
            retention_state=store.retention_status(),
            disk_free_bytes=disk_free_bytes,
            disk_total_bytes=disk_total_bytes,
            index_file_count=self._gauge(INDEX_FILES),
            queue_file_count=self._gauge(QUEUE_FILES),
        )

    async def flush(self, request: pb.FlushRequest, call: Call) -> pb.FlushResponse:
        """Make everything durable that was appended before.

        Errors   FsyncFailed
        """
        return pb.FlushResponse(flushed_offset=await self._store.flush())

    def effective_config(
        self, request: pb.EffectiveConfigRequest, call: Call
    ) -> pb.EffectiveConfigResponse:
        """Return every setting as it holds now, and where it comes from."""
        rows = [
            pb.ConfigRow(key=key, value=value, origin=origin)
            for key, value, origin in self._process.read_settings()
        ]
        return pb.EffectiveConfigResponse(rows=rows)

    def drain(self, request: pb.DrainRequest, call: Call) -> pb.DrainResponse:
        """Ask the broker to end in order; it takes nothing new from then on.

        Errors   UnsupportedFeature: nobody here can end it
        """
        if self._process.drain is None:
            raise UnsupportedFeature(feature="an end by request")
        self._process.drain()
        return pb.DrainResponse()

    def _gauge(self, name: str) -> int:
        """Return what a gauge without labels shows now, 0 where there is none."""
        for stat in self._store.stats:
            if stat.name == name and isinstance(stat, Gauge):
                shown = stat.read()
                return 0 if isinstance(shown, dict) else int(shown)
        return 0
