"""Lists that come page by page: a token is the last name of the page before."""

from collections.abc import Callable, Iterable
from typing import Final

from broker.model.administration import Page
from broker.model.errors import IllegalPageToken, RequestError
from broker.model.names import check_number

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1_000


def page_of(
    names: Iterable[str], size: int, token: str, check_name: Callable[[str], None]
) -> Page[str]:
    """Return the names behind the token's, as many as fit.

    Shape    names in order; size 0: PAGE_SIZE_DEFAULT; check_name raises for what is none of them
    Errors   IllegalNumber, IllegalPageToken
    """
    try:
        if token:
            check_name(token)
    except RequestError as error:
        raise IllegalPageToken(token=token) from error
    check_number("page_size", size, upper=PAGE_SIZE_MAX)
    size = size or PAGE_SIZE_DEFAULT
    following = [name for name in names if name > token]
    shown = following[:size]
    assert shown == sorted(shown), "a token stands for all names before it"
    return Page(shown, shown[-1] if len(following) > size else "")
