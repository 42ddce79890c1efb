"""Messages of `pocketmq produce` from lines: plain bodies, JSON documents, or a repeated body."""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, BinaryIO, Final

from pocketmq.client import Message
from pocketmq.format.delayed_message import timer_due_ms
from pocketmq.format.json_text import NotJson, read_object
from pocketmq.model.decimal import number_of
from pocketmq.model.message import (
    DELAY,
    INT32_MAX,
    OFFSET_MAX,
    REAL_TOPIC,
    RESERVED_PROPERTIES,
    TIMER_DELETE,
)
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC

BATCH_BYTES: Final = 1024 * 1024
"""Upper limit of the bodies' bytes in a batch of several; the broker's default limit is 4 MiB."""
READ_SIZE: Final = 256 * 1024
GROUP_COUNT: Final = 1_024
"""Messages in one group, if a body is repeated."""
NUMBER: Final = "{n}"
"""What --template replaces by the number of a message."""
SHOWN_SIZE: Final = 40
"""Bytes of a line that an error quotes."""
EXAMPLE_LINE: Final = '{"body": "hello", "keys": ["k1"]}'
STORED: Final = frozenset({"queue_offset", "store_timestamp_ms"})
"""A line with these fields is of `consume -o jsonl` or `store export`: its body is base64."""
FIELDS: Final[dict[str, type]] = {
    "tag": str,
    "queue_id": int,
    "message_group": str,
    "delay_level": int,
    "deliver_at_ms": int,
    "delay_ms": int,
    "priority": int,
}
"""Optional fields of a line besides body, keys and properties."""


@dataclass(slots=True)
class Replay:
    """The stored lines that were read: where they were, and which of them were delayed.

    now_ms   wall time, with which delivery times are compared
    topics   topics for which their messages were sent
    past     lines of delayed messages whose delivery time is past
    levels   lines of messages with a delay level, whose delay begins again
    recalls  lines that recall a delayed message; they are left out
    halves   lines of transactions, decided ones too
    """

    now_ms: int
    topics: set[str] = field(default_factory=set)
    past: int = 0
    levels: int = 0
    recalls: int = 0
    halves: int = 0

    def notes(self, topic: str) -> list[str]:
        """Returns what a user must know about messages that were sent again to a topic."""
        found = []
        if len(self.topics) > 1:
            found += [f"the lines were of {len(self.topics)} topics; all were sent to {topic}"]
        if self.past:
            said = f"{_lines(self.past)} had a delivery time that is past, so it may be a duplicate"
            found += [f"{said}; such a message is in {topic} at once"]
        if self.levels:
            found += [f"{_lines(self.levels)} had a delay level; the delay begins again"]
        if self.recalls:
            found += [f"{_lines(self.recalls)} left out: each recalls a delayed message"]
        if self.halves:
            said = f"{_lines(self.halves)} had a transaction, which may be decided"
            found += [f"{said}: committed messages are in their topic too"]
        return found

    def delay_of(self, document: dict[str, Any]) -> dict[str, int]:
        """Counts a stored line; returns its delay as fields of a message, if it waited for it."""
        topic, stored_ms = document.get("topic"), document["store_timestamp_ms"]
        properties = document.get("properties", {})
        self.topics.add(properties.get(REAL_TOPIC) or str(topic))
        self.halves += topic == HALF_TOPIC
        if topic == SCHEDULE_TOPIC:
            level = number_of(properties.get(DELAY, ""), INT32_MAX)
            self.levels += level > 0
            return {"delay_level": level} if level > 0 else {}
        if topic != TIMER_TOPIC:
            return {}
        if not isinstance(stored_ms, int) or not 0 <= stored_ms <= OFFSET_MAX:
            raise ValueError("store_timestamp_ms is no time in ms since 1970")
        due_ms = timer_due_ms(properties, stored_ms)
        assert due_ms >= 0
        self.past += due_ms <= self.now_ms
        return {"deliver_at_ms": due_ms} if due_ms else {}


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


class BadLine(ValueError):
    """A line that is no message; `number` counts from 1."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number}: {why}")
        self.number = number


def line_groups(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yields lists of the lines that are available, without line ends."""
    rest = b""
    # Binary files and standard input are buffered readers, which have read1.
    while piece := stream.read1(READ_SIZE):  # type: ignore[attr-defined]
        *whole, rest = (rest + piece).split(b"\n")
        yield [line.removesuffix(b"\r") for line in whole]
    yield [rest.removesuffix(b"\r")]


def plain_messages(groups: Iterable[list[bytes]], model: Message) -> Iterator[list[Message]]:
    """Yields groups of messages whose bodies are lines; empty lines are skipped."""
    for group in groups:
        yield [replace(model, body=line) for line in filter(None, group)]


def json_messages(
    groups: Iterable[list[bytes]], model: Message, replay: Replay
) -> Iterator[list[Message]]:
    """Yields groups of messages from lines of JSON; empty lines are skipped.

    model    has the fields that a line leaves out; a line's properties override the model's
    replay   counts stored lines
    Errors   BadLine, after the messages of all lines before it
    """
    number = 0
    for group in groups:
        messages: list[Message] = []
        for line in group:
            number += 1
            try:
                messages += message_of(line, number, model, replay) if line else []
            except BadLine:
                yield messages
                raise
        yield messages


