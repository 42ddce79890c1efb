"""Which sizes an existing store has: as set, as `pocketmq/store.json` says, as its files show.

What none of them tells stays as in the settings, which hold for a new store. The style of the index
is found out later, when the log can be read (log/index_style.py).
"""

from dataclasses import replace
from typing import Any, Final

from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.format.names import INDEX_DIRECTORY
from broker.log.file_sizes import (
    commit_log_file_size,
    consume_queue_file_size,
    extension_file_size,
)
from broker.log.index_geometry import complete_geometry, find_geometry
from broker.log.store_manifest import StoreManifest
from broker.model.store_shape import RECORDED
from broker.store.settings import StoreSettings

_SLOTS: Final = "index_slot_count"
_ENTRIES: Final = "index_entry_count_max"


def fit_to_disk(
    settings: StoreSettings, manifest: StoreManifest | None, disk: Disk
) -> StoreSettings:
    """Return the settings with the shape that the store on disk has.

    Errors   UnknownGeometry
    Cost     reads index files only where neither settings nor manifest tell their geometry
    """
    known: dict[str, Any] = {}
    if manifest is not None:
        known = {name: getattr(manifest, name) for name in RECORDED}
    else:
        known = _found_sizes(settings, disk)
    chosen = {name: value for name, value in known.items() if name not in settings.explicit}
    return replace(settings, **chosen)


def _found_sizes(settings: StoreSettings, disk: Disk) -> dict[str, Any]:
    found: dict[str, Any] = {}
    log_size = commit_log_file_size(disk, settings.directory)
    if log_size:
        found["commit_log_file_size_bytes"] = log_size
    queue_size = consume_queue_file_size(disk, settings.directory)
    if queue_size:
        found["consume_queue_file_size_bytes"] = queue_size
    extension_size = extension_file_size(disk, settings.directory)
    if extension_size:
        found["consume_queue_extension"] = True
        found["consume_queue_extension_file_size_bytes"] = extension_size
    geometry = _found_geometry(settings, disk)
    if geometry is not None:
        found[_SLOTS], found[_ENTRIES] = geometry
    return found


def _found_geometry(settings: StoreSettings, disk: Disk) -> IndexGeometry | None:
    directory = settings.directory / INDEX_DIRECTORY
    stated = IndexGeometry.of(settings)
    set_fields = settings.explicit & {_SLOTS, _ENTRIES}
    if len(set_fields) == 2:
        return stated
    if _SLOTS in set_fields:
        return complete_geometry(disk, directory, slot_count=stated.slot_count)
    if _ENTRIES in set_fields:
        return complete_geometry(disk, directory, entry_count_max=stated.entry_count_max)
    return find_geometry(disk, directory, stated)
