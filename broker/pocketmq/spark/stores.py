"""Reads several stores as one table: paths with wildcards, and lists of paths."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pocketmq.backfill.source import StoreReader
from pocketmq.model.errors import NotAStore
from pocketmq.tools.archive.objects import S3_URL, URL_MARK
from pocketmq.tools.lake.catalog import MANIFEST, TABLE

LOCATION: Final = "location"
_HADOOPS_S3: Final = re.compile(r"^s3[an]://")
PATHS: Final = "paths"
"""Option with a JSON list, which Spark makes of `load([…])`."""

ARCHIVE: Final = "archive"
"""Option with the directory or URL of a lake, whose messages are added to those of the store."""


def archive_option(options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Returns the target of the lake to be read, "" for none, and the other options.

    A path that leads to a lake, or is a URL, is such a target.
    """
    target = next((text for name, text in options.items() if name.lower() == ARCHIVE), "")
    others = {name: text for name, text in options.items() if name.lower() != ARCHIVE}
    if not target:
        path = next((text for name, text in others.items() if name.lower() == "path"), "")
        if _is_lake(path):
            target = path
            others = {name: text for name, text in others.items() if name.lower() != "path"}
    return _HADOOPS_S3.sub(S3_URL, target), others


def _is_lake(path: str) -> bool:
    directory = path.removeprefix("file:")
    if directory == path and URL_MARK in path:
        return True
    return bool(directory) and any((Path(directory) / one).is_file() for one in (MANIFEST, TABLE))


def has_path(options: Mapping[str, str]) -> bool:
    """Returns whether a store is named."""
    return any(name.lower() in ("path", PATHS, LOCATION) for name in options)


def each_store(options: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns the options of each store, in the order of the paths.

    Errors   NotAStore: a wildcard matches nothing; ValueError: `paths` is no list of texts
    """
    paths, rest, location = [], {}, ""
    for name, text in options.items():
        if name.lower() == "path":
            paths.append(text)
        elif name.lower() == PATHS:
            paths += _listed(text)
        elif name.lower() == LOCATION:
            location = text
        else:
            rest[name] = text
    # Spark's catalog gives `path` when it makes a table, but only `location` when it reads it.
    found = [one for path in paths or [location] if path for one in _matching(path)]
    return [{**rest, "path": path} for path in dict.fromkeys(found)] or [dict(rest)]


def _listed(text: str) -> list[str]:
    paths = json.loads(text)
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"{PATHS} is {text!r}, no JSON list of paths")
    return paths


def _matching(path: str) -> list[str]:
    if not has_magic(path):
        return [path]
    found = sorted(glob(path))  # noqa: PTH207 - the pattern may begin anywhere
    if not found:
        raise NotAStore(path=path, why="no directory matches")
    return found


class StoresReader(DataSourceReader):
    """Reads several stores; the partitions of all stores run concurrently."""

    def __init__(self, readers: Sequence[StoreReader]) -> None:
        assert readers, "no store is read"
        self._readers = readers

    def partitions(self) -> list[InputPartition]:
        """Returns the partitions of all stores.

        Errors   NotAStore, WrongFileSize, StoreGap
        """
        return [
            InputPartition((number, part))
            for number, reader in enumerate(self._readers)
            for part in reader.partitions()
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a partition as `pyarrow.RecordBatch`es.

        Errors   Corruption, unless damage is reported as rows
        """
        if partition.value is not None:
            number, part = partition.value
            yield from self._readers[number].read(part)
