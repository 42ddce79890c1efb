"""Begins an archive, and reads its moments."""

import json
from collections.abc import Iterator

from pocketmq.format.json_text import read_object
from pocketmq.format.names import NAMED_MS_MAX
from pocketmq.model.errors import NotAStore
from pocketmq.tools.archive.catalog import ARCHIVE_FILE, FORMAT, MOMENTS, Moment, hour_of, moment_of
from pocketmq.tools.archive.objects import Objects

_ENDING = ".json"


def check_format(objects: Objects) -> None:
    """Raises NotAStore unless the objects are an archive of this format."""
    names = objects.names("")
    why = f"it has no {ARCHIVE_FILE}: it is no archive" if names else "nothing is there"
    if ARCHIVE_FILE in names:
        try:
            found = read_object(b"".join(objects.get(ARCHIVE_FILE))).get("format")
        except ValueError:
            found = None
        if found == FORMAT:
            return
        why = f"its {ARCHIVE_FILE} has the format {found!r}, not {FORMAT!r}"
    raise NotAStore(path=objects.target, why=why)


def begin_archive(objects: Objects) -> None:
    """Checks that the objects are an archive; if there are none, begins an archive.

    Errors   NotAStore
    """
    names = objects.names("")
    if ARCHIVE_FILE in names:
        check_format(objects)
    elif names:
        why = f"it contains other files ({names[0]} …), and is no archive"
        raise NotAStore(path=objects.target, why=why)
    else:
        objects.put(ARCHIVE_FILE, [json.dumps({"format": FORMAT}).encode()])


def times_of(objects: Objects, hour: str) -> list[int]:
    """Returns the times of an hour's moments, in ms, ascending."""
    names = objects.names(f"{MOMENTS}/{hour}")
    numbers = (name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))
    return sorted(int(number) for number in numbers if number.isdecimal())


def read_moment(objects: Objects, time_ms: int) -> Moment:
    """Returns the moment of a time.

    Errors   FileNotFoundError; Corruption
    """
    name = f"{MOMENTS}/{hour_of(time_ms)}/{time_ms}{_ENDING}"
    return moment_of(b"".join(objects.get(name)), f"{objects.target}/{name}")


def first_moment(objects: Objects, hour: str) -> Moment | None:
    """Returns the first moment of an hour, None if it has none."""
    times = times_of(objects, hour)
    return read_moment(objects, times[0]) if times else None


def last_time(objects: Objects, at_ms: int | None = None) -> int | None:
    """Returns the time of the last moment at or before a time; None if there is none."""
    return next(_backwards(objects, at_ms), None)


def first_time(objects: Objects) -> int | None:
    """Returns the time of the first moment; None if there is none."""
    for hour in objects.names(MOMENTS):
        if times := times_of(objects, hour):
            return times[0]
    return None


def _backwards(objects: Objects, at_ms: int | None) -> Iterator[int]:
    for hour in reversed(objects.names(MOMENTS)):
        if at_ms is None or hour <= hour_of(min(at_ms, NAMED_MS_MAX)):
            times = times_of(objects, hour)
            yield from (time for time in reversed(times) if at_ms is None or time <= at_ms)
