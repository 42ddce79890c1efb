"""Lists that come page by page: a token is the last name of the page before."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.model.errors import IllegalGroup, IllegalPageToken, IllegalTopic
from broker.model.topic_names import check_group, check_topic
from broker.rpc.v1.convert import check_number

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1_000


class Page(NamedTuple):
    """Some names in order; an empty token says that there are no more."""

    names: list[str]
    next_token: str


def page_of(names: Iterable[str], size: int, token: str) -> Page:
    """Return the names behind the token's, as many as fit.

    Shape    names in order; size 0: PAGE_SIZE_DEFAULT
    Errors   IllegalNumber
    """
    check_number("page_size", size, upper=PAGE_SIZE_MAX)
    size = size or PAGE_SIZE_DEFAULT
    following = [name for name in names if name > token]
    shown = following[:size]
    return Page(shown, shown[-1] if len(following) > size else "")


def check_topic_token(token: str) -> None:
    """Raise IllegalPageToken unless the token is empty or may be a topic's name, as ours are."""
    try:
        if token:
            check_topic(token)
    except IllegalTopic as error:
        raise IllegalPageToken(token=token) from error


def check_group_token(token: str) -> None:
    """Raise IllegalPageToken unless the token is empty or may be a group's name, as ours are."""
    try:
        if token:
            check_group(token)
    except IllegalGroup as error:
        raise IllegalPageToken(token=token) from error
