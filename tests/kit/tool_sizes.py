"""File sizes of golden stores that offline tools need before they open the files."""

from dataclasses import fields

from pocketmq.format.index_layout import IndexGeometry
from pocketmq.model.store_shape import StoreShape
from pocketmq.rebuild.log_files import KnownShape
from tests.golden_stores import GoldenStores


def known_shape(
    log_file_bytes: int, queue_file_bytes: int, geometry: IndexGeometry, style: str = "5.5",
    time_zone: str = "",
) -> KnownShape:  # fmt: skip
    """The shape of a store whose files show no more."""
    return KnownShape(
        commit_log_file_size_bytes=log_file_bytes,
        consume_queue_file_size_bytes=queue_file_bytes,
        index_slot_count=geometry.slot_count,
        index_entry_count_max=geometry.entry_count_max,
        index_style=style,
        time_zone=time_zone,
    )


def shape_of(settings: StoreShape) -> KnownShape:
    """The shape that a store was made with."""
    return KnownShape(**{field.name: getattr(settings, field.name) for field in fields(StoreShape)})


def golden_tool_sizes(golden: GoldenStores, name: str) -> KnownShape:
    """The file sizes with which a store was written."""
    return KnownShape(**golden.shape(name))
