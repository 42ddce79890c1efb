"""Store of a running broker: its files, and a map of the log by topic."""

from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from pocketmq.client import ClientError
from pocketmq.console import texts
from pocketmq.console.listing import cut, soon
from pocketmq.console.log_squares import CELL, NONE, OTHER, ROW, colours_of, legend_of, square_at
from pocketmq.console.web import Route, Visit
from pocketmq.model.administration import StoreMap

MAP_S: Final = 20.0
"""Least time for which a map is used again."""
HIDDEN: Final = "topics that you may not see"


class LogFileRow(NamedTuple):
    """A file of the log.

    begin       physical offset at which the file begins
    end         physical offset after its last message
    stored_ms   store time of the first part of the map that covers the file and has one; 0: none
    """

    name: str
    begin: int
    end: int
    stored_ms: int


async def store(page: Visit) -> Response:
    """Shows the store of a broker."""
    status = await page.client.admin.store_status()
    return page.render(
        "running_store.html", about=status, **_copy_values(page, status.directory),
        **await _map_values(page),
    )  # fmt: skip


async def live(page: Visit) -> Response:
    """Shows the map, once the broker has made it."""
    return page.render("running_store_map.html", **await _map_values(page))


async def copy_progress(page: Visit) -> Response:
    """Shows the part about the copy."""
    status = await page.client.admin.store_status()
    return page.render("running_store_copy.html", **_copy_values(page, status.directory))


async def begin_copy(page: Visit) -> Response:
    """Begins to copy the store to the console's copy directory; for admins."""
    copy = page.console.copy
    if copy is None or not page.offers.is_admin:
        return page.render("refused.html", HTTPStatus.FORBIDDEN, why="not an admin")
    status = await page.client.admin.store_status()
    copy.begin(status.directory)
    return page.redirect("/store")


def _copy_values(page: Visit, directory: str) -> dict[str, Any]:
    copy = page.console.copy
    target = copy.target if copy else "COPY"
    return {
        "copy": copy if page.offers.is_admin else None,
        "backup": texts.command("pocketmq", "store", "backup", directory, target),
        "check": texts.command("pocketmq", "store", "verify", target),
    }


async def _map_values(page: Visit) -> dict[str, Any]:
    try:
        found = await soon(page, "map", page.client.admin.map_store, MAP_S)
        is_offered = True
    except ClientError as error:
        if error.status != "UNIMPLEMENTED":
            raise
        found, is_offered = None, False
    values: dict[str, Any] = {"found": found, "is_offered": is_offered, "cell": CELL, "row": ROW}
    if found is None:
        return values
    from pocketmq.format.consume_unit import UNIT_SIZE  # With checksums, for this page alone.

    topics = [(one.name or HIDDEN, one.size_bytes) for one in found.topics]
    colours = colours_of(topics)
    squares = []
    for number, part in enumerate(found.parts):
        name = topics[part.topic][0] if part.topic >= 0 else ""
        text = f"byte {part.begin:,}: {texts.plain(name or 'no message was found')}"
        if part.stored_ms:
            text += f", {texts.moment(part.stored_ms)}"
        squares.append(square_at(number, colours.get(name, OTHER if name else NONE), text))
    files = log_files(found)
    values |= {
        "squares": squares, "keys": legend_of(topics), "files": cut(files[::-1], page),
        "edges": [squares[at] for at in _edges(found)],
        "times": [one.stored_ms for one in found.parts if one.stored_ms],
        "queue_bytes": found.queue_file_count * found.queue_file_size_bytes,
        "queue_used": found.queue_entry_count * UNIT_SIZE,
        "index_bytes": found.index_file_count * found.index_file_size_bytes,
        "index_entries_max": found.index_file_count * found.index_file_entries_max,
    }  # fmt: skip
    return values


def _edges(found: StoreMap) -> list[int]:
    """Returns the numbers of the map's parts that begin a file, except the first part.

    Returns [] if half of the parts or more begin a file.
    """
    size, parts = found.log_file_size_bytes, found.parts
    edges = [at for at, part in enumerate(parts) if at and part.begin % size == 0]
    return edges if 2 * len(edges) < len(parts) else []


def log_files(found: StoreMap) -> list[LogFileRow]:
    """Returns the files of the log, the oldest first; files that share a part have its time."""
    rows: dict[int, LogFileRow] = {}
    size = found.log_file_size_bytes
    for part in found.parts:
        for begin in range(part.begin // size * size, part.end, size):
            known = rows.get(begin)
            end = min(part.end, begin + size)
            stored_ms = (known.stored_ms if known else 0) or part.stored_ms
            rows[begin] = LogFileRow(f"{begin:020}", begin, end, stored_ms)
    return [*rows.values()]


ROUTES: Final = [
    Route("/store", store),
    Route("/store/map", live),
    Route("/store/copy/live", copy_progress),
    Route("/store/copy", begin_copy, is_action=True),
]