def message_of(line: bytes, number: int, model: Message, replay: Replay) -> list[Message]:
    """Returns the message of one line of JSON; none for a stored line that recalls another one.

    Errors   BadLine
    """
    try:
        document = _document(line)
        is_stored = document.keys() >= STORED
        fields: dict[str, Any] = {"body": _body(document, is_stored=is_stored)}
        keys = document.get("keys", [])
        fields["keys"] = [keys] if isinstance(keys, str) else keys
        if not isinstance(keys, str | list) or not all(isinstance(one, str) for one in keys):
            raise ValueError("keys is neither a text nor a list of texts")
        fields["properties"] = _properties(document, is_stored=is_stored)
        names = ("tag", "message_group") if is_stored else tuple(FIELDS)
        for name in names:
            value = document.get(name)
            if value is not None:
                if not isinstance(value, FIELDS[name]) or isinstance(value, bool):
                    raise ValueError(f"{name} is no {_KIND_NAMES[FIELDS[name]]}")
                fields[name] = value
        unknown = document.keys() - FIELDS.keys() - KNOWN
        if unknown and not is_stored:
            raise ValueError(f"unknown field {min(unknown)!r}; there are {', '.join(_ALL)}")
        if is_stored and TIMER_DELETE in document.get("properties", {}):
            replay.recalls += 1
            return []
        if is_stored:
            delay = replay.delay_of(document)
            fields |= {} if _is_delayed(model) else delay
    except ValueError as error:
        raise BadLine(number, str(error)) from error
    fields["keys"] = fields["keys"] or model.keys
    fields["properties"] = {**model.properties, **fields["properties"]}
    return [replace(model, **fields)]


def _document(line: bytes) -> dict[str, Any]:
    try:
        return read_object(line)
    except NotJson as error:
        found = line[:SHOWN_SIZE].decode("utf-8", "replace")
        raise ValueError(f"{found!r} is not JSON, such as {EXAMPLE_LINE}") from error


KNOWN: Final = frozenset({"body", "body_base64", "body_text", "keys", "properties"})
_KIND_NAMES: Final[dict[type, str]] = {str: "text", int: "integer"}
_ALL: Final = ("body", "body_base64", "keys", "properties", *FIELDS)


def _body(document: dict[str, Any], *, is_stored: bool) -> bytes:
    encoded = document.get("body_base64", document.get("body") if is_stored else None)
    text = document.get("body_text") if is_stored else document.get("body")
    if encoded is not None and text is not None and not is_stored:
        raise ValueError("body and body_base64 exclude each other")
    body = b""
    if encoded is not None:
        if not isinstance(encoded, str):
            raise ValueError("body_base64 is no text")
        body = b64decode(encoded, validate=True)
    elif isinstance(text, str):
        body = text.encode()
    elif isinstance(text, dict | list):
        body = json.dumps(text, ensure_ascii=False, separators=(",", ":")).encode()
    if not body:
        raise ValueError("it has no body: give body or body_base64")
    return body


def _properties(document: dict[str, Any], *, is_stored: bool) -> dict[str, str]:
    properties = document.get("properties", {})
    if not isinstance(properties, dict):
        raise ValueError("properties is no object")
    if not all(isinstance(value, str) for value in properties.values()):
        raise ValueError("properties has a value that is no text")
    if not is_stored:
        return properties
    return {
        name: value
        for name, value in properties.items()
        if name not in RESERVED_PROPERTIES and not name.startswith("TIMER_")
    }


def repeated(model: Message, amount: int, *, is_template: bool) -> Iterator[list[Message]]:
    """Yields `amount` messages in groups; a template's {n} is a message's number from 0."""
    for begin in range(0, amount, GROUP_COUNT):
        numbers = range(begin, min(begin + GROUP_COUNT, amount))
        yield [filled(model, str(number)) if is_template else model for number in numbers]


def filled(model: Message, text: str) -> Message:
    """Returns a message with {n} replaced in body, keys, message group and property values."""
    group = model.message_group
    return replace(
        model,
        body=model.body.replace(NUMBER.encode(), text.encode()),
        keys=[key.replace(NUMBER, text) for key in model.keys],
        message_group=group and group.replace(NUMBER, text),
        properties={name: one.replace(NUMBER, text) for name, one in model.properties.items()},
    )


def batches(groups: Iterable[list[Message]], count_max: int) -> Iterator[list[Message]]:
    """Yields lists of messages, each for one request, in order.

    The messages of a request have one kind, message group, queue and priority, as a broker stores
    them together. A batch contains messages of one of `groups`, so that no message waits for a
    slow pipe to complete the next group.
    """
    assert count_max > 0, "batches without messages"
    for group in groups:
        for _, alike in groupby(group, _together):
            yield from _sized(alike, count_max)


def _sized(messages: Iterable[Message], count_max: int) -> Iterator[list[Message]]:
    batch: list[Message] = []
    size = 0
    for message in messages:
        if len(batch) == count_max or (batch and size + len(message.body) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.body)
    yield batch


def _together(message: Message) -> tuple[object, ...]:
    return message.message_group, message.queue_id, message.priority, _is_delayed(message)


def _is_delayed(message: Message) -> bool:
    return (message.delay_level, message.delay_ms, message.deliver_at_ms) != (None, None, None)
