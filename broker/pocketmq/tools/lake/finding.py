"""Finds how a lake is published: by its manifest, or as an Iceberg table, which needs pyiceberg."""

from importlib.util import find_spec
from typing import Final

from pocketmq.model.errors import Corruption, NotAStore
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.archive.summed_json import decode_summed, encode_summed
from pocketmq.tools.lake.catalog import METADATA, TABLE, Manifest
from pocketmq.tools.lake.publishing import OwnManifest, Published, TableName

TABLE_FORMAT: Final = "pocketmq table 1"


def find_published(objects: Objects) -> tuple[Published, Manifest] | None:
    """Returns how a lake is published, and its content; None if the place has no lake.

    Errors   ImportError: the lake is an Iceberg table, and pyiceberg is missing; NotAStore,
             Corruption, OSError
    """
    own = OwnManifest(objects)
    if (manifest := own.read()) is not None:
        return own, manifest
    try:
        content = b"".join(objects.get(TABLE))
    except FileNotFoundError:
        return None
    try:
        document = decode_summed(content, TABLE_FORMAT)
        name = TableName(document["catalog"], document["table"])
    except (ValueError, KeyError) as error:
        why = f"it is not what `pocketmq archive run` wrote: {error}"
        path = f"{objects.target}/{TABLE}"
        raise Corruption(path=path, file_position=0, physical_offset=0, why=why) from error
    table = _table_of(objects, name)
    found = table.read()
    if found is None and any(one.endswith(".avro") for one in objects.names(METADATA)):
        # Only a table that exists gets such files: this is not a killed first commit.
        where = (
            f"catalog {name.catalog} has no table {name.table}" if name.catalog else "no version"
        )
        why = f"its Iceberg table is missing ({where}), but {METADATA}/ has files of its commits"
        raise NotAStore(path=objects.target, why=why)
    return table, found or Manifest()


def new_table(objects: Objects, name: TableName) -> tuple[Published, Manifest]:
    """Makes a place an Iceberg table, without files yet; returns what find_published does.

    Errors   ImportError: pyiceberg is missing; NotAStore: the catalog has another table of this
             name; OSError; DiskFull
    """
    table = _table_of(objects, name)
    content = table.read() or Manifest()
    objects.put(TABLE, [encode_summed(TABLE_FORMAT, name._asdict())])
    return table, content


def _table_of(objects: Objects, name: TableName) -> Published:
    if find_spec("pyiceberg") is None:
        text = f"{objects.target} is an Iceberg table, which needs pyiceberg"
        raise ImportError(text, name="pyiceberg")
    from pocketmq.tools.lake.iceberg import IcebergTable

    return IcebergTable(objects, name)
