"""Messages of `pocketmq produce` from lines: plain bodies, JSON documents, or a repeated body."""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, BinaryIO, Final

from pocketmq.client import Message
from pocketmq.format.json_text import read_object
from pocketmq.model.message import RESERVED_PROPERTIES

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
"""A line with these fields was printed by `consume -o jsonl`: its body is base64."""
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


def json_messages(groups: Iterable[list[bytes]], model: Message) -> Iterator[list[Message]]:
    """Yields groups of messages from lines of JSON; empty lines are skipped.

    model    has the fields that a line leaves out; a line's properties override the model's
    Errors   BadLine, after the messages of all lines before it
    """
    number = 0
    for group in groups:
        messages: list[Message] = []
        for line in group:
            number += 1
            try:
                messages += [message_of(line, number, model)] if line else []
            except BadLine:
                yield messages
                raise
        yield messages


def message_of(line: bytes, number: int, model: Message) -> Message:
    """Returns the message of one line of JSON.

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
    except ValueError as error:
        raise BadLine(number, str(error)) from error
    fields["keys"] = fields["keys"] or model.keys
    fields["properties"] = {**model.properties, **fields["properties"]}
    return replace(model, **fields)


def _document(line: bytes) -> dict[str, Any]:
    try:
        return read_object(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
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
    delays = (message.delay_level, message.delay_ms, message.deliver_at_ms)
    is_delayed = delays != (None, None, None)
    return message.message_group, message.queue_id, message.priority, is_delayed
