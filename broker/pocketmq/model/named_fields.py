"""Errors of value classes for keywords that are no field of theirs."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

Made = TypeVar("Made")


def lists_fields(kind: type[Made]) -> type[Made]:
    """Makes the error of an unknown keyword name the fields that a dataclass or NamedTuple has.

    Errors   of the class: TypeError: "ReceiveQuery has no count; it has group, topic, …"
    """
    name = "__new__" if issubclass(kind, tuple) else "__init__"
    make: Callable[..., Any] = getattr(kind, name)

    @wraps(make)
    def checked(*args: Any, **fields: Any) -> Any:
        try:
            return make(*args, **fields)
        except TypeError:
            known = [*signature(make).parameters][1:]
            unknown = [field for field in fields if field not in known]
            if not unknown:
                raise
        text = f"{kind.__name__} has no {', '.join(unknown)}; it has {', '.join(known)}"
        raise TypeError(text)

    setattr(kind, name, checked)
    return kind
