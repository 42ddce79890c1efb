"""Requests of every method, and the ways to their fields.

request = good_request(method.request)              names what is there
for way in ways_to(request.DESCRIPTOR, TEXTS): …    ("messages", "properties", "key")
put(request, way, "../x")
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Way = tuple[str, ...]
TEXTS: Final = frozenset({FieldDescriptor.TYPE_STRING})
NAMES: Final = {
    "topic": "orders",
    "group": "g",
    "name": "orders",
    "key": "k",
    "id": "ID",
    "source_group": "g",
    "target_group": "h",
}


def good_request(kind: type[Message]) -> Any:
    """Returns a request that names what exists, where its type has the fields."""
    made: Any = kind()
    for name, value in NAMES.items():
        if name in made.DESCRIPTOR.fields_by_name:
            setattr(made, name, value)
    if "messages" in made.DESCRIPTOR.fields_by_name:
        made.messages.add(topic="orders", body=b"x")
    return made


def is_map(field: Any) -> bool:
    """Returns whether a field is a map of texts."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def ways_to(descriptor: Any, types: Collection[int], above: Way = ()) -> Iterator[Way]:
    """Yields the path to every field of some types; paths to map texts end with key or value."""
    for field in descriptor.fields:
        here = (*above, field.name)
        if field.type in types:
            yield here
        elif is_map(field):
            parts = field.message_type.fields_by_name
            yield from ((*here, part) for part in ("key", "value") if parts[part].type in types)
        elif field.message_type is not None:
            yield from ways_to(field.message_type, types, here)


def field_at(descriptor: Any, way: Way) -> Any:
    """Returns the descriptor of the field a way leads to."""
    field = descriptor.fields_by_name[way[0]]
    return field_at(field.message_type, way[1:]) if len(way) > 1 else field


def put(message: Message, way: Way, value: Any) -> None:
    """Sets a field, and what it takes that the rest is taken for a good request."""
    name, *rest = way
    field: Any = getattr(message, name)
    described: Any = message.DESCRIPTOR.fields_by_name[name]
    if is_map(described):
        parts = described.message_type.fields_by_name
        entry = {part: "x" if parts[part].type in TEXTS else 0 for part in ("key", "value")}
        entry[rest[0]] = value
        field[entry["key"]] = entry["value"]
    elif rest:
        inner = (field[0] if field else field.add()) if described.is_repeated else field
        put(inner, tuple(rest), value)
    elif described.is_repeated:
        field[:] = [value]
    else:
        setattr(message, name, value)
