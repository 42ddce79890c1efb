"""Closing many things, whatever happens to some of them."""

from collections.abc import Callable, Iterable


def close_all(closes: Iterable[Callable[[], object]]) -> None:
    """Call every function, in this order; an error of one keeps no other from being called.

    Errors   the first one
    """
    failure: Exception | None = None
    for close in closes:
        try:
            close()
        except Exception as error:  # noqa: BLE001 - told when all are closed
            failure = failure or error
    if failure is not None:
        raise failure
