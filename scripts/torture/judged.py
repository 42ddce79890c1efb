"""Opens RocketMQ's store with PocketMQ, and compares each step with RocketMQ's answers.

A step's outcome is "" if all answers agree, else the difference. "Ours" is PocketMQ, the "real
broker" RocketMQ.
"""

import asyncio
import hashlib
import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.process import ROOT, Failed, ended, module, running, serve
from pocketmq.client import AsyncClient, ClientError, KeyQuery, Message, PullQuery
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
)
from pocketmq.model.message import FLAG_COMPRESSED, StoredMessage
from torture.real_broker import Document

COMMAND_S: Final = 240
SHOWN_MAX: Final = 160
ANSWER_MAX: Final = 32
"""Hits of a key after which a real broker stops its search."""

MULTI_DISPATCH: Final = "%LMQ%"
UNIT_SIZE: Final = 20
SLOT_COUNT: Final = slice(32, 36)
"""Bytes of an index file's header: number of used slots; before 4.7.0, of entries."""
CATCH_UP_S: Final = 60
OURS: Final = 24
"""Messages that PocketMQ sends to the real broker's store."""

TOPIC: Final = "orders"
QUEUE_COUNT: Final = 3
KEPT: Final = ("commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
"""Directories that a start, reads and a stop must leave unchanged."""

Queue = tuple[str, int]


@dataclass
class Truth:
    """Answers of a real broker about a store: messages by queue, bounds, hits of queries."""

    queues: dict[Queue, list[Document]] = field(default_factory=dict)
    bounds: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    answers: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    """Physical offsets by ("key" or "id", topic, key)."""

    def __post_init__(self) -> None:
        assert not self.queues, "queues are filled by add()"

    def add(self, told: Iterable[Document]) -> None:
        """Replaces the answers by those of a later run of a broker, which reads the whole store."""
        self.queues, self.bounds, self.answers = {}, {}, {}
        for document in told:
            kind = document.pop("kind")
            if kind in ("key", "id"):
                self.answers[kind, document["topic"], document["key"]] = document["found"]
                continue
            queue = (document.pop("from"), document.pop("from_queue"))
            if kind == "queue":
                self.bounds[queue] = (document["min"], document["max"])
                self.queues[queue] = []
            else:
                if queue[0].startswith(MULTI_DISPATCH):
                    del document["queue_id"]  # The client sets it to the requested queue.
                self.queues[queue].append(document)

    @property
    def message_count(self) -> int:
        """Number of messages in all queues."""
        return sum(map(len, self.queues.values()))

    @property
    def last_place(self) -> int:
        """Physical offset of the last message."""
        places: list[int] = [m["physical_offset"] for own in self.queues.values() for m in own]
        return max([*places, *(place for found in self.answers.values() for place in found)])

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The (topic, key) pairs that were looked up."""
        return [(topic, key) for kind, topic, key in self.answers if kind == "key"]

    def carrying(self, kind: str, topic: str, key: str) -> list[int]:
        """Returns the physical offsets of a topic's messages that have a key, or an id."""
        found = set()
        for message in (m for own in self.queues.values() for m in own if m["topic"] == topic):
            names = message["properties"]
            keys = names.get("KEYS", "").split() if kind == "key" else [names.get("UNIQ_KEY")]
            if key in keys:
                found.add(message["physical_offset"])
        return sorted(found)


def as_told(message: StoredMessage) -> Document:
    """Returns a message as a document with the real broker's field names."""
    names = """topic queue_id queue_offset physical_offset store_size flag body_crc
    born_timestamp_ms store_timestamp_ms reconsume_times prepared_transaction_offset"""
    own = {n: v for n, v in message.properties.items() if n not in ("MIN_OFFSET", "MAX_OFFSET")}
    return {
        **{name: getattr(message, name) for name in names.split()},
        "properties": own,
        "system_flag": message.system_flag & ~FLAG_COMPRESSED,
        "body_sha1": hashlib.sha1(message.body, usedforsecurity=False).hexdigest(),
        "born_host": _host(message.born_host),
        "store_host": _host(message.store_host),
    }


def _host(packed: bytes) -> str:
    return f"{packed[:-4].hex()}:{int.from_bytes(packed[-4:])}"


def difference(wanted: Sequence[Document], found: Sequence[Document], *, more: bool = False) -> str:
    """Returns the first difference, "" if none; with `more`, `found` may be longer."""
    for number, (one, other) in enumerate(zip(wanted, found, strict=False)):
        names = [name for name in one if one[name] != other.get(name)]
        if names:
            name = names[0]
            return f"message {number}: {name} is {other.get(name)!r}, not {one[name]!r}"[:SHOWN_MAX]
    if len(found) < len(wanted) or (len(found) > len(wanted) and not more):
        return f"{len(found)} messages, not {len(wanted)}"
    return ""


def counted(wrong: Sequence[str], of: int, what: str) -> str:
    """Returns the outcome of a step of many comparisons: "", or the number of errors and one."""
    return f"{len(wrong)} of {of} {what}: {wrong[0]}" if wrong else ""


class Ours:
    """PocketMQ's broker and tools on one directory."""

    def __init__(self, directory: Path, settings: Sequence[str]) -> None:
        self.directory = directory
        self._settings = settings
        assert directory.is_dir(), f"{directory} is missing"

    def tool(self, *arguments: str) -> tuple[int, str, str]:
        """Runs a command on the store; returns its exit code and output."""
        given = [word for setting in self._settings for word in ("--set", setting)]
        done = subprocess.run(
            module("pocketmq", *arguments, *given), capture_output=True, text=True, cwd=ROOT,
            check=False, timeout=COMMAND_S,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def verified(self) -> str:
        """Step: `store verify` finds nothing."""
        code, out, said = self.tool("store", "verify", str(self.directory), "-o", "json")
        if code:
            return f"exit code {code}: {_last_error(said)}"
        return "" if not json.loads(out)["findings"] else "queues or index are absent"

    def rebuilt(self, out: Path, *, has_index: bool = True) -> str:
        """Step: `store rebuild` writes the same bytes as the real broker.

        has_index   whether the real broker has an index; PocketMQ always writes one
        """
        arguments = ("store", "rebuild", str(self.directory), "--out", str(out), "--yes")
        code, _, said = self.tool(*arguments)
        if code:
            return f"exit code {code}: {_last_error(said)}"
        begin = min(int(path.name) for path in (self.directory / "commitlog").iterdir())
        wanted, found = view_files(self.directory), view_files(out)
        every = wanted.keys() | found.keys()
        names = sorted(n for n in every if has_index or not n.startswith(INDEX_DIRECTORY))
        pairs = [
            (name, _content(wanted, name, begin), _content(found, name, begin)) for name in names
        ]
        wrong = [told for pair in pairs if (told := _unequal(*pair))]
        return counted(wrong, len(names), "files")

    def served(self, work: Callable[[AsyncClient], Any]) -> Any:
        """Serves the store, runs a client's `work`, stops in order; returns the results.

        Errors   AssertionError: the broker did not start, or not stop in order
        """
        log = self.directory.with_suffix(".log")
        try:
            with running(serve(self.directory, *self._settings), log) as broker:
                result = asyncio.run(_with_client(broker.ready["grpc"], work))
                broker.process.terminate()
                code = broker.process.wait(COMMAND_S)
        except Failed as why:
            raise AssertionError(f"does not start: {_last_error(log.read_text('utf-8'))}") from why
        assert code == 0, f"stops with {code}: {_last_error(log.read_text('utf-8'))}"
        return result


def _last_error(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("Error:")] or lines[-1:]
    return (errors[0] if errors else "it said nothing")[:SHOWN_MAX]


async def _with_client(endpoint: str, work: Callable[[AsyncClient], Any]) -> Any:
    async with AsyncClient(endpoint, timeout_ms=60_000, retry_ms=0) as client:
        return await work(client)


def view_files(directory: Path) -> dict[str, Path]:
    """Returns the files of views by name; index files, named by the clock, are numbered."""
    found = {}
    for name in (CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY, INDEX_DIRECTORY):
        paths = sorted(path for path in (directory / name).rglob("*") if path.is_file())
        for number, path in enumerate(paths):
            is_index = name == INDEX_DIRECTORY
            found[f"index/#{number}" if is_index else str(path.relative_to(directory))] = path
    return found


def _content(files: dict[str, Path], name: str, begin: int) -> bytes:
    """Returns a file's bytes; in a queue file without units of records before the log's begin."""
    content = files[name].read_bytes() if name in files else b""
    if not name.startswith(f"{CONSUME_QUEUE_DIRECTORY}/") or begin == 0:
        return content
    units = (content[at : at + UNIT_SIZE] for at in range(0, len(content), UNIT_SIZE))
    return b"".join(unit for unit in units if int.from_bytes(unit[:8]) >= begin)


def _unequal(name: str, one: bytes, other: bytes) -> str:
    if one == other:
        return ""
    if not one or not other:
        return f"{name} is {'missing' if one else 'more'}"
    if name.startswith(INDEX_DIRECTORY) and _without_count(one) == _without_count(other):
        return f"{name} has another count of slots in its header"
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return f"{name} differs from byte {min(len(one), len(other)) if at is None else at}"


def _without_count(index: bytes) -> bytes:
    """Returns an index file without the slot count in its header, which brokers do not read."""
    return index[: SLOT_COUNT.start] + index[SLOT_COUNT.stop :]


def left_as_it_was(before: Path, directory: Path, *, has_index: bool = True) -> str:
    """Step: a start, reads and a stop changed no existing byte of log, queues and index.

    Due messages may be delivered meanwhile, by which log, queues and index grow.

    has_index   whether the real broker has an index; PocketMQ always writes one
    """
    old, now = kept_files(before), kept_files(directory)
    if not has_index:
        now = {name: now[name] for name in now if not name.startswith(INDEX_DIRECTORY)}
    logs = [name for name in old if name.startswith(COMMIT_LOG_DIRECTORY)]
    has_grown = any(name not in now or old[name] != now[name] for name in logs)
    if not has_grown:
        wrong = [name for name in sorted(old | now) if old.get(name) != now.get(name)]
        return counted(wrong, len(old | now), "files")
    appended = [name for name in sorted(old) if not name.startswith(INDEX_DIRECTORY)]
    wrong = [n for n in appended if not now.get(n, b"").startswith(old[n].rstrip(b"\0"))]
    return counted(wrong, len(old), "files")


def kept_files(directory: Path) -> dict[str, bytes]:
    """Returns the content of the files that a start must not change."""
    paths = [path for name in KEPT for path in (directory / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


# --- what clients ask ---------------------------------------------------------------------------


async def read_queue(client: AsyncClient, queue: Queue, bounds: tuple[int, int]) -> list[Document]:
    """Pulls a queue from its first message to its last."""
    found: list[Document] = []
    at, end = bounds
    while at < end:
        page = await client.admin.pull(PullQuery(*queue, at, max_messages=min(end - at, 1024)))
        found += map(as_told, page.messages)
        if page.next_begin_offset <= at:
            return found
        at = page.next_begin_offset
    return found


async def compare_all(truth: Truth, has_index: bool, client: AsyncClient) -> dict[str, str]:
    """Steps: the store accepts sends, serves all messages, and finds the same by keys and ids.

    has_index   whether the real broker has an index; without one it finds no message by key, and
                PocketMQ finds all that have the key
    """
    status = await client.admin.store_status()
    state = "" if status.state.upper().endswith("RUNNING") else f"state {status.state}"
    wrong = []
    for queue, wanted in truth.queues.items():
        try:
            told = difference(wanted, await read_queue(client, queue, truth.bounds[queue]))
        except ClientError as error:
            told = f"{error.reason}: {error.message}"[:SHOWN_MAX]
        wrong += [f"{queue[0]}/{queue[1]}: {told}"] if told else []
    lost, last = [], truth.last_place
    for (kind, topic, key), told_offsets in truth.answers.items():
        offsets = told_offsets if has_index else truth.carrying(kind, topic, key)
        all_found = await physical_offsets(client, kind, topic, key)
        found = [place for place in all_found if place <= last]  # Later ones were due meanwhile.
        is_cut = len(offsets) >= ANSWER_MAX
        if found != offsets and not (is_cut and set(offsets) <= set(found)):
            lost.append(f"{kind} {key!r} of {topic}: {found[:4]}, not {offsets[:4]}")
    return {
        "opened": state,
        "served": counted(wrong, len(truth.queues), "queues"),
        "keys": counted(lost, len(truth.answers), "answers"),
    }


async def physical_offsets(client: AsyncClient, kind: str, topic: str, key: str) -> list[int]:
    """Returns the physical offsets of the messages with a key, or of the message with an id."""
    try:
        if kind == "id":
            return [(await client.admin.query_by_id(topic, key)).physical_offset]
        page = await client.admin.query_by_key(KeyQuery(topic, key))
        found = [message.physical_offset for message in page.messages]
        while page.next_cursor:
            query = KeyQuery(topic, key, page_token=page.next_cursor)
            page = await client.admin.query_by_key(query)
            found += [message.physical_offset for message in page.messages]
    except ClientError:
        return []
    return sorted(found)


async def caught_up(client: AsyncClient) -> None:
    """Waits until all messages are dispatched to queues and index.

    Errors   TimeoutError
    """
    async with asyncio.timeout(CATCH_UP_S):
        status = await client.admin.store_status()
        while status.dispatched_offset < status.appended_offset:
            await asyncio.sleep(0.05)
            status = await client.admin.store_status()


async def go_on(truth: Truth, client: AsyncClient) -> tuple[str, dict[Queue, list[Document]]]:
    """Step: messages sent to the real broker's queues can be read, and found by key."""
    ends = {q: truth.bounds.get((TOPIC, q), (0, 0))[1] for q in range(QUEUE_COUNT)}
    for number in range(OURS):
        queue_id = number % QUEUE_COUNT
        message = Message(
            TOPIC, f"ours {number} ☂".encode(), tag="ours", keys=[f"ours-{number}"],
            queue_id=queue_id,
        )  # fmt: skip
        receipt = await client.send(message)
        due = ends[queue_id] + number // QUEUE_COUNT
        if receipt.queue_offset != due:
            return f"{TOPIC}/{queue_id}: offset {receipt.queue_offset}, not {due}", {}
    sent = {}
    await caught_up(client)
    for queue_id, end in ends.items():
        queue = (TOPIC, queue_id)
        sent[queue] = await read_queue(client, queue, (end, end + OURS // QUEUE_COUNT))
        if len(sent[queue]) != OURS // QUEUE_COUNT:
            return f"{TOPIC}/{queue_id}: {len(sent[queue])} of ours can be read", sent
    for number in range(OURS):
        if len(await physical_offsets(client, "key", TOPIC, f"ours-{number}")) != 1:
            return f"key ours-{number} is not found", sent
    return "", sent


def taken_back(
    truth: Truth, ours: dict[Queue, list[Document]], after: Truth, *, has_index: bool
) -> str:
    """Step: the real broker serves its own and PocketMQ's messages, and finds keys of both."""
    wrong = []
    for queue, messages in truth.queues.items():
        wanted = [*messages, *ours.get(queue, [])]
        told = difference(wanted, after.queues.get(queue, []), more=True)
        wrong += [f"{queue[0]}/{queue[1]}: {told}"] if told else []
    for (kind, topic, key), offsets in truth.answers.items():
        found = after.answers.get((kind, topic, key))
        if found is not None and len(offsets) < ANSWER_MAX and not set(offsets) <= set(found):
            wrong.append(f"{kind} {key!r} of {topic}: {found[:4]}, not {offsets[:4]}")
    for number in range(OURS if has_index else 0):
        found = after.answers.get(("key", TOPIC, f"ours-{number}"))
        if found is not None and len(found) != 1:
            wrong.append(f"our key ours-{number}: {found}")
    return counted(wrong, len(truth.queues) + len(after.answers), "queues and keys")


def reading(truth: Truth, *, has_index: bool) -> Callable[[AsyncClient], Any]:
    """Returns a client's work: compares everything."""
    return partial(compare_all, truth, has_index)


def sending(truth: Truth) -> Callable[[AsyncClient], Any]:
    """Returns a client's work: sends further messages."""
    return partial(go_on, truth)


def copied(source: Path, to: Path) -> Path:
    """Copies a store as sparse files."""
    ended(["cp", "-a", "--sparse=always", str(source), str(to)])
    return to
