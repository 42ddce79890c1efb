"""Finds the messages that only one store has, as another broker was promoted in its place.

pocketmq/diverged/NAME@OFFSET    bytes that a follower cut off its log, from a record on
pocketmq/terms.json              the fence of a leader that still has its log's end
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from pocketmq.format.json_text import is_integer, read_object
from pocketmq.format.names import DIVERGED_DIRECTORY, OWN_DIRECTORY, TERMS_FILE
from pocketmq.model.decimal import number_of
from pocketmq.model.message import OFFSET_MAX, StoredMessage
from pocketmq.rebuild.log_files import LogFile, find_readable_files
from pocketmq.tools.selection import LogSearch, Selection

NOTE_SUFFIX: Final = ".json"


def diverged_messages(
    store: Path, file_size_bytes: int, selection: Selection
) -> Iterator[StoredMessage]:
    """Yields the messages, those that were set aside first; each part in the order of its log.

    file_size_bytes   size of the log's files
    selection         conditions for all messages; its `begin` applies only to those set aside
    Errors   those of `find_readable_files`; ValueError: terms.json is damaged
    """
    copies = (LogSearch([file], selection).messages() for file in copied_files(store))
    begin = fence_begin(store)
    if begin is None:
        return chain.from_iterable(copies)
    files, _ = find_readable_files(store, file_size_bytes)
    files = [file for file in files if file.end > begin]
    kept = LogSearch(files, replace(selection, begin=begin))
    return chain(chain.from_iterable(copies), kept.messages())


def copied_files(store: Path) -> list[LogFile]:
    """Returns the bytes that were set aside; a copy counts once its note exists."""
    found = []
    for path in sorted((store / OWN_DIRECTORY / DIVERGED_DIRECTORY).glob("*@*")):
        begin = number_of(path.name.partition("@")[2].partition("-")[0], OFFSET_MAX)
        size = path.stat().st_size
        if begin >= 0 and size and path.with_name(path.name + NOTE_SUFFIX).exists():
            found.append(LogFile(str(path), begin, size))
    return found


def fence_begin(store: Path) -> int | None:
    """Returns the physical offset from which on a fenced leader's records are only here.

    Errors   ValueError: terms.json is damaged
    """
    path = store / OWN_DIRECTORY / TERMS_FILE
    fence = read_object(path.read_bytes()).get("fence") if path.exists() else None
    if fence is None:
        return None
    if not isinstance(fence, list) or len(fence) < 2 or not is_integer(fence[1], 0, OFFSET_MAX):
        raise ValueError(f"the fence in {path} has no offset")
    return int(fence[1])
