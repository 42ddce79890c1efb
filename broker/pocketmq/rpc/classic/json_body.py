"""Parses JSON bodies of requests, in which clients may put anything; encodes JSON answers."""

import json
from typing import Any, Final

from pocketmq.rpc.service import MalformedRequest
from pocketmq.wire.remoting import Command

TEXT_SIZE_MAX: Final = 32_767
"""Upper limit of a text's characters; RocketMQ limits a property block to as many bytes."""
ITEMS_MAX: Final = 4_096
"""Upper limit of the elements of a list, and of the members of an object of texts."""

Body = dict[str, Any]


def body_of(request: Command) -> Body:
    """Returns the JSON object in a request's body.

    Errors   MalformedRequest
    """
    try:
        # json.loads accepts half a surrogate pair, which cannot be encoded in an answer.
        found: Any = json.loads(request.body.decode())
        if b"\\u" in request.body:
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as failure:
        raise MalformedRequest(why=f"its body is no JSON: {str(failure)[:100]}") from failure
    if type(found) is not dict:
        raise MalformedRequest(why="its body is no JSON object")
    return found


def text_in(body: Body, name: str) -> str:
    """Returns a member that is a text, "" if it is absent.

    Errors   MalformedRequest
    """
    found = body.get(name)
    if found is None:
        return ""
    if type(found) is not str or len(found) > TEXT_SIZE_MAX:
        raise MalformedRequest(why=f"{name} is no text of at most {TEXT_SIZE_MAX} characters")
    return found


def whole_in(body: Body, name: str) -> int:
    """Returns a member that is a whole number, not negative; 0 if it is absent.

    Errors   MalformedRequest
    """
    found = body.get(name)
    if found is None:
        return 0
    if type(found) is not int or not 0 <= found < 1 << 63:
        raise MalformedRequest(why=f"{name} is no whole number of 63 bits")
    return found


def number_in(body: Body, name: str) -> int | None:
    """Returns a member that is a whole number, None if it is absent.

    Errors   MalformedRequest
    """
    found = body.get(name)
    if found is None:
        return None
    if type(found) is not int or not -(1 << 63) <= found < 1 << 63:
        raise MalformedRequest(why=f"{name} is no whole number of 64 bits")
    return found


def flag_in(body: Body, name: str) -> bool | None:
    """Returns a member that is true or false, None if it is absent.

    Errors   MalformedRequest
    """
    found = body.get(name)
    if found is not None and type(found) is not bool:
        raise MalformedRequest(why=f"{name} is neither true nor false")
    return found


def texts_in(body: Body, name: str) -> dict[str, str]:
    """Returns a member that is an object of texts; an empty one if it is absent.

    Errors   MalformedRequest
    """
    found = body.get(name)
    if found is None:
        return {}
    if type(found) is not dict or len(found) > ITEMS_MAX:
        raise MalformedRequest(why=f"{name} is no object of at most {ITEMS_MAX} members")
    return {key: text_in(found, key) for key in found}


def objects_in(body: Body, name: str) -> list[Body]:
    """Returns a member that is a list of objects; an empty one if it is absent.

    Errors   MalformedRequest
    """
    found = body.get(name)
    if found is None:
        return []
    if type(found) is not list or len(found) > ITEMS_MAX:
        raise MalformedRequest(why=f"{name} is no list of at most {ITEMS_MAX} elements")
    if any(type(one) is not dict for one in found):
        raise MalformedRequest(why=f"an element of {name} is no object")
    return found


def json_answer(content: object) -> Command:
    """Returns an answer with a JSON body, without blanks: RocketMQ's Go client cannot skip them."""
    return Command(0, body=json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
