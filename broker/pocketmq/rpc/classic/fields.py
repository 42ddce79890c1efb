"""Parses the fields of a request's header; a client may put any text in them."""

from typing import Final

from pocketmq.model.decimal import number_of, signed_number_of
from pocketmq.model.errors import IllegalNumber
from pocketmq.model.message import INT32_MAX
from pocketmq.rpc.service import MalformedRequest
from pocketmq.wire.remoting import Command

_TRUE: Final = "true"


def text_field(request: Command, name: str) -> str:
    """Returns a required field.

    Errors   MalformedRequest: it is absent
    """
    value = request.fields.get(name)
    if value is None:
        raise MalformedRequest(why=f"field {name} is missing")
    return value


def number_field(
    request: Command,
    name: str,
    *,
    lower: int = 0,
    upper: int = INT32_MAX,
    absent: int | None = None,
) -> int:
    """Returns a field that is a number from `lower` to `upper`.

    absent   value of an absent field; None: the field is required
    Errors   MalformedRequest, IllegalNumber
    """
    text = request.fields.get(name)
    if text is None and absent is not None:
        return absent
    text = text_field(request, name)
    found = signed_number_of(text) if lower < 0 else number_of(text)
    if found is None or (lower >= 0 and found < 0):
        raise MalformedRequest(why=f"field {name} is no number")
    if not lower <= found <= upper:
        raise IllegalNumber(field=name, value=found, lower=lower, upper=upper)
    return found


def flag_field(request: Command, name: str) -> bool:
    """Returns whether a field is "true" in any case, as Java parses booleans; absent: False."""
    return request.fields.get(name, "").lower() == _TRUE
